"""Manifests: one TOML file per data set and per set of weights, for people and for the loader."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from fedcopl_lab._errors import FedCoPLError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Manifest:
    """What is known about one data set before a byte of it is read.

    Attributes:
        name: the short name given to :func:`fedcopl_lab.load_dataset`.
        title: the full name.
        kind: ``"dataset"``.
        classes: class names in label order.
        template: zero-shot prompt with one ``{}`` for the class name.
        n_train: number of training images.
        n_test: number of test images.
        licence: licence of the images.
        citation: whom to cite.
        sources: where the images come from.
        split_rule: how the train/test split was made, in words.
        test_indices: the test images by position, when the manifest itself records the split.
        content_sha256: of the pixels (uint8, ``[n, 3, h, w]``) followed by the labels (int64, little endian).
        split_sha256: of the training indices followed by the test indices (int64, little endian).
        path: the file that was read.
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
    return _checked_manifest(_Fields(manifest_folder() / f"{name}.toml", read_manifest_table(name)))


class _Fields:
    """Typed access to the fields of one file; every complaint names the file and the field."""

    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self.path = path
        self._table = table

    def _get(self, field: str, expected: str, convert: Callable[[Any], Value | None]) -> Value:
        value: Any = self._table
        for key in field.split("."):
            if not isinstance(value, dict) or key not in value:
                raise FedCoPLError(f"{self.path}: field {field!r} is missing; expected {expected}")
            value = value[key]
        converted = convert(value)
        if converted is None:
            raise FedCoPLError(f"{self.path}: field {field!r} is {_short(value)}; expected {expected}")
        return converted

    def text(self, field: str) -> str:
        return self._get(field, "a text that is not empty", lambda v: v if isinstance(v, str) and v.strip() else None)

    def count(self, field: str) -> int:
        return self._get(field, "a whole number of 1 or more", lambda v: int(v) if _is_int(v) and v >= 1 else None)

    def texts(self, field: str) -> tuple[str, ...]:
        return self._get(field, "a list of texts", lambda v: _tuple_of(v, lambda x: isinstance(x, str)))

    def indices(self, field: str) -> tuple[int, ...]:
        return self._get(
            field, "a list of whole numbers from 0", lambda v: _tuple_of(v, lambda x: _is_int(x) and x >= 0)
        )

    def problem(self, field: str, what: str) -> FedCoPLError:
        return FedCoPLError(f"{self.path}: field {field!r} {what}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _tuple_of(value: object, accepts: Callable[[Any], bool]) -> tuple[Any, ...] | None:
    return tuple(value) if isinstance(value, list) and value and all(map(accepts, value)) else None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _checked_manifest(fields: _Fields) -> Manifest:
    manifest = Manifest(
        name=fields.text("name"),
        title=fields.text("title"),
        kind=fields.text("kind"),
        classes=fields.texts("classes"),
        template=fields.text("template"),
        n_train=fields.count("counts.train"),
        n_test=fields.count("counts.test"),
        licence=fields.text("licence"),
        citation=fields.text("citation"),
        sources=fields.texts("sources"),
        split_rule=fields.text("split.rule"),
        test_indices=fields.indices("split.test_indices"),
        content_sha256=fields.text("content_sha256"),
        split_sha256=fields.text("split.sha256"),
        path=fields.path,
    )
    if manifest.kind != "dataset":
        raise fields.problem("kind", f"is {manifest.kind!r}; expected 'dataset'")
    if manifest.name != fields.path.stem:
        raise fields.problem("name", f"is {manifest.name!r}; expected the file's own name")
    if len(set(manifest.classes)) != len(manifest.classes):
        raise fields.problem("classes", "names a class twice; expected different names")
    if manifest.template.count("{}") != 1:
        raise fields.problem("template", f"is {manifest.template!r}; expected exactly one {{}}")
    _check_split(fields, manifest)
    return manifest


def _check_split(fields: _Fields, manifest: Manifest) -> None:
    indices = manifest.test_indices
    n_images = manifest.n_train + manifest.n_test
    if len(indices) != manifest.n_test:
        raise fields.problem("split.test_indices", f"has {len(indices)} entries; expected {manifest.n_test}")
    if list(indices) != sorted(set(indices)) or indices[-1] >= n_images:
        raise fields.problem(
            "split.test_indices", f"must rise without repeats and stay below {n_images}, the number of images"
        )
