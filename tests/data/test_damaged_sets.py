"""Official layouts with something wrong or missing: every reader names it, in one line, and nothing is loaded."""

import shutil

import fakes
import pytest

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import get, load_dataset


def cinic10(own_manifests, root):
    classes = ("airplane", "automobile")
    fakes.place(own_manifests, root, "cinic10", "CINIC-10.tar.gz", fakes.cinic10(classes, 3), (6, 6), classes)


def ucf101(own_manifests, root):
    files, split = fakes.ucf101(("Apply_Eye_Makeup", "Yo_Yo"), {"train": 2, "val": 1, "test": 1})
    shown = ("Apply Eye Makeup", "Yo Yo")
    fakes.place(own_manifests, root, "ucf101", "UCF-101-midframes.zip", files, (4, 2), shown)
    (root / "ucf101/split_zhou_UCF101.json").write_bytes(split)


def resisc45(own_manifests, root):
    files, lists = fakes.resisc45(("airplane", "sea_ice"), {"train": 1, "val": 1, "test": 2})
    fakes.place(own_manifests, root, "resisc45", "NWPU-RESISC45.zip", files, (4, 4), ("airplane", "sea ice"))
    for name, content in lists.items():
        (root / "resisc45" / name).write_bytes(content)


def cub(own_manifests, root):
    official = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
    shown = ("black footed albatross", "laysan albatross")
    fakes.place(own_manifests, root, "cub", "CUB_200_2011.tgz", fakes.cub(official, 3), (4, 2), shown)


def svhn(own_manifests, root):
    own_manifests.small("svhn", 20, 10)
    path = own_manifests.folder / "svhn.toml"
    (root / "svhn").mkdir()
    parts = {name: fakes.svhn(n) for name, n in (("train", 20), ("test", 10))}
    sums = iter([fakes.md5(content) for content in parts.values()])
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith(("bytes =", "sha256 ="))]
    path.write_text("\n".join(f'md5 = "{next(sums)}"' if one.startswith("md5 =") else one for one in lines), "utf-8")
    for name, content in parts.items():
        (root / "svhn" / f"{name}_32x32.mat").write_bytes(content)


def first(pattern):
    return lambda folder: sorted(folder.glob(pattern))[0]


def gone(pattern):
    def change(folder):
        path = first(pattern)(folder)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def edited(pattern, old, new):
    def change(folder):
        path = first(pattern)(folder)
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")

    return change


def cut(pattern):
    def change(folder):
        path = first(pattern)(folder)
        path.write_bytes(path.read_bytes()[:150])

    return change


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (cinic10, gone("train/airplane/*"), "5 training and 6 test images, but cinic10.toml says 6 and 6"),
        (cinic10, gone("test/automobile"), "6 training and 3 test images"),
        (cinic10, lambda folder: (folder / "train/blimp").mkdir() or shutil.copy(
            first("train/airplane/*")(folder), folder / "train/blimp/a.png"), "a class 'blimp', which is not among"),
        (cinic10, cut("test/airplane/*"), "1 of 12 images"),
        (ucf101, gone("*midframes/Yo_Yo/*"), "1 of 6 images .*Yo_Yo"),
        (ucf101, cut("*midframes/Apply*/*"), "1 of 6 images .*Apply_Eye_Makeup"),
        (ucf101, edited("split*.json", "Yo_Yo", "Yo_Yo_Ma"), "1 of 6 images|a class"),
        (ucf101, gone("split*.json"), "cannot read .*split_zhou_UCF101.json"),
        (resisc45, gone("NWPU*/sea_ice/*"), "1 of 8 images .*sea_ice"),
        (resisc45, cut("NWPU*/airplane/*"), "1 of 8 images .*airplane"),
        (resisc45, edited("test.json", '"sea_ice"', '"desert"'), "a class 'desert', which is not among"),
        (resisc45, gone("val.json"), "cannot read .*val.json"),
        (cub, gone("CUB*/images/001*/*"), "1 of 6 images .*Black_footed"),
        (cub, cut("CUB*/images/002*/*"), "1 of 6 images .*Laysan"),
        (cub, gone("CUB*/train_test_split.txt"), "cannot read .*train_test_split.txt"),
        (cub, edited("CUB*/image_class_labels.txt", "1 1\n", ""), "speak of different images"),
        (cub, edited("CUB*/images.txt", "1 001", "1 more 001"), "a line that is not 'number value'"),
        (svhn, gone("test_32x32.mat"), "cannot read .*test_32x32.mat"),
        (svhn, cut("train_32x32.mat"), "train_32x32.mat has md5"),
    ],
)  # fmt: skip
def test_it_is_named_and_refused(make, change, message, own_manifests, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    make(own_manifests, root)
    if make is not svhn:
        get(make.__name__, root, progress=False)
    folder = root / make.__name__
    change(next(one for one in (folder / "CINIC-10", folder) if one.is_dir()))
    with pytest.raises(FedCoPLError, match=message) as caught:
        load_dataset(make.__name__, root)
    assert "\n" not in str(caught.value)
