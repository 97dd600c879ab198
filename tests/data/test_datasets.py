import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import fedcopl_lab.data._datasets as datasets
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import PAPER_DATASETS, load_dataset, load_manifest


@pytest.fixture
def digits():
    return load_dataset("digits")


def test_digits_are_the_ones_of_scikit_learn(digits):
    bunch = load_digits()
    assert digits.images.shape == (1797, 3, 8, 8)
    assert digits.images.dtype == torch.uint8
    for position in (0, 5, 1796):
        for row in range(8):
            for column in range(8):
                expected = round(bunch.images[position, row, column] * 255 / 16)
                assert digits.images[position, :, row, column].tolist() == [expected] * 3
    assert digits.labels.tolist() == bunch.target.tolist()
    assert len(digits) == 1797
    assert repr(digits) == "Dataset(digits: 1197 train + 600 test images, 8x8, 10 classes)"


def test_split_is_disjoint_complete_sorted_and_stratified(digits):
    train, test = digits.train_indices.tolist(), digits.test_indices.tolist()
    assert (len(train), len(test)) == (1197, 600)
    assert sorted(train + test) == list(range(1797))
    assert train == sorted(train)
    assert test == sorted(test)
    share = digits.test_labels.bincount() / digits.labels.bincount()
    assert ((share - 600 / 1797).abs() < 0.005).all()
    assert digits.train_labels.tolist() == [int(digits.labels[i]) for i in train]
    assert digits.n_classes == 10


def test_checksums_follow_the_documented_bytes(digits):
    content = digits.images.numpy().tobytes() + digits.labels.numpy().astype("<i8").tobytes()
    split = b"".join(
        np.asarray(part.tolist(), dtype="<i8").tobytes() for part in (digits.train_indices, digits.test_indices)
    )
    assert digits.manifest.content_sha256 == hashlib.sha256(content).hexdigest()
    assert digits.manifest.split_sha256 == hashlib.sha256(split).hexdigest()
    assert digits.sha256 == hashlib.sha256(content + split).hexdigest()


@pytest.fixture
def spoiled(monkeypatch):
    """Load the digits afresh with a changed manifest."""

    def load(**changes):
        manifest = replace(load_manifest("digits"), **changes)
        monkeypatch.setattr(datasets, "load_manifest", lambda name: manifest)
        return datasets._load_digits.__wrapped__()

    return load


def test_changed_data_or_split_is_refused(spoiled):
    with pytest.raises(FedCoPLError, match="content_sha256"):
        spoiled(content_sha256="0" * 64)
    with pytest.raises(FedCoPLError, match=r"split\.sha256"):
        spoiled(split_sha256="0" * 64)
    moved = load_manifest("digits").test_indices
    with pytest.raises(FedCoPLError, match=r"split\.sha256"):
        spoiled(test_indices=(moved[0] - 1, *moved[1:]))
    with pytest.raises(FedCoPLError, match="1797 images"):
        spoiled(n_train=1198)


@pytest.mark.parametrize("name", PAPER_DATASETS)
def test_papers_sets_say_how_to_get_them(name, tmp_path):
    with pytest.raises(FedCoPLError, match=f"{name} is not in .*`fedcopl-lab data get {name}`"):
        load_dataset(name, tmp_path)


def test_digits_at_another_size(digits, tmp_path):
    larger = load_dataset("digits", tmp_path, image_size=32)
    assert larger.images.shape == (1797, 3, 32, 32)
    assert torch.equal(larger.labels, digits.labels)
    assert larger.sha256 != digits.sha256
    assert load_dataset("digits", image_size=8) is digits
    with pytest.raises(FedCoPLError, match="image_size=-1 is below 1"):
        load_dataset("digits", tmp_path, image_size=-1)


@pytest.mark.parametrize(("name", "close"), [("digit", "digits"), ("Cifar-10", "cifar10"), ("zzz", None)])
def test_unknown_name_lists_known_and_close_ones(name, close):
    with pytest.raises(FedCoPLError, match="known: digits, cifar10") as caught:
        load_dataset(name)
    assert (f"did you mean '{close}'?" in str(caught.value)) == (close is not None)
