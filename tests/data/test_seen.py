"""What `mini` is trained on: drawn from a seed, recorded, and in no pool that its clients hold."""

import numpy as np
import pytest

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import load_dataset
from fedcopl_lab.data._seen import TAILS, LongTail, draw_seen, pixel_twins, record_of, seen_positions
from fedcopl_lab.data._subset import PartName, split_name


def digests(images):
    return {image.numpy().tobytes() for image in images}


def test_the_record_is_the_draw_and_within_its_shares(real_cifar):
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


def test_the_tail_falls_from_most_to_least():
    sizes = LongTail(20, 2, 1.5).sizes(7)
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (20, 2)


def test_twins_are_found_across_sets_and_never_drawn():
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


def test_a_record_reads_back():
    import base64
    import tomllib

    labels, seen = np.array([0, 1, 1, 0, 1]), np.array([1, 3])
    table = tomllib.loads(record_of("some", seen, labels))["some"]
    assert (table["train"], table["seen"], table["per_class"]) == (5, 2, [1, 1])
    bits = np.unpackbits(np.frombuffer(base64.b64decode(table["mask"]), dtype=np.uint8))[:5]
    assert np.flatnonzero(bits).tolist() == [1, 3]


def test_names_of_parts():
    known = ("cifar10", "digits")
    assert split_name("cifar10:unseen", known) == PartName("cifar10", None, unseen=True)
    assert split_name("cifar10:unseen:60", known).text == "cifar10:unseen:60"
    assert split_name("cifar10:60", known) == PartName("cifar10", 60)
    with pytest.raises(FedCoPLError, match="mini is trained on no image of digits"):
        split_name("digits:unseen", known)
    with pytest.raises(FedCoPLError, match="asks for 'many' images"):
        split_name("cifar10:unseen:many", known)
    with pytest.raises(FedCoPLError, match="no image of 'digits' is seen by mini"):
        seen_positions("digits")
