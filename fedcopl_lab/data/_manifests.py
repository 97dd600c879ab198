"""Manifests: one TOML file per data set and per set of weights, for people and for the loader."""

import hashlib
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._fields import Fields
from fedcopl_lab.data._files import Member, Normalisation, SourceFile, members_of, normalisation_of, source_files


@dataclass(frozen=True)
class Manifest:
    """What is known about one data set before a byte of it is read.

    Attributes:
        name: the short name given to :func:`fedcopl_lab.load_dataset`.
        title: the full name.
        kind: ``"dataset"``.
        classes: class names in label order, as prompts use them.
        template: zero-shot prompt with one ``{}`` for the class name.
        n_train: number of training images.
        n_test: number of test images.
        licence: licence of the images.
        citation: whom to cite.
        sources: where the images come from.
        split_rule: how the train/test split was made, in words.
        test_indices: the test images by position, when the manifest itself records the split; empty: the
            training images come first, the test images follow.
        content_sha256: of the pixels (uint8, ``[n, 3, h, w]``) followed by the labels (int64, little endian).
            While nobody has recorded it (``content_known`` is False) it stands for the checksums of the files.
        split_sha256: of the training indices followed by the test indices (int64, little endian).
        path: the file that was read.
        loader: which of the package's readers understands the files.
        folder: where the archive puts the images, relative to the set's own folder.
        marker: a file or folder that is there when the set is, relative to the set's own folder.
        image_size: height and width of the images the loader gives.
        files: what is downloaded.
        members: files inside the archives with checksums of their own.
        normalisation: mean and standard deviation, where a paper has its own.
        labelled_per_class: pairs of SAGE's labelled fraction, as it is called, and its labelled images per class.
        notes: misprints of the papers and other remarks.
        unverified: what in the file could not be checked, and why.
        content_known: whether ``content_sha256`` was taken from the real images.
    """

    name: str
    title: str
    kind: str
    classes: tuple[str, ...]
    template: str
    n_train: int
    n_test: int
    licence: str
    citation: str
    sources: tuple[str, ...]
    split_rule: str
    test_indices: tuple[int, ...]
    content_sha256: str
    split_sha256: str
    path: Path
    loader: str = ""
    folder: str = "."
    marker: str = "."
    image_size: tuple[int, int] = (0, 0)
    files: tuple[SourceFile, ...] = ()
    members: tuple[Member, ...] = ()
    normalisation: Normalisation | None = None
    labelled_per_class: tuple[tuple[float, int], ...] = ()
    notes: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    content_known: bool = True

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
    candidates = (package / "data_manifests", package.parent / "data_manifests")
    for folder in candidates:
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
    if kind is None:
        return tuple(names)
    return tuple(name for name in names if read_manifest_table(name).get("kind") == kind)


def read_manifest_table(name: str) -> dict[str, Any]:
    """The plain contents of a manifest of any kind.

    Args:
        name: file name without ``.toml``.

    Raises:
        FedCoPLError: when there is no such manifest, or its file is not TOML.

    >>> read_manifest_table("digits")["kind"]
    'dataset'
    """
    known = known_manifests()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise FedCoPLError(f"no manifest is named {name!r}; {hint}known manifests: {', '.join(known)}")
    path = manifest_folder() / f"{name}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FedCoPLError(f"{path} is not valid TOML ({reason}); restore the file from the package") from error


def load_manifest(name: str) -> Manifest:
    """Read and check the manifest of a data set.

    Args:
        name: a name from :func:`known_manifests`, such as ``"digits"``.

    Returns:
        The checked :class:`Manifest`.

    Raises:
        FedCoPLError: when the name is unknown, or a field is missing or of the wrong type; the message
            names the file and the field.

    >>> load_manifest("digits").classes[:3]
    ('zero', 'one', 'two')

    Shown in notebook ``00_quickstart``.
    """
    return _checked_manifest(Fields(manifest_folder() / f"{name}.toml", read_manifest_table(name)))


def _checked_manifest(fields: Fields) -> Manifest:
    n_train, n_test = fields.count("counts.train"), fields.count("counts.test")
    files = source_files(fields)
    height, width = fields.indices("image_size")
    content = fields.checksum("content_sha256", 64)
    split = fields.checksum("split.sha256", 64)
    recorded = fields.indices("split.test_indices") if fields.has("split.test_indices") else ()
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
        test_indices=recorded,
        content_sha256=content or _files_sha256(files),
        split_sha256=split or _training_first_sha256(n_train, n_test),
        path=fields.path,
        loader=fields.text("loader", fields.text("name")),
        folder=fields.text("folder", "."),
        marker=fields.text("marker", fields.text("folder", ".")),
        image_size=(height, width),
        files=files,
        members=members_of(fields),
        normalisation=normalisation_of(fields),
        labelled_per_class=fields.counts_by_share("labelled_per_class"),
        notes=fields.texts("notes", ()),
        unverified=fields.texts("unverified", ()),
        content_known=bool(content),
    )
    _check_names(fields, manifest)
    _check_split(fields, manifest)
    return manifest


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
    indices = manifest.test_indices
    n_images = manifest.n_train + manifest.n_test
    if not indices:
        return
    if len(indices) != manifest.n_test:
        raise fields.problem("split.test_indices", f"has {len(indices)} entries; expected {manifest.n_test}")
    if list(indices) != sorted(set(indices)) or indices[-1] >= n_images:
        raise fields.problem(
            "split.test_indices", f"must rise without repeats and stay below {n_images}, the number of images"
        )


def _training_first_sha256(n_train: int, n_test: int) -> str:
    return hashlib.sha256(np.arange(n_train + n_test, dtype="<i8").tobytes()).hexdigest()


def _files_sha256(files: tuple[SourceFile, ...]) -> str:
    return hashlib.sha256("\n".join(f"{file.name} {file.checksum}" for file in files).encode()).hexdigest()
