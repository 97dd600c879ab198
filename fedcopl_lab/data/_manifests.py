"""Manifests: one TOML file per data set and per set of weights, for people and for the loader."""

import hashlib
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError, check_known


@dataclass(frozen=True)
class SourceFile:
    """One file to download."""

    name: str  # its name in the set's folder
    urls: tuple[str, ...]  # addresses to try in this order; empty when it must be fetched by hand
    size: int  # bytes, 0 when unknown
    md5: str  # checksum, empty when unknown
    sha256: str  # checksum, empty when unknown
    unpack: str  # folder, relative to the set's, into which the archive is unpacked; empty: it stays as it is
    by_hand: str  # how to get it when no program can

    @property
    def checksum(self) -> str:
        """``"sha256:..."`` or ``"md5:..."``, the stronger of the known ones, or empty."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}" if self.md5 else ""

    def __repr__(self) -> str:
        return f"SourceFile({self.name}, {self.size or 'unknown'} bytes, {self.checksum or 'no checksum'})"


@dataclass(frozen=True)
class Member:
    """A file inside an archive, by its path relative to the set's folder, whose checksum is published."""

    path: str
    md5: str


@dataclass(frozen=True)
class Normalisation:
    """Channel means and deviations (of pixels in 0..1) that a paper's code uses, in training and for test images."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    mean_at_test: tuple[float, ...]
    std_at_test: tuple[float, ...]


@dataclass(frozen=True)
class Manifest:
    """What is known about one data set before a byte of it is read."""

    name: str  # the short name given to load_dataset
    title: str  # the full name
    kind: str  # "dataset"
    classes: tuple[str, ...]  # class names in label order, as prompts use them
    template: str  # zero-shot prompt with one {} for the class name
    n_train: int  # number of training images
    n_test: int  # number of test images
    licence: str  # licence of the images
    citation: str  # whom to cite
    sources: tuple[str, ...]  # where the images come from
    split_rule: str  # how the train/test split was made, in words
    # the test images by position, when the manifest itself records the split; empty: the training images come first,
    # the test images follow
    test_indices: tuple[int, ...]
    # of the pixels (uint8, [n, 3, h, w]) followed by the labels (int64, little endian). Where it is not recorded
    # (content_known is False) it stands for the checksums of the files
    content_sha256: str
    split_sha256: str  # of the training indices followed by the test indices (int64, little endian)
    path: Path  # the file that was read
    loader: str = ""  # which of the package's readers understands the files
    folder: str = "."  # where the archive puts the images, relative to the set's own folder
    marker: str = "."  # a file or folder that is there when the set is, relative to the set's own folder
    image_size: tuple[int, int] = (0, 0)  # height and width of the images the loader gives
    files: tuple[SourceFile, ...] = ()  # what is downloaded
    members: tuple[Member, ...] = ()  # files inside the archives with checksums of their own
    normalisation: Normalisation | None = None  # mean and standard deviation, where a paper has its own
    # pairs of SAGE's labelled share and its labelled images per class
    labelled_per_class: tuple[tuple[float, int], ...] = ()
    notes: tuple[str, ...] = ()  # misprints of the papers and other remarks
    unverified: tuple[str, ...] = ()  # what in the file could not be checked, and why
    content_known: bool = True  # whether content_sha256 was taken from the real images

    def __repr__(self) -> str:
        return (
            f"Manifest({self.name}: {len(self.classes)} classes, "
            f"{self.n_train} train + {self.n_test} test images, {self.licence})"
        )


def manifest_folder() -> Path:
    """The folder with the manifests: the copy inside an installed package, else that of the checkout.

    >>> (manifest_folder() / "digits.toml").is_file()
    True
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "data_manifests", package.parent / "data_manifests"):
        if folder.is_dir():
            return folder
    raise FedCoPLError(
        f"no folder data_manifests in {package} or {package.parent}; it is part of the package: "
        "install fedcopl-lab again"
    )


def known_manifests(kind: str | None = None) -> tuple[str, ...]:
    """Names of all manifests, sorted; with ``kind`` only those of that kind, such as ``"dataset"``.

    >>> "digits" in known_manifests("dataset")
    True
    """
    names = sorted(path.stem for path in manifest_folder().glob("*.toml"))
    return tuple(name for name in names if kind is None or read_manifest_table(name).get("kind") == kind)


