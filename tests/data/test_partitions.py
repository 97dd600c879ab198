"""FedCoPL's partitions of labels against plain references and properties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import dirichlet_partition, iid_partition, quantity_partition
from fedcopl_lab.data._shard import floor_counts, largest_remainder_counts
from fedcopl_lab.seeding import numpy_generator

CIFAR10_TRAIN = np.repeat(np.arange(10), 5000)
CIFAR10_TEST = np.repeat(np.arange(10), 1000)
SMALL_TRAIN = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
SMALL_TEST = np.random.default_rng(2).permutation(np.repeat(np.arange(10), 30))
SMALL = (SMALL_TRAIN, SMALL_TEST)


def sizes(shards, part):
    return [len(getattr(shard, part)) for shard in shards]


def class_counts(shards, part, labels, n_classes):
    return np.array([np.bincount(labels[getattr(s, part)], minlength=n_classes) for s in shards])


def assert_disjoint_and_complete(shards, n_train=600, n_test=300):
    assert sorted(np.concatenate([s.train for s in shards]).tolist()) == list(range(n_train))
    assert sorted(np.concatenate([s.test for s in shards]).tolist()) == list(range(n_test))


def same(first, second):
    return all(
        np.array_equal(a.train, b.train) and np.array_equal(a.test, b.test) for a, b in zip(first, second, strict=True)
    )


def slow_authors_dirichlet(train_labels, test_labels, n_clients, beta):
    """The released routine, image by image, from its own fixed stream."""
    n_classes = max(train_labels) + 1
    stream = np.random.RandomState(500)
    stream.choice(n_classes, n_classes, replace=False)
    smallest = 0
    while smallest < 10:
        train = [[] for _ in range(n_clients)]
        test = [[] for _ in range(n_clients)]
        for c in range(n_classes):
            of_class = [[i for i, y in enumerate(labels) if y == c] for labels in (train_labels, test_labels)]
            for images in of_class:
                stream.shuffle(images)
            p = stream.dirichlet([beta] * n_clients)
            for held, images, labels in zip((train, test), of_class, (train_labels, test_labels), strict=True):
                w = [p[k] if len(held[k]) < len(labels) / n_clients else 0.0 for k in range(n_clients)]
                cumulated = np.cumsum(np.array(w) / np.sum(w))
                cuts = [0] + [int(share * len(images)) for share in cumulated[:-1]] + [len(images)]
                for k in range(n_clients):
                    held[k] = held[k] + images[cuts[k] : cuts[k + 1]]
        smallest = min(len(held) for held in train)
    for k in range(n_clients):
        stream.shuffle(train[k])
        stream.shuffle(test[k])
    return train, test


class TestDirichlet:
    @pytest.mark.parametrize("train", [CIFAR10_TRAIN, np.random.default_rng(0).permutation(CIFAR10_TRAIN)])
    def test_authors_mode_replays_the_published_cifar10_sizes_in_any_order_of_the_labels(self, train):
        shards = dirichlet_partition(train, CIFAR10_TEST, 10, 0.1, mode="authors")
        assert sizes(shards, "train") == [4385, 9050, 7622, 50, 6205, 1672, 305, 9306, 3371, 8034]
        assert sizes(shards, "test") == [874, 1810, 1525, 8, 1241, 335, 61, 1860, 674, 1612]
        assert_disjoint_and_complete(shards, 50_000, 10_000)

    @pytest.mark.parametrize(("n_clients", "beta"), [(5, 0.1), (8, 0.5), (10, 0.3), (3, 2), (20, 0.3)])
    def test_authors_mode_equals_the_plain_routine(self, n_clients, beta):
        train, test = slow_authors_dirichlet(SMALL_TRAIN.tolist(), SMALL_TEST.tolist(), n_clients, beta)
        shards = dirichlet_partition(*SMALL, n_clients, beta, mode="authors")
        assert [s.train.tolist() for s in shards] == train
        assert [s.test.tolist() for s in shards] == test

    def test_paper_mode_equals_a_plain_count_by_largest_remainder(self):
        # One class and one client that is never full: sizes must be the rounded shares themselves.
        stream = numpy_generator(4, "partition", "dirichlet")
        stream.shuffle(np.arange(101))
        stream.shuffle(np.arange(50))
        shares = stream.dirichlet(np.repeat(1.0, 4))
        shards = dirichlet_partition([0] * 101, [0] * 50, 4, 1.0, seed=4, min_train=0)
        for part, n in (("train", 101), ("test", 50)):
            floors = [int(np.floor(s * n)) for s in shares]
            order = sorted(range(4), key=lambda k: -(shares[k] * n - floors[k]))
            for k in order[: n - sum(floors)]:
                floors[k] += 1
            assert sizes(shards, part) == floors

    @settings(max_examples=40)
    @given(
        seed=st.integers(0, 2**31),
        beta=st.sampled_from([0.05, 0.1, 0.5, 1, 100.0]),
        n_clients=st.integers(1, 6),
        mode=st.sampled_from(["paper", "authors"]),
        test_split=st.sampled_from(["own_masks", "same_proportions"]),
    )
    def test_disjoint_complete_large_enough_and_repeatable(self, seed, beta, n_clients, mode, test_split):
        def draw():
            return dirichlet_partition(*SMALL, n_clients, beta, seed, mode, min_test=1, test_split=test_split)

        shards = draw()
        assert len(shards) == n_clients
        assert_disjoint_and_complete(shards)
        assert min(sizes(shards, "train")) >= 10
        assert min(sizes(shards, "test")) >= 1
        np.random.seed(seed % 1000)  # noqa: NPY002 - the global state must not matter
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        assert same(shards, draw())
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    def test_same_proportions_gives_one_class_mix_to_both_parts(self):
        shards = dirichlet_partition(*SMALL, 5, 0.1, test_split="same_proportions", min_test=1)
        train, test = class_counts(shards, "train", SMALL_TRAIN, 10), class_counts(shards, "test", SMALL_TEST, 10)
        assert np.abs(train / 60 - test / 30).max() <= 1 / 60 + 1 / 30

    def test_skew_follows_beta_and_full_clients_get_no_more(self):
        shards = dirichlet_partition(CIFAR10_TRAIN, CIFAR10_TEST, 5, 0.1, seed=3)
        # A client below 1/5 of the images can be dealt one more class and no second one after that.
        assert max(sizes(shards, "train")) < 10_000 + 5_000
        even, skewed = (
            class_counts(dirichlet_partition(*SMALL, 4, beta), "train", SMALL_TRAIN, 10) for beta in (1e6, 0.05)
        )
        assert even.min() >= 14
        assert (skewed == 0).mean() > 0.3

    def test_modes_and_seeds_differ(self):
        drawn = [dirichlet_partition(*SMALL, 5, 0.5, seed, mode) for seed in (0, 1) for mode in ("paper", "authors")]
        assert not any(same(a, b) for i, a in enumerate(drawn) for b in drawn[:i])

    @pytest.mark.parametrize("beta", [1e-3, 1e-4])
    def test_shares_that_underflow_are_drawn_again(self, beta):
        assert_disjoint_and_complete(dirichlet_partition(*SMALL, 4, beta))

    @pytest.mark.parametrize(
        ("n_clients", "beta", "options", "message"),
        [
            (4, 1e-300, {"mode": "authors"}, r"beta=1e-300 is so small .*choose a larger beta"),
            (40, 0.1, {"max_redraws": 5}, "choose fewer clients than 40, a larger beta than 0.1"),
            (70, 0.1, {}, "needs 700 train images, but there are 600; choose at most 60"),
            (10, 0.1, {"min_test": 31}, "needs 310 test images, but there are 300"),
            *((5, beta, {}, "beta=") for beta in (0, -0.1, float("nan"), float("inf"))),
            *((5, 0.1, bad, next(iter(bad))) for bad in ({"test_split": "x"}, {"mode": "code"}, {"min_train": -1})),
            (5, 0.1, {"max_redraws": -1}, "max_redraws"),
        ],
    )
    def test_bad_options(self, n_clients, beta, options, message):
        with pytest.raises(FedCoPLError, match=message):
            dirichlet_partition(*SMALL, n_clients, beta, **options)


class TestQuantity:
    @pytest.mark.parametrize(
        ("n_clients", "n_classes", "owned"),
        [(5, 101, [21, 21, 21, 21, 17]), (10, 47, [10] * 8 + [7] * 2), (10, 45, [9] * 10), (10, 10, [2] * 10)],
    )
    @pytest.mark.parametrize("mode", ["paper", "authors"])
    def test_clients_own_blocks_of_classes_and_ten_share_them_in_pairs(self, n_clients, n_classes, owned, mode):
        labels = np.repeat(np.arange(n_classes), 60)
        shards = quantity_partition(labels, labels, n_clients, mode=mode)
        holds = class_counts(shards, "train", labels, n_classes) > 0
        assert holds.sum(axis=1).tolist() == owned
        assert n_clients == 5 or np.array_equal(holds[0::2], holds[1::2])

    def test_seeds_differ_in_the_classes_that_share_a_client(self):
        def owned(seed, **options):
            shards = quantity_partition(*SMALL, 5, seed=seed, **options)
            return tuple(tuple(row.nonzero()[0].tolist()) for row in class_counts(shards, "train", SMALL_TRAIN, 10))

        in_order = tuple((2 * k, 2 * k + 1) for k in range(5))
        assert len({owned(seed) for seed in range(8)}) > 4
        assert {owned(seed, class_order="by_number") for seed in range(8)} == {in_order}
        assert {owned(seed, mode="authors") for seed in range(3)} == {in_order}

    def test_authors_mode_equals_the_plain_routine(self):
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
        shards = quantity_partition(*SMALL, n_clients, mode="authors")
        assert [s.train.tolist() for s in shards] == train
        assert [s.test.tolist() for s in shards] == test

    @settings(max_examples=30)
    @given(
        seed=st.integers(0, 2**31),
        n_clients=st.sampled_from([5, 10, 15]),
        mode=st.sampled_from(["paper", "authors"]),
        test_split=st.sampled_from(["independent", "same_proportions"]),
    )
    def test_disjoint_complete_bounded_and_repeatable(self, seed, n_clients, mode, test_split):
        def draw():
            return quantity_partition(*SMALL, n_clients, 0.2, seed, mode, test_split=test_split)

        shards = draw()
        assert_disjoint_and_complete(shards)
        assert same(shards, draw())
        train, test = class_counts(shards, "train", SMALL_TRAIN, 10), class_counts(shards, "test", SMALL_TEST, 10)
        assert (train > 0).sum(axis=1).max() <= 2
        assert min(sizes(shards, "train")) >= 1
        assert test_split == "independent" or np.abs(train / 60 - test / 30).max() <= 1 / 30

    @pytest.mark.parametrize(
        ("n_clients", "options", "message"),
        [
            (3, {}, "room for the first 6 only; choose a larger fraction"),
            (7, {}, "leaves 2 of them without a class; choose fewer clients"),
            (200, {"fraction": 0.5}, "too small for its"),
            (4, {"mode": "authors"}, "leaves no client for a class; choose 5 clients or more"),
            *(
                (5, bad, next(iter(bad)))
                for bad in ({"fraction": 0}, {"fraction": 1.2}, {"test_split": "x"}, {"class_order": "x"})
            ),
            (5, {"mode": "x"}, "mode"),
        ],
    )
    def test_bad_options(self, n_clients, options, message):
        with pytest.raises(FedCoPLError, match=message):
            quantity_partition(*SMALL, n_clients, **options)


class TestIID:
    def test_authors_mode_has_the_rounding_of_the_released_code(self):
        labels = np.repeat(np.arange(47), 60)
        shards = iid_partition(labels, labels, 10, mode="authors")
        assert sorted(sizes(shards, "train")) == [235] + [282] * 8 + [329]

    @settings(max_examples=30)
    @given(n_clients=st.integers(1, 30), seed=st.integers(0, 2**31))
    def test_paper_mode_differs_by_one_image_at_most(self, n_clients, seed):
        shards = iid_partition(*SMALL, n_clients, seed)
        assert_disjoint_and_complete(shards)
        assert same(shards, iid_partition(*SMALL, n_clients, seed))
        for part, labels in (("train", SMALL_TRAIN), ("test", SMALL_TEST)):
            assert max(sizes(shards, part)) - min(sizes(shards, part)) <= 1
            assert np.ptp(class_counts(shards, part, labels, 10), axis=0).max() <= 1

    def test_bad_options(self):
        with pytest.raises(FedCoPLError, match="without a training image"):
            iid_partition([0, 1, 2, 3], [0], 4, mode="authors")
        for seed in (-1, 2**32):
            with pytest.raises(FedCoPLError, match="32-bit legacy stream"):
                iid_partition(*SMALL, 5, seed, mode="authors")


@pytest.mark.parametrize("scheme", [lambda *a: dirichlet_partition(*a, 0.5), quantity_partition, iid_partition])
class TestLabels:
    def test_lists_arrays_and_tensors_are_the_same_and_shards_read_only_int64(self, scheme):
        shards = scheme(*SMALL, 5)
        assert same(shards, scheme(SMALL_TRAIN.tolist(), SMALL_TEST.tolist(), 5))
        assert same(shards, scheme(torch.tensor(SMALL_TRAIN), torch.tensor(SMALL_TEST), 5))
        assert same(shards, scheme(SMALL_TRAIN.astype(np.uint8), SMALL_TEST.astype(np.int32), 5))
        assert shards[0].train.dtype == shards[0].test.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            shards[0].train[0] = 1
        assert repr(shards[0]) == f"Shard({len(shards[0].train)} train, {len(shards[0].test)} test)"

    @pytest.mark.parametrize(
        ("train", "test", "n_clients", "message"),
        [
            ([], [0], 1, "train_labels is empty"),
            ([0, 1], [], 1, "test_labels is empty"),
            ([0, -1], [0], 1, "contains -1; class numbers start at 0"),
            ([0, 1], np.zeros((2, 1), dtype=int), 1, "test_labels has 2 dimensions"),
            ([0.0, 1.0], [0], 1, "train_labels is of type float64"),
            (["cat"], [0], 1, "train_labels is of type"),
            ([0, 1], [0], 0, "n_clients=0 is below 1"),
            ([0, 1], [0], -3, "n_clients=-3 is below 1"),
            ([0, 1], [0], 3, "n_clients=3 is more than the 2 training images"),
        ],
    )
    def test_bad_input(self, scheme, train, test, n_clients, message):
        with pytest.raises(FedCoPLError, match=message):
            scheme(train, test, n_clients)


@given(
    weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=12),
    n_images=st.integers(0, 10_000),
    rounding=st.sampled_from([floor_counts, largest_remainder_counts]),
)
def test_roundings_keep_the_sum(weights, n_images, rounding):
    shares = np.array(weights) / np.sum(weights)
    counts = rounding(shares, n_images)
    assert counts.sum() == n_images
    assert counts.min() >= 0
    if rounding is largest_remainder_counts:
        assert np.abs(counts - shares * n_images).max() < 1 + 1e-6
