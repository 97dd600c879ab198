"""Official layouts with something wrong or missing: every reader names it, in one line, and nothing is loaded."""

import shutil

import pytest
from small_sets import cinic10, cub, resisc45, svhn, ucf101

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import get, load_dataset


def at(pattern, act):
    """A change of the first file or folder of that pattern."""
    return lambda folder: act(sorted(folder.glob(pattern))[0])


def gone(pattern):
    return at(pattern, lambda path: shutil.rmtree(path) if path.is_dir() else path.unlink())


def edited(pattern, old, new):
    return at(pattern, lambda path: path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8"))


def cut(pattern):
    return at(pattern, lambda path: path.write_bytes(path.read_bytes()[:150]))


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (cinic10, gone("train/airplane/*"), "5 training and 6 test images, but cinic10.toml says 6 and 6"),
        (cinic10, gone("test/automobile"), "6 training and 3 test images"),
        (cinic10, at("test/airplane", lambda one: one.rename(one.with_name("blimp"))), "a class 'blimp', which is not"),
        (cinic10, cut("test/airplane/*"), "1 of 12 images"),
        (ucf101, gone("*midframes/Yo_Yo/*"), "1 of 6 images .*Yo_Yo"),
        (ucf101, cut("*midframes/Apply*/*"), "1 of 6 images .*Apply_Eye_Makeup"),
        (ucf101, edited("split*.json", "Yo_Yo", "Yo_Yo_Ma"), "1 of 6 images|a class"),
        (ucf101, gone("split*.json"), "cannot read .*split_zhou_UCF101.json"),
        (resisc45, gone("NWPU*/sea_ice/*"), "1 of 8 images .*sea_ice"),
        (resisc45, cut("NWPU*/airplane/*"), "1 of 8 images .*airplane"),
        (resisc45, edited("test.json", '"sea_ice"', '"desert"'), "a class 'desert', which is not among"),
        (resisc45, gone("val.json"), "cannot read .*val.json"),
        (resisc45, at("val.json", lambda one: one.write_text("{}")), "has not the form of COCO"),
        (cub, gone("CUB*/images/001*/*"), "1 of 6 images .*Black_footed"),
        (cub, cut("CUB*/images/002*/*"), "1 of 6 images .*Laysan"),
        (cub, gone("CUB*/train_test_split.txt"), "cannot read .*train_test_split.txt"),
        (cub, edited("CUB*/classes.txt", "Black_footed", "Laysan"), "class 1 is '001.Laysan_Albatross', another one"),
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
