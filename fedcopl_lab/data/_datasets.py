"""Data sets in memory: images, labels, class names and the one fixed train/test split."""

import hashlib
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, check_known
from fedcopl_lab.data._folders import data_root
from fedcopl_lab.data._image_cache import cached_images
from fedcopl_lab.data._image_source import ImageSource
from fedcopl_lab.data._manifests import Manifest, load_manifest
from fedcopl_lab.data._own_folder import own_folder
from fedcopl_lab.data._parts import GREY, PartName, counts_of, draw_part, seen_positions, split_name
from fedcopl_lab.data._readers import read_source

DIGITS = "digits"  # the one set that needs no download

# The sets of FedCoPL (supplement, Table 1) and SAGE.
PAPER_DATASETS = ("cifar10", "cifar100", "dtd", "resisc45", "cub", "ucf101", "svhn", "cinic10")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with labels, class names and a fixed train/test split.

    Attributes:
        name: short name, such as ``"digits"``.
        images: all images, training and test, 0..255, ``[n, 3, h, w]``; grey ones have equal channels. Large
            sets are mapped from a file: index them, copy no more than you need.
        labels: class of every image, ``[n]``.
        class_names: one name per class, in label order.
        template: zero-shot prompt with one ``{}`` for the class name.
        train_indices: positions of the training images in ``images``, rising.
        test_indices: positions of the test images in ``images``, rising.
        sha256: of pixels, labels and split.
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


def load_dataset(name: str, root: str | Path | None = None, image_size: int | None = None) -> Dataset:
    """Load a data set with its fixed train/test split and check it against its manifest.

    FedCoPL, supplement, Table 1 lists the papers' sets; ``"digits"`` is the set that needs no download:
    scikit-learn's 1,797 handwritten digits, 8x8 grey levels 0..16 stretched to 0..255. Images that are not
    at the wanted size are decoded and resized once, as CLIP does it, into a file that is mapped into memory.

    Args:
        name: ``"digits"``, one of :data:`PAPER_DATASETS`, a fixed balanced part of either such as ``"cifar10:300"``
            (300 images, training and test in the set's proportion), ``"cifar10:unseen"`` or ``"cifar10:unseen:6000"``
            (the same without the training images of the `mini` CLIP; CIFAR-100 too), ``"cifar10:grey"`` or
            ``"cifar10:unseen:grey:5000+10000"`` (the same without colour; training and test images apart), or
            ``"folder:PATH"`` for your own images: PATH/train and PATH/test with one folder per class, or PATH with one
            folder per class, whose every third image is a test image.
        root: folder with downloaded data sets; None takes ``$FEDCOPL_LAB_DATA``, else the user's cache folder.
        image_size: height and width in pixels; None takes the manifest's: 8 (digits), 32 (CIFAR, SVHN,
            CINIC-10) or 224 (the others).

    Returns:
        The :class:`Dataset`; the same object for the same arguments, except for ``folder:``, which is read again.

    Raises:
        FedCoPLError: when the name is unknown, the set is not there, an image cannot be read, or the data do
            not match the manifest.

    >>> load_dataset("digits")
    Dataset(digits: 1197 train + 600 test images, 8x8, 10 classes)

    Shown in notebooks ``00_quickstart`` and ``data_check``.
    """
    if name == DIGITS and image_size in (None, 8):
        return _load_digits()
    known = (DIGITS, *PAPER_DATASETS)
    part, folder = split_name(name, known), str(data_root(root))
    if not part.is_whole:
        return _load_part(part, folder, image_size)
    if name.startswith("folder:"):
        return _cached(*own_folder(name.removeprefix("folder:")), Path(folder), image_size)
    check_known(name, (*known, "folder:PATH for your own images"), "data set")
    return _load_stored(name, folder, image_size)


@lru_cache(maxsize=1)
def _load_digits() -> Dataset:
    from sklearn.datasets import load_digits  # slow to import, needed for this set only

    manifest, bunch = load_manifest(DIGITS), load_digits()
    grey = torch.from_numpy(np.rint(bunch.images * 255 / 16).astype(np.uint8))
    images = grey[:, None].expand(-1, 3, -1, -1).contiguous()
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    _check_content(manifest, images, labels)
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    is_test[list(manifest.test_indices)] = True
    indices = torch.nonzero(~is_test).squeeze(1), torch.nonzero(is_test).squeeze(1)
    _check_digest(manifest, "split.sha256", manifest.split_sha256, _tensors_sha256(*indices))
    return _dataset(manifest, images, labels, indices, _tensors_sha256(images, labels, *indices))


@lru_cache(maxsize=2)
def _load_stored(name: str, root: str, image_size: int | None) -> Dataset:
    """A whole set of official files, or the digits at another size than theirs."""
    manifest = load_manifest(name)
    if name == DIGITS:
        whole = _load_digits()
        images, content = _pixels(manifest, _digits_source(), manifest.content_sha256, root, image_size, progress=False)
        return replace(whole, images=images, sha256=_digest(content, whole.sha256))
    source = read_source(manifest, root)
    if source.pixels is None or image_size not in (None, manifest.image_size[0]):
        return _cached(manifest, source, Path(root), image_size)
    images, labels = torch.from_numpy(source.pixels), torch.from_numpy(source.labels)
    if manifest.content_known:
        _check_content(manifest, images, labels)
    return _training_first(manifest, images, labels, _tensors_sha256(images, labels))


