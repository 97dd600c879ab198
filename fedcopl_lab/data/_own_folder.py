"""A user's own images, one folder per class, as a data set."""

import hashlib
from collections import Counter
from pathlib import Path

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._image_source import ImageSource, file_source, image_names
from fedcopl_lab.data._manifests import Manifest, training_first_sha256

Named = list[tuple[str, str]]  # images and their class folders


def own_folder(path: str) -> tuple[Manifest, ImageSource]:
    """Images of ``folder:PATH``: PATH/train/CLASS and PATH/test/CLASS, or PATH/CLASS, every third one a test image."""
    root = Path(path).expanduser()
    if not root.is_dir():
        raise FedCoPLError(f"{path!r} is no folder; give a folder with one folder of images per class")
    root = root.resolve()
    split = (root / "train").is_dir() and (root / "test").is_dir()
    train, test = (_listed(root, "train"), _listed(root, "test")) if split else _every_third(_listed(root, ""))
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


def _listed(root: Path, part: str) -> Named:
    base = root / part
    prefix = f"{part}/" if part else ""
    folders = sorted(entry for entry in base.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return [(f"{prefix}{entry.name}/{image}", entry.name) for entry in folders for image in image_names(entry)]


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
    rule = "the folders train and test" if split else "every third image of a class, by name, is a test image"
    return Manifest(
        name=f"folder:{root}",
        title=f"images in {root}",
        kind="dataset",
        classes=tuple(label.replace("_", " ") for label in classes),
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
