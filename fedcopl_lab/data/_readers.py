"""Readers of the sets' official files: each lists or loads the images of one set and checks them."""

import hashlib
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._folders import find_set
from fedcopl_lab.data._image_source import ImageSource, file_source, image_names, label_of, pixel_source, read_text
from fedcopl_lab.data._manifests import Manifest

_CIFAR_FILES = {
    "cifar-10-batches-py": (tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",), "batches.meta"),
    "cifar-100-python": (("train",), ("test",), "meta"),
}
_COOP_SPLITS = {"dtd": "split_zhou_DescribableTextures.json", "ucf101": "split_zhou_UCF101.json"}


def read_source(manifest: Manifest, root: str | Path | None = None) -> ImageSource:
    """The official files of a set, listed and checked but not yet decoded.

    Raises:
        FedCoPLError: when the set is not there or part of the package, or its files are not what the manifest says.
    """
    if not manifest.files:
        raise FedCoPLError(f"{manifest.name} is part of the package and has no files; use load_dataset")
    return READERS[manifest.loader](manifest, find_set(manifest, root))


def _cifar(manifest: Manifest, folder: Path) -> ImageSource:
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


def _svhn(manifest: Manifest, folder: Path) -> ImageSource:
    """Cropped digits in MATLAB files, whose label 10 is the digit 0."""
    from scipy.io import loadmat  # slow to import, needed for this set only

    parts = []
    for file in manifest.files:
        content = _checked_bytes(manifest, folder / file.name, file.md5)
        table = loadmat(io.BytesIO(content), variable_names=["X", "y"])
        parts.append((table["X"].transpose(3, 2, 0, 1), table["y"].reshape(-1).astype(np.int64) % 10))
    pixels: npt.NDArray[np.uint8] = np.ascontiguousarray(np.concatenate([images for images, _ in parts]))
    labels = np.concatenate([labels for _, labels in parts])
    return pixel_source(manifest, pixels, labels, len(parts[0][1]), folder)


def _checked_bytes(manifest: Manifest, path: Path, md5: str) -> bytes:
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
    content = _checked_bytes(manifest, folder / path, known[path])
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


def _cinic10(manifest: Manifest, folder: Path) -> ImageSource:
    """Folders train and test with one folder per class; images by class, then by name."""
    parts = []
    for part in ("train", "test"):
        classes = {entry.name: entry for entry in sorted(folder.glob(f"{part}/*")) if entry.is_dir()}
        listed = [
            (f"{part}/{name}/{image}", label_of(manifest, name))
            for name, entry in sorted(classes.items())
            for image in image_names(entry)
        ]
        parts.append(listed)
    return file_source(manifest, folder, *parts)


def _resisc45(manifest: Manifest, folder: Path) -> ImageSource:
    """The zip's class folders with ELEVATER's annotation files (COCO's form: images, annotations, categories)."""
    train, val, test = (_coco(manifest, folder / f"{part}.json") for part in ("train", "val", "test"))
    return file_source(manifest, folder / manifest.folder, [*train, *val], test)


def _cub(manifest: Manifest, folder: Path) -> ImageSource:
    """The official text files: images.txt, image_class_labels.txt, train_test_split.txt, classes.txt."""
    base = folder / manifest.folder
    names, labels, is_train, classes = (
        _numbered(manifest, base / file)
        for file in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
    )
    for number, official in classes.items():
        if label_of(manifest, official.split(".", 1)[-1].lower()) != int(number) - 1:
            raise FedCoPLError(f"{manifest.name}: class {number} is {official!r}, another one in {manifest.path.name}")
    if not names.keys() == labels.keys() == is_train.keys():
        raise FedCoPLError(f"{manifest.name}: the lists in {base} speak of different images; take the official files")
    listed = {part: [(names[i], int(labels[i]) - 1) for i in names if is_train[i] == part] for part in ("1", "0")}
    return file_source(manifest, base / "images", listed["1"], listed["0"])


def _coop(manifest: Manifest, folder: Path) -> ImageSource:
    """Images of an archive with CoOp's split: DTD, and the middle frames of UCF101."""
    name = _COOP_SPLITS[manifest.loader]
    beside = [path for path in (folder / name, folder / manifest.folder / name) if path.is_file()]
    table = _json(manifest, beside[0] if beside else folder / name)
    parts: list[list[tuple[str, int]]] = []
    for part in ("train", "test"):
        try:
            parts.append([(str(image), label_of(manifest, str(official))) for image, _, official in table[part]])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, FedCoPLError):
                raise
            raise FedCoPLError(f"{manifest.name}: {name} has no list {part!r} of [file, label, class]") from error
    images = folder / manifest.folder / ("images" if manifest.loader == "dtd" else "")
    return file_source(manifest, images, *parts)


def _coco(manifest: Manifest, path: Path) -> list[tuple[str, int]]:
    table = _json(manifest, path)
    try:
        classes = {entry["id"]: label_of(manifest, entry["name"]) for entry in table["categories"]}
        label = {entry["image_id"]: classes[entry["category_id"]] for entry in table["annotations"]}
        files = [(entry["file_name"].rsplit("/", 1)[-1], label[entry["id"]]) for entry in table["images"]]
    except (KeyError, TypeError) as error:
        raise FedCoPLError(f"{manifest.name}: {path} has not the form of COCO annotations ({error!r})") from error
    return [(f"{file.rsplit('_', 1)[0]}/{file}", label) for file, label in files]


def _json(manifest: Manifest, path: Path) -> dict[str, Any]:
    text = read_text(manifest, path)
    try:
        table = json.loads(text)
    except ValueError as error:
        raise FedCoPLError(f"{manifest.name}: {path} is not valid JSON ({error}); get the file again") from error
    if not isinstance(table, dict):
        raise FedCoPLError(f"{manifest.name}: {path} holds a {type(table).__name__}; expected a table")
    return table


def _numbered(manifest: Manifest, path: Path) -> dict[str, str]:
    lines = [line.split() for line in read_text(manifest, path).splitlines() if line.strip()]
    if any(len(line) != 2 for line in lines):
        raise FedCoPLError(f"{manifest.name}: {path} has a line that is not 'number value'; take the official file")
    return {line[0]: line[1] for line in lines}


READERS: dict[str, Callable[[Manifest, Path], ImageSource]] = {
    "cifar": _cifar,
    "svhn": _svhn,
    "cinic10": _cinic10,
    "dtd": _coop,
    "resisc45": _resisc45,
    "cub": _cub,
    "ucf101": _coop,
}