@lru_cache(maxsize=2)
def _load_part(wanted: PartName, root: str, image_size: int | None) -> Dataset:
    """Only the chosen images are decoded."""
    name = wanted.whole
    manifest = load_manifest(name)
    if name == DIGITS:
        source, digits = _digits_source(), _load_digits()
        train, test = digits.train_indices.numpy(), digits.test_indices.numpy()
    else:
        source = read_source(manifest, root)
        train, test = np.split(np.arange(len(source)), [source.n_train])
    whole = len(train), len(test)
    if wanted.unseen:  # the training images come first in these sets
        train = np.setdiff1d(train, seen_positions(name), assume_unique=True)
    if wanted.n_images is not None:
        train, test = draw_part(source.labels, train, test, counts_of(wanted, *whole), name)
    kept = np.concatenate([train, test])
    pixels = None if source.pixels is None else source.pixels[kept]
    names = tuple(source.names[i] for i in kept) if source.names else ()
    if wanted.grey and pixels is not None:
        pixels = to_grey(pixels)
    part = ImageSource(pixels, source.root, names, source.labels[kept], len(train))
    labels = torch.from_numpy(part.labels)
    if pixels is None or image_size not in (None, manifest.image_size[0]):
        colour = (GREY,) if wanted.grey else ()
        identity = _digest(manifest.content_sha256, _tensors_sha256(torch.from_numpy(kept)), *colour)
        images, content = _pixels(manifest, part, identity, root, image_size, progress=False)
    else:
        images = torch.from_numpy(pixels)
        content = _tensors_sha256(images)
    indices = torch.arange(len(train)), torch.arange(len(train), len(kept))
    sha256 = _digest(content, _tensors_sha256(labels), str(len(train)))
    return replace(_dataset(manifest, images, labels, indices, sha256), name=wanted.text)


def to_grey(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Images without colour, uint8 ``[n, 3, h, w]``: the luma of ITU-R 601 in all three channels.

    >>> to_grey(np.full((1, 3, 1, 1), 200, dtype=np.uint8)).ravel().tolist()
    [200, 200, 200]
    """
    luma = np.tensordot(np.array([0.299, 0.587, 0.114]), pixels, axes=(0, 1)).round().astype(np.uint8)
    return np.repeat(luma[:, None], 3, axis=1)


def _digits_source() -> ImageSource:
    whole = _load_digits()
    return ImageSource(whole.images.numpy(), Path("."), (), whole.labels.numpy(), len(whole.train_indices))


def _cached(manifest: Manifest, source: ImageSource, root: Path, image_size: int | None) -> Dataset:
    """A whole set from its cache of decoded images."""
    images, content = _pixels(manifest, source, manifest.content_sha256, root, image_size)
    return _training_first(manifest, images, torch.from_numpy(source.labels), content)


def _pixels(
    manifest: Manifest,
    source: ImageSource,
    identity: str,
    root: str | Path,
    image_size: int | None,
    progress: bool = True,
) -> tuple[Tensor, str]:
    """Images from the cache, decoded now or earlier, and the checksum of their pixels."""
    name = manifest.name.replace("folder:", "folder-").replace(os.sep, "_").replace(":", "_")[-80:]  # a path is long
    size = manifest.image_size[0] if image_size is None else image_size
    cached = cached_images(source, identity, size, Path(root) / "cache" / name, progress=progress)
    return torch.from_numpy(cached.pixels), cached.sha256


def _training_first(manifest: Manifest, images: Tensor, labels: Tensor, content: str) -> Dataset:
    indices = torch.arange(manifest.n_train), torch.arange(manifest.n_train, manifest.n_train + manifest.n_test)
    split = _tensors_sha256(*indices)
    _check_digest(manifest, "split.sha256", manifest.split_sha256, split)
    return _dataset(manifest, images, labels, indices, _digest(content, _tensors_sha256(labels), split))


def _dataset(
    manifest: Manifest, images: Tensor, labels: Tensor, indices: tuple[Tensor, Tensor], sha256: str
) -> Dataset:
    """Images of a manifest's classes; ``indices`` are those of training and of test."""
    names = manifest.classes
    return Dataset(manifest.name, images, labels, names, manifest.template, *indices, sha256, manifest)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _tensors_sha256(*tensors: Tensor) -> str:
    """Checksum of the tensors' bytes, one after the other, C order and little endian."""
    digest = hashlib.sha256()
    for tensor in tensors:
        array = tensor.contiguous().numpy()
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _check_content(manifest: Manifest, images: Tensor, labels: Tensor) -> None:
    n_images = manifest.n_train + manifest.n_test
    if len(images) != n_images:
        raise FedCoPLError(
            f"{manifest.name} has {len(images)} images, but {manifest.path.name} says {n_images}; "
            f"its source has changed: install a package version that goes with this manifest"
        )
    _check_digest(manifest, "content_sha256", manifest.content_sha256, _tensors_sha256(images, labels))


def _check_digest(manifest: Manifest, field: str, expected: str, found: str) -> None:
    if found != expected:
        see = f"see `fedcopl-lab data verify {manifest.name}`"
        raise FedCoPLError(
            f"{manifest.name} has checksum {found}, but {field} in {manifest.path} is {expected}; the data or the "
            f"manifest were changed: {'install scikit-learn and fedcopl-lab again' if manifest.name == DIGITS else see}"
        )
