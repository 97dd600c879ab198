"""Every reader on a small fake of the official archive, placed, unpacked and loaded as the real one would be."""

import json
import pickle
from io import BytesIO

import fakes
import numpy as np
import pytest
import small_sets
import torch
from scipy.io import loadmat

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import configure
from fedcopl_lab.data import get, load_dataset, load_manifest, read_source, verify


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def small_dtd(own_manifests, root):
    classes = ("banded", "polka-dotted", "zigzagged")
    files, split = fakes.dtd(classes, {"train": 2, "val": 1, "test": 1})
    fakes.place(own_manifests, root, "dtd", "dtd-r1.0.1.tar.gz", files, (6, 3), classes)
    (root / "dtd" / "split_zhou_DescribableTextures.json").write_bytes(split)
    return root


@pytest.fixture
def small_cifar(own_manifests, root):
    files = fakes.cifar10()
    own_manifests.small("cifar10", 20, 4, ("airplane", "automobile", "bird"))
    path = own_manifests.folder / "cifar10.toml"
    text = path.read_text(encoding="utf-8").split("[[members]]")[0]
    for name, content in files.items():
        text += f'[[members]]\npath = "{name}"\nmd5 = "{fakes.md5(content)}"\n'
    path.write_text(text, encoding="utf-8")
    own_manifests.edit("cifar10", (r"^content_sha256 = \S+", ""), (r"^sha256 = \S+", ""), (r"^bytes = \d+", ""))
    (root / "cifar10").mkdir()
    archive = fakes.tar(root / "cifar10" / "cifar-10-python.tar.gz", files)
    own_manifests.edit("cifar10", (r'^md5 = "c58f\w+"', f'md5 = "{fakes.md5(archive.read_bytes())}"'))
    return root


def labels_of(dataset):
    return dataset.train_labels.tolist(), dataset.test_labels.tolist()


def test_cifar_from_an_archive_that_lies_there(small_cifar):
    get("cifar10", small_cifar, progress=False)
    dataset = load_dataset("cifar10", small_cifar)
    assert repr(dataset) == "Dataset(cifar10: 20 train + 4 test images, 32x32, 3 classes)"
    assert labels_of(dataset) == ([0, 1, 2, 0] * 5, [0, 1, 2, 0])
    batch = pickle.loads((small_cifar / "cifar10/cifar-10-batches-py/data_batch_2").read_bytes())
    assert np.array_equal(dataset.images[4:8].numpy().reshape(4, -1), batch[b"data"])
    assert verify("cifar10", small_cifar).problems == ()


class Harm:
    def __reduce__(self):
        return print, ("harm",)


def test_a_pickle_that_asks_for_more_than_arrays_is_refused(small_cifar, own_manifests, capsys):
    get("cifar10", small_cifar, progress=False)
    path = small_cifar / "cifar10/cifar-10-batches-py/data_batch_2"
    old, evil = fakes.md5(path.read_bytes()), pickle.dumps({b"data": Harm()})
    path.write_bytes(evil)
    with pytest.raises(FedCoPLError, match=r"data_batch_2 has md5 .* the file is kept"):
        read_source(load_manifest("cifar10"), small_cifar)
    assert "data_batch_2 has md5" in verify("cifar10", small_cifar).problems[0]
    own_manifests.edit("cifar10", (old, fakes.md5(evil)))
    with pytest.raises(FedCoPLError, match=r"asks for builtins\.print; only arrays are read"):
        read_source(load_manifest("cifar10"), small_cifar)
    assert "harm" not in capsys.readouterr().out


def test_cifar_with_other_class_names_is_refused(small_cifar, own_manifests):
    get("cifar10", small_cifar, progress=False)
    own_manifests.edit("cifar10", ('"airplane", "automobile"', '"automobile", "airplane"'))
    with pytest.raises(FedCoPLError, match="lists other classes"):
        read_source(load_manifest("cifar10"), small_cifar)


def test_svhn(own_manifests, root):
    small_sets.svhn(own_manifests, root)
    train = (root / "svhn/train_32x32.mat").read_bytes()
    dataset = load_dataset("svhn", root)
    assert labels_of(dataset) == ([*range(1, 10), 0] * 3, [*range(1, 10), 0] * 2)
    official = loadmat(BytesIO(train))["X"]
    for image, row, column in ((0, 0, 0), (7, 3, 30), (29, 31, 31)):
        assert dataset.images[image, :, row, column].tolist() == official[row, column, :, image].tolist()
    assert verify("svhn", root).checked == 2
    (root / "svhn" / "train_32x32.mat").write_bytes(train[:-1] + b"x")
    assert "train_32x32.mat has md5" in verify("svhn", root).problems[0]


