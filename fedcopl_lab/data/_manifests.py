"""Manifests: one TOML file per data set and per set of weights, for people and for the loader."""

import hashlib
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._fields import Fields


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
        known = known_manifests()
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise FedCoPLError(f"no manifest is named {name!r}; {hint}known manifests: {', '.join(known)}")
    try:
        return _parsed(path, path.stat().st_mtime_ns)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FedCoPLError(f"{path} is not valid TOML ({reason}); restore the file from the package") from error


@lru_cache(maxsize=64)
def _parsed(path: Path, changed: int) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def manifest_fields(name: str) -> Fields:
    """Typed access to a manifest of any kind."""
    return Fields(manifest_folder() / f"{name}.toml", read_manifest_table(name))


def load_manifest(name: str) -> Manifest:
    """Read and check the manifest of a data set.

    Args:
        name: a name from :func:`known_manifests`, such as ``"digits"``.

    Raises:
        FedCoPLError: when the name is unknown, or a field is missing or of the wrong type; the message
            names the file and the field.

    >>> load_manifest("digits").classes[:3]
    ('zero', 'one', 'two')

    Shown in notebook ``00_quickstart``.
    """
    return _checked_manifest(manifest_fields(name))


def _checked_manifest(fields: Fields) -> Manifest:
    n_train, n_test = fields.count("counts.train"), fields.count("counts.test")
    files = source_files(fields)
    height, width = fields.indices("image_size")
    content = fields.checksum("content_sha256", 64)
    manifest = Manifest(
        name=fields.text("name"),
        title=fields.text("title"),
        kind=fields.text("kind"),
        classes=fields.texts("classes"),
        template=fields.text("template"),
        n_train=n_train,
        n_test=n_test,
        licence=fields.text("licence"),
        citation=fields.text("citation"),
        sources=fields.texts("sources"),
        split_rule=fields.text("split.rule"),
        test_indices=fields.indices("split.test_indices", ()),
        content_sha256=content or _sha256("\n".join(f"{file.name} {file.checksum}" for file in files).encode()),
        split_sha256=fields.checksum("split.sha256", 64) or training_first_sha256(n_train, n_test),
        path=fields.path,
        loader=fields.text("loader", fields.text("name")),
        folder=fields.text("folder", "."),
        marker=fields.text("marker", fields.text("folder", ".")),
        image_size=(height, width),
        files=files,
        members=members_of(fields),
        normalisation=_normalisation(fields),
        labelled_per_class=fields.counts_by_share("labelled_per_class"),
        notes=fields.texts("notes", ()),
        unverified=fields.texts("unverified", ()),
        content_known=bool(content),
    )
    _check_names(fields, manifest)
    _check_split(fields, manifest)
    return manifest


def source_files(fields: Fields) -> tuple[SourceFile, ...]:
    """The files of a manifest, checked."""
    return tuple(_source_file(table) for table in fields.tables("files"))


def _source_file(table: Fields) -> SourceFile:
    name, urls, by_hand = table.text("name"), table.texts("urls", ()), table.text("by_hand", "")
    if PurePosixPath(name).name != name:
        raise table.problem("name", f"is {name!r}; expected a file name without folders")
    if not urls and not by_hand:
        raise table.problem("urls", "is empty; expected an address, or by_hand to say how to get the file")
    size, md5, sha256 = table.count("bytes", 0), table.checksum("md5", 32), table.checksum("sha256", 64)
    return SourceFile(name, urls, size, md5, sha256, table.text("unpack", ""), by_hand)


def members_of(fields: Fields) -> tuple[Member, ...]:
    """The members with published checksums."""
    return tuple(Member(table.text("path"), table.checksum("md5", 32)) for table in fields.tables("members"))


def _normalisation(fields: Fields) -> Normalisation | None:
    if not fields.get("normalisation", "a table", lambda value: value if isinstance(value, dict) else None, {}):
        return None
    mean, std = fields.numbers("normalisation.mean"), fields.numbers("normalisation.std")
    at_test = fields.numbers("normalisation.mean_at_test", mean), fields.numbers("normalisation.std_at_test", std)
    return Normalisation(mean, std, *at_test)


def _check_names(fields: Fields, manifest: Manifest) -> None:
    if manifest.kind != "dataset":
        raise fields.problem("kind", f"is {manifest.kind!r}; expected 'dataset'")
    if manifest.name != fields.path.stem:
        raise fields.problem("name", f"is {manifest.name!r}; expected the file's own name")
    if len(set(manifest.classes)) != len(manifest.classes):
        raise fields.problem("classes", "names a class twice; expected different names")
    if fields.count("counts.classes") != len(manifest.classes):
        raise fields.problem("counts.classes", f"differs from the {len(manifest.classes)} names in classes")
    if manifest.template.count("{}") != 1:
        raise fields.problem("template", f"is {manifest.template!r}; expected exactly one {{}}")


def _check_split(fields: Fields, manifest: Manifest) -> None:
    indices, n_images = manifest.test_indices, manifest.n_train + manifest.n_test
    if indices and len(indices) != manifest.n_test:
        raise fields.problem("split.test_indices", f"has {len(indices)} entries; expected {manifest.n_test}")
    if indices and (list(indices) != sorted(set(indices)) or indices[-1] >= n_images):
        raise fields.problem(
            "split.test_indices", f"must rise without repeats and stay below {n_images}, the number of images"
        )


def training_first_sha256(n_train: int, n_test: int) -> str:
    """Checksum of a split whose training images come first."""
    return _sha256(np.arange(n_train + n_test, dtype="<i8").tobytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
