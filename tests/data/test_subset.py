"""A fixed part of a data set: balanced, in proportion, the same each time, and only its images are decoded."""

import numpy as np
import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.data import _datasets, load_dataset
from fedcopl_lab.data._subset import PartName, draw_part, part_sizes, split_name


def test_a_part_of_the_digits_is_balanced_and_made_of_their_images():
    whole, part = load_dataset("digits"), load_dataset("digits:90")
    assert (len(part.train_indices), len(part.test_indices)) == (60, 30) == part_sizes(1197, 600, 90, "digits")
    assert part.train_labels.bincount(minlength=10).tolist() == [6] * 10
    assert part.test_labels.bincount(minlength=10).tolist() == [3] * 10
    for own, positions in ((part.train_indices, whole.train_indices), (part.test_indices, whole.test_indices)):
        there = {image.numpy().tobytes() for image in whole.images[positions]}
        assert all(image.numpy().tobytes() in there for image in part.images[own])
    assert part.name == "digits:90"
    assert part.class_names == whole.class_names


def test_the_part_is_fixed_and_its_size_counts_in_the_run_key():
    first = load_dataset("digits:40")
    _datasets._load_part.cache_clear()
    again = load_dataset("digits:40")
    assert again is not first
    assert first.sha256 == again.sha256
    assert torch.equal(first.images, again.images)
    keys = {key_of(lab.configure("smoke", dataset=name)) for name in ("digits", "digits:40", "digits:41")}
    assert len(keys) == 3


def test_rare_classes_give_what_they_have():
    labels = np.array([0] * 20 + [1] * 2 + [2] * 20)
    train, test = draw_part(labels, np.arange(0, 42, 2), np.arange(1, 42, 2), 30, "some")
    assert np.bincount(labels[train]).tolist() == [7, 1, 7]
    assert (np.diff(train) > 0).all()
    assert not set(train) & set(test)


@pytest.mark.parametrize("n", [2, 3, 100])
def test_both_sides_have_an_image(n):
    train, test = part_sizes(1000, 1, n, "some")
    assert train >= 1
    assert test >= 1
    assert train + test == n


def test_other_names_are_left_alone():
    assert split_name("folder:12", ("digits",)) == PartName("folder:12")
    assert split_name("digits", ("digits",)) == PartName("digits")


@pytest.mark.parametrize(
    ("name", "saying"),
    [("digits:many", "asks for 'many' images; expected a number"), ("digits:", "expected a number"),
     ("digits:1", "asks for 1 images; expected 2 to 1797"), ("digits:1798", "expected 2 to 1797")],
)  # fmt: skip
def test_refuses(name, saying):
    with pytest.raises(FedCoPLError, match=saying):
        load_dataset(name)


def test_a_part_of_cifar_at_clips_size(real_cifar, tmp_path):
    (tmp_path / "cifar-10-batches-py").symlink_to(real_cifar / "cifar-10-batches-py")
    part, small = load_dataset("cifar10:24", tmp_path, image_size=224), load_dataset("cifar10:24", tmp_path)
    assert part.images.shape == (24, 3, 224, 224)
    assert torch.equal(part.labels, small.labels)
    shrunk = torch.nn.functional.avg_pool2d(part.images.float(), 7)
    assert (shrunk - small.images.float()).abs().mean() < 6
