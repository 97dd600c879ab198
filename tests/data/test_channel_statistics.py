"""Which constants training and test images are normalised with."""

from types import SimpleNamespace

import pytest
import torch

from fedcopl_lab import FedCoPLError, load_dataset
from fedcopl_lab.data import channel_statistics, draw_strong, load_manifest, strong_view

CIFAR = ([0.4914, 0.4822, 0.4465], [0.2471, 0.2435, 0.2616])


def constants(name, part, norm):
    statistics = getattr(channel_statistics, "__wrapped__", channel_statistics)
    pair = statistics(SimpleNamespace(name=name, manifest=load_manifest(name)), part, norm)
    return [[round(v, 4) for v in row.tolist()] for row in (pair.mean, pair.std)]


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "cinic10"])
def test_authors_train_every_set_with_the_constants_of_cifar10_and_matched_is_one_pair(name):
    assert constants(name, "train", "authors") == list(CIFAR)
    assert constants(name, "test", "authors") != list(CIFAR)
    assert constants(name, "train", "matched") == constants(name, "test", "matched")


def test_test_input_is_a_stretched_training_input_under_the_authors_constants():
    """The released code's contrast on CIFAR-10 test images, 1.22 to 1.30 times that of training."""
    train, test = (constants("cifar10", part, "authors")[1] for part in ("train", "test"))
    assert [round(a / b, 2) for a, b in zip(train, test, strict=True)] == [1.22, 1.22, 1.30]


@pytest.mark.usefixtures("as_installed")
def test_an_unknown_word_is_refused():
    digits = load_dataset("digits")
    with pytest.raises(FedCoPLError, match="part='val' is unknown; choose one of train, test"):
        channel_statistics(digits, "val")
    with pytest.raises(FedCoPLError, match="norm='author' is unknown; choose one of matched, authors"):
        channel_statistics(digits, "train", "author")
    draws = draw_strong(2, 8, torch.Generator())
    with pytest.raises(FedCoPLError, match="cutout='15' is unknown; choose one of 17_inclusive, 16"):
        strong_view(digits.images[:2], draws, "15")


def test_other_sets_are_measured_on_their_training_images():
    digits = load_dataset("digits")
    pair = channel_statistics(digits, "test")
    levels = digits.images[digits.train_indices].double() / 255
    assert torch.allclose(pair.mean.double(), levels.mean(dim=(0, 2, 3)), atol=1e-6)
    assert torch.allclose(pair.std.double(), levels.std(dim=(0, 2, 3), correction=0), atol=1e-6)
    assert channel_statistics(digits, "train", "authors").mean.tolist() == pytest.approx(CIFAR[0])
