"""The quantity partition against a plain reference and properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_checks import SMALL_TEST, SMALL_TRAIN, assert_disjoint_and_complete, class_counts, same, sizes

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import quantity_partition


def test_five_clients_own_a_block_of_ucf101_classes_each():
    labels = np.repeat(np.arange(101), 12)
    for mode in ("paper", "authors"):
        shards = quantity_partition(labels, labels, 5, mode=mode)
        owned = (class_counts(shards, "train", labels, 101) > 0).sum(axis=1)
        assert owned.tolist() == [21, 21, 21, 21, 17]


@pytest.mark.parametrize(("n_classes", "owned"), [(47, [10] * 8 + [7] * 2), (45, [9] * 10), (10, [2] * 10)])
def test_ten_clients_share_classes_in_pairs(n_classes, owned):
    labels = np.repeat(np.arange(n_classes), 60)
    for mode in ("paper", "authors"):
        shards = quantity_partition(labels, labels, 10, mode=mode)
        holds = class_counts(shards, "train", labels, n_classes) > 0
        assert holds.sum(axis=1).tolist() == owned
        assert np.array_equal(holds[0::2], holds[1::2])


def test_authors_mode_equals_the_plain_routine():
    n_clients, n_classes = 10, 10
    stream = np.random.RandomState(500)
    stream.choice(n_classes, n_classes, replace=False)
    budget = [0.2 * n_classes] * n_clients
    train, test = [[] for _ in range(n_clients)], [[] for _ in range(n_clients)]
    for c in range(n_classes):
        chosen = [k for k in range(n_clients) if budget[k] > 0]
        chosen = chosen[: int(n_clients / n_classes * (0.2 * n_classes))]
        for held, labels in ((train, SMALL_TRAIN), (test, SMALL_TEST)):
            images = [i for i, y in enumerate(labels) if y == c]
            mean = len(images) / len(chosen)
            low = int(max(mean / n_clients, 10 / n_classes))
            start = 0
            for n in stream.randint(low, int(mean), len(chosen) - 1):
                held[chosen[0]] += images[start : start + n]
                start += n
            held[chosen[-1]] += images[start:]
        for k in chosen:
            budget[k] -= 1
    shards = quantity_partition(SMALL_TRAIN, SMALL_TEST, n_clients, mode="authors")
    assert [s.train.tolist() for s in shards] == train
    assert [s.test.tolist() for s in shards] == test


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n_clients=st.sampled_from([5, 10, 15]),
    mode=st.sampled_from(["paper", "authors"]),
    test_split=st.sampled_from(["independent", "same_proportions"]),
)
def test_disjoint_complete_bounded_and_repeatable(seed, n_clients, mode, test_split):
    def draw():
        return quantity_partition(SMALL_TRAIN, SMALL_TEST, n_clients, 0.2, seed, mode, test_split=test_split)

    shards = draw()
    assert_disjoint_and_complete(shards, len(SMALL_TRAIN), len(SMALL_TEST))
    assert same(shards, draw())
    counts = class_counts(shards, "train", SMALL_TRAIN, 10)
    assert (counts > 0).sum(axis=1).max() <= 2
    assert min(sizes(shards, "train")) >= 1


def test_same_proportions_follow_training():
    shards = quantity_partition(SMALL_TRAIN, SMALL_TEST, 10, test_split="same_proportions")
    train = class_counts(shards, "train", SMALL_TRAIN, 10)
    test = class_counts(shards, "test", SMALL_TEST, 10)
    assert np.abs(train / 60 - test / 30).max() <= 1 / 30


def test_too_little_room_is_an_error():
    with pytest.raises(FedCoPLError, match=r"room for the first 6 only; choose a larger fraction"):
        quantity_partition(SMALL_TRAIN, SMALL_TEST, 3, 0.2)


def test_clients_without_a_class_are_an_error():
    with pytest.raises(FedCoPLError, match="leaves 2 of them without a class; choose fewer clients"):
        quantity_partition(SMALL_TRAIN, SMALL_TEST, 7, 0.2)


def test_classes_too_small_for_their_clients_are_an_error():
    with pytest.raises(FedCoPLError, match="too small for its"):
        quantity_partition([0, 1] * 20, [0, 1] * 20, 10, 0.5)


def test_no_client_for_a_class_in_authors_mode():
    with pytest.raises(FedCoPLError, match="leaves no client for a class; choose 5 clients or more"):
        quantity_partition(SMALL_TRAIN, SMALL_TEST, 4, 0.2, mode="authors")


@pytest.mark.parametrize("bad", [{"fraction": 0}, {"fraction": 1.2}, {"test_split": "x"}, {"mode": "x"}])
def test_bad_options(bad):
    with pytest.raises(FedCoPLError, match=next(iter(bad))):
        quantity_partition(SMALL_TRAIN, SMALL_TEST, 5, **bad)
