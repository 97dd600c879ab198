"""A user's own images, one folder per class, as a data set."""

import hashlib
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path

from PIL import Image

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._image_source import ImageSource, file_source
from fedcopl_lab.data._manifests import Manifest, training_first_sha256

_NAMED = 10  # of the files that are left out
_NOT_DECODED = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}

Named = list[tuple[str, str]]  # images and their class folders


def own_folder(path: str) -> tuple[Manifest, ImageSource]:
    """Images of ``folder:PATH``: PATH/train/CLASS and PATH/test/CLASS, or PATH/CLASS, every third one a test image.

    Every file that Pillow reads is an image; a warning names what is left out. Hidden files are passed over.
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise FedCoPLError(f"{path!r} is no folder; give a folder with one folder of images per class")
    root = root.resolve()
    split = (root / "train").is_dir() and (root / "test").is_dir()
    left_out = [entry.name for entry in _seen(root) if split and entry.name not in ("train", "test")]
    parts = [_listed(root, part, left_out) for part in (("train", "test") if split else ("",))]
    train, test = parts if split else _every_third(parts[0])
    if left_out:
        more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
        warnings.warn(
            f"{root}: left out {', '.join(left_out[:_NAMED])}{more}; images are files in class folders, with an ending "
            "that Pillow reads",
            stacklevel=2,
        )
    classes = sorted({label for _, label in (*train, *test)})
    if len(classes) < 2:
        raise FedCoPLError(f"{root} has images of {len(classes)} class(es); expected two class folders or more")
    if not train or not test:
        raise FedCoPLError(
            f"{root} gives {len(train)} training and {len(test)} test images; every part needs one or more: "
            "add images, at least three in one class"
        )
    manifest = _manifest(root, classes, len(train), len(test), split, _content_sha256(root, [*train, *test]))
    numbered = ([(name, classes.index(label)) for name, label in part] for part in (train, test))
    return manifest, file_source(manifest, root, *numbered)


def _listed(root: Path, part: str, left_out: list[str]) -> Named:
    """Images of one part by class folder; what is no image in a class folder goes on the other list."""
    images: Named = []
    for folder in _seen(root / part):
        name = str(folder.relative_to(root))
        inside = _seen(folder) if folder.is_dir() else []
        read = [entry.name for entry in inside if entry.is_file() and entry.suffix.lower() in _read_by_pillow()]
        images += [(f"{name}/{image}", folder.name) for image in read]
        left_out += [f"{name}/{entry.name}" for entry in inside if entry.name not in read]
        left_out += [] if read else [f"{name} (a class folder without images)" if folder.is_dir() else name]
    return images


def _seen(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


@lru_cache
def _read_by_pillow() -> frozenset[str]:
    """Endings of the files that Pillow decodes by itself."""
    known = Image.registered_extensions().items()  # also opens what needs another program, or is only recognised
    return frozenset(ending for ending, kind in known if kind in Image.OPEN and kind not in _NOT_DECODED)


def _every_third(listed: Named) -> tuple[Named, Named]:
    seen: Counter[str] = Counter()
    parts: tuple[Named, Named] = ([], [])
    for name, label in listed:
        seen[label] += 1
        parts[seen[label] % 3 == 0].append((name, label))
    return parts


def _content_sha256(root: Path, listed: Named) -> str:
    digest = hashlib.sha256()
    for name, _ in listed:
        with open(root / name, "rb") as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _manifest(root: Path, classes: list[str], n_train: int, n_test: int, split: bool, content: str) -> Manifest:
    names = tuple(label.replace("_", " ") for label in classes)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FedCoPLError(f"several folders in {root} give the class name {twice[0]!r}; rename all but one")
    rule = "the folders train and test" if split else "every third image of a class, by name, is a test image"
    return Manifest(
        name=f"folder:{root}",
        title=f"images in {root}",
        kind="dataset",
        classes=names,
        template="a photo of a {}.",
        n_train=n_train,
        n_test=n_test,
        licence="yours",
        citation="yours",
        sources=(str(root),),
        split_rule=rule,
        test_indices=(),
        content_sha256=content,
        split_sha256=training_first_sha256(n_train, n_test),
        path=root,
        loader="folder",
        image_size=(224, 224),
        content_known=False,
    )
