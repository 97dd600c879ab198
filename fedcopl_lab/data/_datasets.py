"""Data sets in memory: images, labels, class names and the one fixed train/test split."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._manifests import Manifest, load_manifest

# The papers' sets: named here so that asking for one is answered with what to do instead.
PAPER_DATASETS = ("cifar10", "cifar100", "dtd", "resisc45", "cub", "ucf101", "svhn", "cinic10")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with labels, class names and a fixed train/test split.

    Attributes:
        name: short name, such as ``"digits"``.
        images: all images, training and test, 0..255, ``[n, 3, h, w]``; grey ones have equal channels.
        labels: class of every image, ``[n]``.
        class_names: one name per class, in label order.
        template: zero-shot prompt with one ``{}`` for the class name.
        train_indices: positions of the training images in ``images``, rising.
        test_indices: positions of the test images in ``images``, rising.
        sha256: of pixels, labels and split; part of every run key.
        manifest: source, licence, citation and checksums.
    """

    name: str
    images: UInt8[Tensor, "n 3 h w"]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    template: str
    train_indices: Int64[Tensor, " n_train"]
    test_indices: Int64[Tensor, " n_test"]
    sha256: str
    manifest: Manifest

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def train_labels(self) -> Int64[Tensor, " n_train"]:
        """Labels of the training images, in the order of ``train_indices``."""
        return self.labels[self.train_indices]

    @property
    def test_labels(self) -> Int64[Tensor, " n_test"]:
        """Labels of the test images, in the order of ``test_indices``."""
        return self.labels[self.test_indices]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        height, width = self.images.shape[-2:]
        return (
            f"Dataset({self.name}: {len(self.train_indices)} train + {len(self.test_indices)} test images, "
            f"{height}x{width}, {self.n_classes} classes)"
        )


def load_dataset(name: str, root: str | Path | None = None) -> Dataset:
    """Load a data set with its fixed train/test split and check it against its manifest.

    FedCoPL, supplement, Table 1 lists the papers' sets; ``"digits"`` is the set that needs no download:
    scikit-learn's 1,797 handwritten digits, 8x8 grey levels 0..16 stretched to 0..255.

    Args:
        name: ``"digits"``.
        root: folder with downloaded data sets; ``"digits"`` does not need one.

    Returns:
        The :class:`Dataset`; the same object for the same arguments.

    Raises:
        FedCoPLError: when the name is unknown or not available, or the data do not match the manifest.

    >>> load_dataset("digits")
    Dataset(digits: 1197 train + 600 test images, 8x8, 10 classes)

    Shown in notebook ``00_quickstart``.
    """
    if name in _LOADERS:
        return _load_cached(name)
    available = ", ".join(repr(known) for known in _LOADERS)
    if name in PAPER_DATASETS:
        raise FedCoPLError(f"data set {name!r} is not available in this version; load {available} instead")
    if name.startswith("folder:"):
        raise FedCoPLError(f"data set {name!r}: images from a folder come in a later version; load {available} instead")
    known_names = (*_LOADERS, *PAPER_DATASETS)
    close = get_close_matches(name.lower(), known_names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise FedCoPLError(
        f"no data set is named {name!r}; {hint}known names: {', '.join(known_names)}; "
        f"available in this version: {available}"
    )


@lru_cache(maxsize=8)
def _load_cached(name: str) -> Dataset:
    manifest = load_manifest(name)
    images, labels = _LOADERS[name]()
    _check_content(manifest, images, labels)
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    is_test[list(manifest.test_indices)] = True
    train_indices = torch.nonzero(~is_test).squeeze(1)
    test_indices = torch.nonzero(is_test).squeeze(1)
    _check_digest(manifest, "split.sha256", manifest.split_sha256, tensors_sha256(train_indices, test_indices))
    return Dataset(
        name=name,
        images=images,
        labels=labels,
        class_names=manifest.classes,
        template=manifest.template,
        train_indices=train_indices,
        test_indices=test_indices,
        sha256=tensors_sha256(images, labels, train_indices, test_indices),
        manifest=manifest,
    )


def tensors_sha256(*tensors: Tensor) -> str:
    """Checksum of the tensors' bytes, one after the other, C order and little endian."""
    digest = hashlib.sha256()
    for tensor in tensors:
        array = tensor.contiguous().numpy()
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _check_content(manifest: Manifest, images: UInt8[Tensor, "n 3 h w"], labels: Int64[Tensor, " n"]) -> None:
    n_images = manifest.n_train + manifest.n_test
    if len(images) != n_images:
        raise FedCoPLError(
            f"{manifest.name} has {len(images)} images, but {manifest.path.name} says {n_images}; "
            f"its source has changed: install a package version that goes with this manifest"
        )
    _check_digest(manifest, "content_sha256", manifest.content_sha256, tensors_sha256(images, labels))


def _check_digest(manifest: Manifest, field: str, expected: str, found: str) -> None:
    if found != expected:
        raise FedCoPLError(
            f"{manifest.name} has checksum {found}, but {field} in {manifest.path} is {expected}; "
            "the data or the manifest were changed: install scikit-learn and fedcopl-lab again"
        )


def _digits() -> tuple[UInt8[Tensor, "n 3 8 8"], Int64[Tensor, " n"]]:
    from sklearn.datasets import load_digits  # slow to import, needed for this set only

    bunch = load_digits()
    grey = torch.from_numpy(np.rint(bunch.images * 255 / 16).astype(np.uint8))
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    return grey[:, None].expand(-1, 3, -1, -1).contiguous(), labels


_LOADERS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {"digits": _digits}
