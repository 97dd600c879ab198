"""Sets whose images are single files: CINIC-10, DTD, RESISC45, CUB, UCF101 and a user's own folder."""

import json
from pathlib import Path
from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._manifests import Manifest
from fedcopl_lab.data._sources import ImageSource, file_source, label_of, read_text

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
_COOP_SPLITS = {"dtd": "split_zhou_DescribableTextures.json", "ucf101": "split_zhou_UCF101.json"}


def cinic10(manifest: Manifest, folder: Path) -> ImageSource:
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


def dtd(manifest: Manifest, folder: Path) -> ImageSource:
    """The archive's images with CoOp's split."""
    return _coop(manifest, folder, folder / manifest.folder / "images")


def ucf101(manifest: Manifest, folder: Path) -> ImageSource:
    """Middle frames from CoOp's archive, with CoOp's split."""
    return _coop(manifest, folder, folder / manifest.folder)


def resisc45(manifest: Manifest, folder: Path) -> ImageSource:
    """The zip's class folders with ELEVATER's annotation files (COCO's form: images, annotations, categories)."""
    train, val, test = (_coco(manifest, folder / f"{part}.json") for part in ("train", "val", "test"))
    return file_source(manifest, folder / manifest.folder, [*train, *val], test)


def cub(manifest: Manifest, folder: Path) -> ImageSource:
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


def image_names(folder: Path) -> list[str]:
    """Names of the image files in a folder, sorted; other files are left out."""
    return sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() in IMAGE_ENDINGS)


def _coop(manifest: Manifest, folder: Path, images: Path) -> ImageSource:
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
