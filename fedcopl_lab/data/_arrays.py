"""Sets whose official files hold all images as one array: CIFAR-10, CIFAR-100, SVHN."""

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._manifests import Manifest
from fedcopl_lab.data._sources import ImageSource, label_of, pixel_source

_CIFAR_FILES = {
    "cifar-10-batches-py": (tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",), "batches.meta"),
    "cifar-100-python": (("train",), ("test",), "meta"),
}


def cifar(manifest: Manifest, folder: Path) -> ImageSource:
    """The python version of CIFAR-10 or CIFAR-100; every file's md5 is checked before a byte is interpreted."""
    train, test, meta = _CIFAR_FILES[manifest.folder]
    names = _read(manifest, folder, meta)
    official = [name.decode() for name in names.get(b"label_names", names.get(b"fine_label_names", []))]
    if [label_of(manifest, name) for name in official] != list(range(len(manifest.classes))):
        raise FedCoPLError(
            f"{manifest.name}: {meta} lists other classes than {manifest.path.name}; take the official files again"
        )
    batches = [_read(manifest, folder, name) for name in (*train, *test)]
    parts = [batch.get(b"labels", batch.get(b"fine_labels", [])) for batch in batches]
    labels = np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
    pixels = np.concatenate([np.asarray(batch[b"data"], dtype=np.uint8) for batch in batches])
    n_train = sum(len(part) for part in parts[: len(train)])
    return pixel_source(manifest, pixels.reshape(-1, 3, 32, 32), labels, n_train, folder)


def svhn(manifest: Manifest, folder: Path) -> ImageSource:
    """Cropped digits in MATLAB files, whose label 10 is the digit 0."""
    from scipy.io import loadmat  # slow to import, needed for this set only

    parts = []
    for file in manifest.files:
        content = checked_bytes(manifest, folder / file.name, file.md5)
        table = loadmat(io.BytesIO(content), variable_names=["X", "y"])
        parts.append((table["X"].transpose(3, 2, 0, 1), table["y"].reshape(-1).astype(np.int64) % 10))
    pixels: npt.NDArray[np.uint8] = np.ascontiguousarray(np.concatenate([images for images, _ in parts]))
    labels = np.concatenate([labels for _, labels in parts])
    return pixel_source(manifest, pixels, labels, len(parts[0][1]), folder)


def checked_bytes(manifest: Manifest, path: Path, md5: str) -> bytes:
    """The bytes of a file whose md5 is known."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedCoPLError(
            f"{manifest.name}: cannot read {path} ({error.strerror}); "
            f"get it with `fedcopl-lab data get {manifest.name}`"
        ) from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise FedCoPLError(
            f"{manifest.name}: {path} has md5 {found}, but its manifest says {md5}; the file is kept: look at it, "
            f"then fetch it again with `fedcopl-lab data get {manifest.name} --replace`"
        )
    return content


def _read(manifest: Manifest, folder: Path, name: str) -> dict[bytes, Any]:
    known = {member.path: member.md5 for member in manifest.members}
    path = f"{manifest.folder}/{name}"
    content = checked_bytes(manifest, folder / path, known[path])
    table = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(table, dict):
        raise FedCoPLError(f"{manifest.name}: {folder / path} holds a {type(table).__name__}; expected a table")
    return table


class _ArraysOnly(pickle.Unpickler):
    """Reads plain values and NumPy arrays; a pickle that asks for anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _empty_array
        raise FedCoPLError(f"a pickle asks for {module}.{name}; only arrays are read: take the official files again")


def _empty_array(kind: type, shape: tuple[int, ...], dtype: bytes) -> npt.NDArray[Any]:
    # What NumPy's own _reconstruct does, under a name that every version of NumPy has.
    return np.ndarray.__new__(np.ndarray, shape, dtype.decode() if isinstance(dtype, bytes) else dtype)
