"""Images as the official files have them: undecoded, in a fixed order, with labels; training images first."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._manifests import Manifest

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
Listed = Sequence[tuple[str, int]]


@dataclass(frozen=True, eq=False)
class ImageSource:
    """The images of a set before they are decoded: pixels in memory, or files."""

    pixels: npt.NDArray[np.uint8] | None  # uint8 [n, 3, h, w], or None when the images are files
    root: Path  # folder that the files lie in
    names: tuple[str, ...]  # one name per image, relative to root; empty when there are pixels
    labels: npt.NDArray[np.int64]  # class of every image, int64 [n]; training images first
    n_train: int  # how many of them are training images

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def listing_sha256(self) -> str:
        """Checksum of names, labels and the number of training images."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        digest.update(self.labels.astype("<i8").tobytes())
        digest.update(self.n_train.to_bytes(8, "little"))
        return digest.hexdigest()

    def __repr__(self) -> str:
        kind = "pixels" if self.pixels is not None else "files"
        return f"ImageSource({self.n_train} train + {len(self) - self.n_train} test {kind})"


def pixel_source(
    manifest: Manifest, pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], n_train: int, root: Path
) -> ImageSource:
    """A source of images in memory, after a check against the manifest."""
    _check_counts(manifest, n_train, len(labels) - n_train)
    _check_labels(manifest, labels)
    return ImageSource(pixels, root, (), labels, n_train)


def file_source(manifest: Manifest, root: Path, train: Listed, test: Listed) -> ImageSource:
    """A source of image files, each given as (name relative to ``root``, label), after a check."""
    _check_counts(manifest, len(train), len(test))
    names = tuple(name for name, _ in (*train, *test))
    labels = np.array([label for _, label in (*train, *test)], dtype=np.int64)
    _check_labels(manifest, labels)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FedCoPLError(f"{manifest.name}: image {twice} is listed twice; take the official files again")
    for name in names:
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
            raise FedCoPLError(f"{manifest.name}: image {name!r} leaves its folder; take the official files again")
    return ImageSource(None, root, names, labels, len(train))


def _check_counts(manifest: Manifest, n_train: int, n_test: int) -> None:
    """Refuse another number of images than the manifest says."""
    if (n_train, n_test) != (manifest.n_train, manifest.n_test):
        raise FedCoPLError(
            f"{manifest.name} has {n_train} training and {n_test} test images, but {manifest.path.name} says "
            f"{manifest.n_train} and {manifest.n_test}; check the files with `fedcopl-lab data verify {manifest.name}`"
        )


def _check_labels(manifest: Manifest, labels: npt.NDArray[np.int64]) -> None:
    """Refuse a class without an image, or a label without a class."""
    present = np.unique(labels)
    if not np.array_equal(present, np.arange(len(manifest.classes))):
        raise FedCoPLError(
            f"{manifest.name} has images of {len(present)} classes with labels {present.min()} to {present.max()}, "
            f"but {manifest.path.name} names {len(manifest.classes)} classes; take the official files again"
        )


def label_of(manifest: Manifest, official: str) -> int:
    """Label of an official class name, in which underscores stand for spaces."""
    name = official.replace("_", " ")
    try:
        return manifest.classes.index(name)
    except ValueError:
        raise FedCoPLError(
            f"{manifest.name}: the files name a class {official!r}, which is not among the {len(manifest.classes)} "
            f"of {manifest.path.name}; take the official files again"
        ) from None


def image_names(folder: Path) -> list[str]:
    """Names of the image files in a folder, sorted; other files are left out."""
    return sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() in IMAGE_ENDINGS)


def read_text(manifest: Manifest, path: Path) -> str:
    """A text file of the set, or an error that names it."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise FedCoPLError(
            f"{manifest.name}: cannot read {path} ({reason}); get it with `fedcopl-lab data get {manifest.name}`"
        ) from error
