"""Which reader understands the official files of which set."""

from collections.abc import Callable
from pathlib import Path

from fedcopl_lab.data._arrays import cifar, svhn
from fedcopl_lab.data._listed import cinic10, cub, dtd, resisc45, ucf101
from fedcopl_lab.data._manifests import Manifest
from fedcopl_lab.data._roots import find_set
from fedcopl_lab.data._sources import ImageSource

READERS: dict[str, Callable[[Manifest, Path], ImageSource]] = {
    "cifar": cifar,
    "svhn": svhn,
    "cinic10": cinic10,
    "dtd": dtd,
    "resisc45": resisc45,
    "cub": cub,
    "ucf101": ucf101,
}


def read_source(manifest: Manifest, root: str | Path | None = None) -> ImageSource:
    """The official files of a set, listed and checked but not yet decoded.

    Raises:
        FedCoPLError: when the set is not there, or its files are not what the manifest says.

    >>> read_source(load_manifest("cifar10"))
    ImageSource(50000 train + 10000 test pixels)
    """
    return READERS[manifest.loader](manifest, find_set(manifest, root))