def read_manifest_table(name: str) -> dict[str, Any]:
    """The plain contents of a manifest of any kind.

    Raises:
        FedCoPLError: when there is no such manifest, or its file is not TOML.

    >>> read_manifest_table("digits")["kind"]
    'dataset'
    """
    path = manifest_folder() / f"{name}.toml"
    if "/" in name or not path.is_file():
        check_known(name, known_manifests(), "manifest")
    try:
        return _parsed(path, path.stat().st_mtime_ns)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FedCoPLError(f"{path} is not valid TOML ({reason}); restore the file from the package") from error


@lru_cache(maxsize=64)
def _parsed(path: Path, changed: int) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def load_manifest(name: str) -> Manifest:
    """Read and check the manifest of a data set.

    Args:
        name: a name from :func:`known_manifests`, such as ``"digits"``.

    Raises:
        FedCoPLError: when the name is unknown, or the file is no manifest.

    >>> load_manifest("digits").classes[:3]
    ('zero', 'one', 'two')

    Shown in notebook ``00_quickstart``.
    """
    if (kind := read_manifest_table(name).get("kind")) != "dataset":
        known = ", ".join(known_manifests("dataset"))
        raise FedCoPLError(f"{manifest_folder() / name}.toml describes {kind}; choose among {known}")
    with _well_formed(name) as (path, table):
        return _manifest(path, table)


def downloads_of(name: str) -> tuple[str, tuple[SourceFile, ...], tuple[Member, ...]]:
    """A manifest's kind, the files to download, and the files inside them with checksums of their own."""
    with _well_formed(name) as (_, table):
        return table["kind"], _files(table), _members(table)


@contextmanager
def _well_formed(name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A manifest's path and contents; a field that is missing or no such value becomes one error."""
    path, table = manifest_folder() / f"{name}.toml", read_manifest_table(name)
    try:
        yield path, table
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FedCoPLError(f"{path} is no manifest ({error!r}); restore the file from the package") from error


def _manifest(path: Path, table: dict[str, Any]) -> Manifest:
    n_train, n_test = (int(table["counts"][part]) for part in ("train", "test"))
    split, files, folder, content = table["split"], _files(table), table.get("folder", "."), table.get("content_sha256")
    height, width = table["image_size"]
    return Manifest(
        name=table["name"],
        title=table["title"],
        kind=table["kind"],
        classes=tuple(table["classes"]),
        template=table["template"],
        n_train=n_train,
        n_test=n_test,
        licence=table["licence"],
        citation=table["citation"],
        sources=tuple(table["sources"]),
        split_rule=split["rule"],
        test_indices=tuple(split.get("test_indices", ())),
        content_sha256=content or _sha256("\n".join(f"{file.name} {file.checksum}" for file in files).encode()),
        split_sha256=split.get("sha256") or training_first_sha256(n_train, n_test),
        path=path,
        loader=table.get("loader", table["name"]),
        folder=folder,
        marker=table.get("marker", folder),
        image_size=(height, width),
        files=files,
        members=_members(table),
        normalisation=_normalisation(table["normalisation"]) if "normalisation" in table else None,
        labelled_per_class=tuple((float(share), n) for share, n in table.get("labelled_per_class", {}).items()),
        notes=tuple(table.get("notes", ())),
        unverified=tuple(table.get("unverified", ())),
        content_known=bool(content),
    )


def _files(table: dict[str, Any]) -> tuple[SourceFile, ...]:
    words = ("md5", "sha256", "unpack", "by_hand")
    return tuple(
        SourceFile(file["name"], tuple(file.get("urls", ())), file.get("bytes", 0), *(file.get(w, "") for w in words))
        for file in table.get("files", ())
    )


def _members(table: dict[str, Any]) -> tuple[Member, ...]:
    return tuple(Member(member["path"], member["md5"]) for member in table.get("members", ()))


def _normalisation(table: dict[str, Any]) -> Normalisation:
    mean, std = table["mean"], table["std"]
    all_four = mean, std, table.get("mean_at_test", mean), table.get("std_at_test", std)
    return Normalisation(*(tuple(map(float, values)) for values in all_four))


def training_first_sha256(n_train: int, n_test: int) -> str:
    """Checksum of a split whose training images come first."""
    return _sha256(np.arange(n_train + n_test, dtype="<i8").tobytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
