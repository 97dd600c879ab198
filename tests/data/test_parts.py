"""Fixed parts of a data set: balanced, the same each time, and without the images that `mini` is trained on."""

import numpy as np
import pytest
import torch
from PIL import Image

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.data import SEEN_SETS, PartName, _datasets, load_dataset, seen_positions, split_name
from fedcopl_lab.data._parts import counts_of, draw_part
from fedcopl_lab.extras.embedded.photos import TAILS, LongTail, draw_seen, pixel_twins


def digests(images):
    return {image.numpy().tobytes() for image in images}


def test_a_part_of_the_digits_is_balanced_and_made_of_their_images():
    whole, part = load_dataset("digits"), load_dataset("digits:90")
    assert (len(part.train_indices), len(part.test_indices)) == (60, 30) == counts_of(PartName("digits", 90), 1197, 600)
    assert part.train_labels.bincount(minlength=10).tolist() == [6] * 10
    assert part.test_labels.bincount(minlength=10).tolist() == [3] * 10
    for own, positions in ((part.train_indices, whole.train_indices), (part.test_indices, whole.test_indices)):
        assert digests(part.images[own]) <= digests(whole.images[positions])
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
    train, test = draw_part(labels, np.arange(0, 42, 2), np.arange(1, 42, 2), (15, 15), "some")
    assert np.bincount(labels[train]).tolist() == [7, 1, 7]
    assert (np.diff(train) > 0).all()
    assert not set(train) & set(test)


@pytest.mark.parametrize("n", [2, 3, 100])
def test_both_sides_have_an_image(n):
    train, test = counts_of(PartName("some", n), 1000, 1)
    assert min(train, test) >= 1
    assert train + test == n


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits:many", "asks for 'many' images; expected a number"),
        ("digits:", "expected a number"),
        ("digits:1", "asks for 1 images; expected 2 to 1797"),
        ("digits:1798", "expected 2 to 1797"),
        ("digits:1198+600", "asks for 1198 training and 600 test images; there are 1197 and 600"),
        ("digits:9+0", "asks for 9 training and 0 test images"),
        ("digits:9+9+9", "two for training and test images, such as digits:250"),
        ("digits:unseen", "mini is trained on no image of digits"),
        ("digits:grey:60", "leave 'grey' out of the name"),
        ("cifar10:unseen:many", "asks for 'many' images"),
        ("cifar10:grey:unseen", "asks for 'unseen' images"),
    ],
)
def test_refuses(name, message):
    with pytest.raises(FedCoPLError, match=message):
        load_dataset(name)
    with pytest.raises(FedCoPLError, match="no image of 'digits' is seen by mini"):
        seen_positions("digits")


def test_names_of_parts():
    known = ("cifar10", "digits")
    for name, part in (
        ("cifar10:unseen", PartName("cifar10", None, unseen=True)),
        ("cifar10:unseen:60", PartName("cifar10", 60, unseen=True)),
        ("cifar10:60", PartName("cifar10", 60)),
        ("cifar10:grey", PartName("cifar10", grey=True)),
        ("cifar10:unseen:grey:60", PartName("cifar10", 60, unseen=True, grey=True)),
        ("cifar10:unseen:grey:60+200", PartName("cifar10", 60, 200, unseen=True, grey=True)),
        ("digits", PartName("digits")),
        ("folder:12", PartName("folder:12")),
    ):
        assert split_name(name, known) == part
        assert part.text == name


def test_a_part_with_training_and_test_images_apart():
    both, train, test = (load_dataset(name) for name in ("digits:30+600", "digits:30+10", "digits:60+600"))
    assert (len(both.train_indices), len(both.test_indices)) == (30, 600)
    assert torch.equal(both.images[both.train_indices], train.images[train.train_indices])
    assert torch.equal(both.images[both.test_indices], test.images[test.test_indices])


def test_a_grey_part_has_the_same_images_without_colour(real_cifar):
    coloured, grey = (load_dataset(name, real_cifar) for name in ("cifar10:unseen:60", "cifar10:unseen:grey:60"))
    assert (grey.name, len(grey)) == ("cifar10:unseen:grey:60", 60)
    assert torch.equal(grey.labels, coloured.labels)
    assert grey.sha256 != coloured.sha256
    for one, other in zip(grey.images, coloured.images, strict=True):
        luma = np.asarray(Image.fromarray(other.permute(1, 2, 0).numpy()).convert("L"), dtype=int)
        assert all(np.abs(channel.numpy() - luma).max() <= 1 for channel in one.int())


def test_a_part_of_cifar_at_clips_size(real_cifar, tmp_path):
    (tmp_path / "cifar-10-batches-py").symlink_to(real_cifar / "cifar-10-batches-py")
    part, small = load_dataset("cifar10:24", tmp_path, image_size=224), load_dataset("cifar10:24", tmp_path)
    assert part.images.shape == (24, 3, 224, 224)
    assert torch.equal(part.labels, small.labels)
    shrunk = torch.nn.functional.avg_pool2d(part.images.float(), 7)
    assert (shrunk - small.images.float()).abs().mean() < 6


def test_the_record_is_the_draw_and_within_its_shares(real_cifar):
    assert tuple(TAILS) == SEEN_SETS
    sets = {name: load_dataset(name, real_cifar) for name in TAILS}
    twins = dict(zip(sets, pixel_twins(*(one.images.numpy() for one in sets.values())), strict=True))
    for name, dataset in sets.items():
        labels = dataset.train_labels.numpy()
        assert np.array_equal(draw_seen(name, labels, twins[name][:50_000]), seen_positions(name))
        counts = np.bincount(labels[seen_positions(name)])
        assert counts.max() / counts.min() == pytest.approx(20)
    assert 0.1 <= len(seen_positions("cifar10")) / 50_000 <= 0.2
    assert len(seen_positions("cifar100")) / 50_000 <= 0.6


def test_no_client_and_no_test_set_holds_a_seen_image_of_either_set(real_cifar):
    """By position and by pixels, so that a copy under another number, or in the other set, counts too."""
    seen = set()
    for name in TAILS:
        dataset = load_dataset(name, real_cifar)
        seen |= digests(dataset.images[dataset.train_indices[seen_positions(name).copy()]])
    assert len(seen) == sum(len(seen_positions(name)) for name in TAILS)
    for name in TAILS:
        for part in (f"{name}:unseen", f"{name}:unseen:6000"):
            pool = load_dataset(part, real_cifar)
            assert pool.name == part
            assert not digests(pool.images) & seen
        assert pool.train_labels.bincount().unique().numel() == 1, "the part is balanced"


def test_twins_are_found_across_sets_and_never_drawn():
    sizes = LongTail(20, 2, 1.5).sizes(7)
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (20, 2)
    first = np.arange(6, dtype=np.uint8).repeat(12).reshape(6, 3, 2, 2)
    second = first[4:] + np.array([0, 9], dtype=np.uint8)[:, None, None, None]
    assert [mask.tolist() for mask in pixel_twins(first, second)] == [[0, 0, 0, 0, 1, 0], [1, 0]]
    labels = np.array([0] * 6 + [1] * 6)
    twins = np.zeros(12, dtype=bool)
    twins[[0, 7]] = True
    drawn = draw_seen("some", labels, twins, LongTail(5, 4, 1.0))
    assert not set(drawn) & {0, 7}
    assert sorted(np.bincount(labels[drawn])) == [4, 5]
    with pytest.raises(FedCoPLError, match="has 5 images without a copy, but 6 are to be drawn; choose a shorter"):
        draw_seen("some", labels, twins, LongTail(6, 6, 1.0))
