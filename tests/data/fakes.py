"""Small fakes of the official archives, in their exact layout."""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
from PIL import Image
from scipy.io import savemat

RNG = np.random.default_rng(5)


def picture(size=(40, 30), seed=0, format="JPEG", mode="RGB"):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, format)
    return buffer.getvalue()


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def md5(content):
    return hashlib.md5(content).hexdigest()


def cifar10(labels=(0, 1, 2), per_batch=4):
    """Members of cifar-10-python.tar.gz."""
    names = b"airplane automobile bird cat deer dog frog horse ship truck".split()
    files = {"batches.meta": pickle.dumps({b"label_names": names[: len(labels)], b"num_vis": 3072})}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        batch = {
            b"data": RNG.integers(0, 256, (per_batch, 3072), dtype=np.uint8),
            b"labels": [labels[i % len(labels)] for i in range(per_batch)],
            b"filenames": [b"x.png"] * per_batch,
        }
        files[name] = pickle.dumps(batch)
    return {f"cifar-10-batches-py/{name}": content for name, content in files.items()}


def svhn(n):
    """A .mat file as SVHN's: X [32, 32, 3, n], y [n, 1] with 10 for the digit 0."""
    labels = (np.arange(n) % 10 + 1).astype(np.uint8).reshape(-1, 1)
    buffer = io.BytesIO()
    savemat(buffer, {"X": RNG.integers(0, 256, (32, 32, 3, n), dtype=np.uint8), "y": labels})
    return buffer.getvalue()


def cinic10(classes, per_class):
    files = {"README": b"text", "imagenet-contributors.csv": b"a,b"}
    for part in ("test", "train", "valid"):
        for label in classes:
            for i in range(per_class):
                files[f"{part}/{label}/cifar10-{part}-{i}.png"] = picture((32, 32), i, "PNG")
    return files


def coop(folder, classes, per_part, name, size):
    """An archive's members below a folder, and CoOp's JSON."""
    split, number = {}, 0
    for part, count in per_part.items():
        split[part] = []
        for label, official in enumerate(classes):
            for _ in range(count):
                number += 1
                split[part].append([f"{official}/{name.format(official=official, i=number)}", label, official])
    images = [image for part in split.values() for image, _, _ in part]
    files = {f"{folder}/{image}": picture(size, number) for number, image in enumerate(images)}
    return files, json.dumps(split).encode()


def dtd(classes, per_part):
    files, split = coop("dtd/images", classes, per_part, "{official}_{i:04d}.jpg", (300, 260))
    return {"dtd/labels/train1.txt": b"", "dtd/imdb/imdb.mat": b"", **files}, split


def ucf101(classes, per_part):
    return coop("UCF-101-midframes", classes, per_part, "v_{official}_g{i:02d}_c01.jpg", (320, 240))


def resisc45(classes, per_part):
    """The zip's members and ELEVATER's three JSON files."""
    files, lists, number = {}, {}, 0
    for part, count in per_part.items():
        table = {"categories": [], "images": [], "annotations": []}
        for label, official in enumerate(classes):
            table["categories"].append({"id": label + 1, "name": official})
            for _ in range(count):
                number += 1
                name = f"{official}_{number:03d}.jpg"
                files[f"NWPU-RESISC45/{official}/{name}"] = picture((256, 256), number)
                table["images"].append({"id": number, "file_name": name})
                table["annotations"].append({"image_id": number, "category_id": label + 1})
        lists[f"{part}.json"] = json.dumps(table).encode()
    return files, lists


def cub(classes, per_class):
    files, lines = {}, {"images": [], "image_class_labels": [], "train_test_split": [], "classes": []}
    number = 0
    for label, official in enumerate(classes, start=1):
        lines["classes"].append(f"{label} {official}")
        for i in range(per_class):
            number += 1
            image = f"{official}/{official[4:]}_{i:04d}_{number}.jpg"
            files[f"CUB_200_2011/images/{image}"] = picture((250, 180), number, mode="L" if i == 1 else "RGB")
            lines["images"].append(f"{number} {image}")
            lines["image_class_labels"].append(f"{number} {label}")
            lines["train_test_split"].append(f"{number} {int(i % 2 == 0)}")
    for name, content in lines.items():
        files[f"CUB_200_2011/{name}.txt"] = ("\n".join(content) + "\n").encode()
    files["attributes.txt"] = b"1 has_bill_shape::curved_(up_or_down)\n"
    return files


def place(own_manifests, root, name, archive, files, counts, classes):
    """Put a fake's archive where a person would, and fit the manifest: a fake cannot have the official checksum."""
    own_manifests.small(name, *counts, classes)
    path = own_manifests.folder / f"{name}.toml"
    pinned = ("bytes =", "md5 =", "sha256 =", "content_sha256 =")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(pinned)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / name).mkdir()
    (zipped if archive.endswith(".zip") else tar)(root / name / archive, files)