@pytest.mark.parametrize(
    ("make", "labels", "side"),
    [
        (small_sets.cinic10, ([0] * 3 + [1] * 3, [0] * 3 + [1] * 3), 32),
        (small_sets.ucf101, ([0, 0, 1, 1], [0, 1]), 224),
        (small_sets.resisc45, ([0, 1, 0, 1], [0, 0, 1, 1]), 224),
        (small_sets.cub, ([0, 0, 1, 1], [0, 1]), 224),
    ],
)
def test_sets_of_image_files(make, labels, side, own_manifests, root):
    make(own_manifests, root)
    get(make.__name__, root, progress=False)
    dataset = load_dataset(make.__name__, root)
    assert labels_of(dataset) == labels
    assert dataset.images.shape[1:] == (3, side, side)
    if make is small_sets.cub:
        assert torch.equal(dataset.images[4, 0], dataset.images[4, 1]), "a grey image becomes RGB"
    assert "valid" not in " ".join(read_source(load_manifest(make.__name__), root).names), "a part of CINIC-10"


def test_dtd(small_dtd):
    get("dtd", small_dtd, progress=False)
    dataset = load_dataset("dtd", small_dtd)
    assert dataset.images.shape == (9, 3, 224, 224)
    assert labels_of(dataset) == ([0, 0, 1, 1, 2, 2], [0, 1, 2])
    assert dataset.class_names == ("banded", "polka-dotted", "zigzagged")
    assert dataset.template == "a photo of a {}"
    names = read_source(load_manifest("dtd"), small_dtd).names
    assert names[:2] == ("banded/banded_0001.jpg", "banded/banded_0002.jpg")
    found = verify("dtd", small_dtd)
    assert found.problems == ()
    assert found.checked == 14


def test_a_changed_or_missing_image_is_named(small_dtd):
    get("dtd", small_dtd, progress=False)
    images = small_dtd / "dtd/dtd/images"
    broken, gone = images / "banded/banded_0001.jpg", images / "zigzagged/zigzagged_0006.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    gone.unlink()
    problems = verify("dtd", small_dtd).problems
    assert [problem.split()[0] for problem in problems] == [str(broken), str(gone)]
    assert "has 200 bytes instead of" in problems[0]
    assert "is missing" in problems[1]
    with pytest.raises(FedCoPLError, match=r"2 of 9 images .*banded_0001\.jpg .*; zigzagged/zigzagged_0006\.jpg"):
        load_dataset("dtd", small_dtd)
    get("dtd", small_dtd, replace=True, progress=False)
    assert verify("dtd", small_dtd).problems == ()
    assert (small_dtd / "dtd/dtd.bad/images/banded/banded_0001.jpg").stat().st_size == 200
    assert len(load_dataset("dtd", small_dtd)) == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda split: split["train"].pop(), "5 training and 3 test images, but dtd.toml says 6 and 3"),
        (lambda split: split["train"].__setitem__(0, ["../x.jpg", 0, "banded"]), "leaves its folder"),
        (lambda split: split["train"].__setitem__(0, split["train"][1]), "is listed twice"),
        (lambda split: split["train"].__setitem__(0, ["a/b.jpg", 0, "tartan"]), "a class 'tartan', which is not"),
        (lambda split: split.pop("test"), "no list 'test'"),
        (lambda split: split["test"].append(3), "no list 'test'"),
    ],
)
def test_a_wrong_split_file_is_refused(small_dtd, change, message):
    get("dtd", small_dtd, progress=False)
    path = small_dtd / "dtd/split_zhou_DescribableTextures.json"
    split = json.loads(path.read_text())
    change(split)
    path.write_text(json.dumps(split))
    with pytest.raises(FedCoPLError, match=message) as caught:
        read_source(load_manifest("dtd"), small_dtd)
    assert "\n" not in str(caught.value)
    path.write_text("[")
    with pytest.raises(FedCoPLError, match="is not valid JSON"):
        read_source(load_manifest("dtd"), small_dtd)
    path.unlink()
    with pytest.raises(FedCoPLError, match=r"cannot read .*split_zhou.*data get dtd"):
        read_source(load_manifest("dtd"), small_dtd)


def test_lists_that_no_program_can_fetch_are_named(own_manifests, root):
    small_sets.resisc45(own_manifests, root)
    for path in (root / "resisc45").glob("*.json"):
        path.unlink()
    with pytest.raises(FedCoPLError, match=r"train\.json cannot be fetched by a program: take it from ELEVATER"):
        get("resisc45", root, progress=False)


class TestOwnFolder:
    @pytest.fixture
    def pictures(self, tmp_path):
        for label in ("cat", "grey_dog"):
            for i in range(7):
                path = tmp_path / "own" / label / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(fakes.picture((20 + i, 30), i, "PNG"))
        return tmp_path / "own"

    def test_every_third_image_is_a_test_image(self, pictures, root):
        dataset = load_dataset(f"folder:{pictures}", root, image_size=16)
        assert labels_of(dataset) == ([0] * 5 + [1] * 5, [0] * 2 + [1] * 2)
        assert dataset.class_names == ("cat", "grey dog")
        assert dataset.images.shape == (14, 3, 16, 16)

    def test_what_is_left_out_is_named_and_what_pillow_reads_is_in(self, pictures, root):
        (pictures / "cat/notes.txt").write_text("not an image")
        (pictures / "cat/.hidden").write_text("passed over")
        (pictures / "cat/moving.GIF").write_bytes(fakes.picture(seed=7, format="GIF"))
        (pictures / "empty").mkdir()
        with pytest.warns(
            UserWarning, match=r"left out cat/notes.txt, empty \(a class folder without images\); images"
        ):
            dataset = load_dataset(f"folder:{pictures}", root, image_size=8)
        assert (len(dataset), dataset.class_names) == (15, ("cat", "grey dog"))

    def test_own_split(self, pictures, root):
        for part in ("train", "test"):
            (pictures / part).mkdir()
            for label in ("cat", "grey_dog"):
                (pictures / part / label).mkdir()
                (pictures / part / label / "a.png").write_bytes(fakes.picture(seed=len(part), format="PNG"))
        with pytest.warns(UserWarning, match="left out cat, grey_dog; images are files"):
            assert labels_of(load_dataset(f"folder:{pictures}", root, image_size=8)) == ([0, 1], [0, 1])

    def test_the_content_is_part_of_its_identity(self, pictures, root, monkeypatch):
        monkeypatch.setenv("FEDCOPL_LAB_DATA", str(root))
        config = configure("smoke", method="SAGE", dataset=f"folder:{pictures}")
        first, key = load_dataset(config.dataset, image_size=8).manifest.content_sha256, key_of(config)
        (pictures / "cat/0.png").write_bytes(fakes.picture(seed=99, format="PNG"))
        assert load_dataset(config.dataset, image_size=8).manifest.content_sha256 != first
        assert key_of(config) != key

    def test_pictures_behind_a_link_are_part_of_its_identity(self, pictures, root, tmp_path, monkeypatch):
        monkeypatch.setenv("FEDCOPL_LAB_DATA", str(root))
        (linked := tmp_path / "linked").mkdir()
        for label in ("cat", "grey_dog"):
            (linked / label).symlink_to(pictures / label)
        config = configure("smoke", method="SAGE", dataset=f"folder:{linked}")
        key = key_of(config)
        (pictures / "cat/0.png").write_bytes(fakes.picture(seed=99, format="PNG"))
        assert key_of(config) != key

    def test_two_folders_of_one_class_name(self, pictures, root):
        (pictures / "grey_dog").rename(pictures / "a_cat")
        (pictures / "cat").rename(pictures / "a cat")
        with pytest.raises(FedCoPLError, match="give the class name 'a cat'; rename all but one"):
            load_dataset(f"folder:{pictures}", root, image_size=8)

    def test_bad_folders(self, pictures, root, tmp_path):
        with pytest.raises(FedCoPLError, match="is no folder"):
            load_dataset(f"folder:{tmp_path}/nowhere", root)
        with (
            pytest.raises(FedCoPLError, match=r"images of 0 class\(es\)"),
            pytest.warns(UserWarning, match="left out 0"),
        ):
            load_dataset(f"folder:{pictures}/cat", root)
        for label in ("cat", "grey_dog"):
            for path in list((pictures / label).glob("*.png"))[2:]:
                path.unlink()
        with pytest.raises(FedCoPLError, match="gives 4 training and 0 test images"):
            load_dataset(f"folder:{pictures}", root)
