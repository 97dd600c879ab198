"""SAGE's clients: the released routine, image by image, and what has to hold for every draw."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import load_dataset, partition, restore_federation, sage_partition, split_table

CIFAR10 = np.repeat(np.arange(10), 5000)
SMALL = np.random.default_rng(3).permutation(np.repeat(np.arange(5), 80))
REPLAYS = json.loads((Path(__file__).parent / "sage_replays.json").read_text())


def slow_pairwise(lists, n_classes, n_clients, alpha, seed):
    """Chunks for two clients each, draws over the two, then equal parts; plain lists and loops."""
    stream = np.random.RandomState(seed)
    pairs = [(int(index), label) for label, of_class in enumerate(lists) for index in of_class]
    stream.shuffle(pairs)
    n_chunks = -(-n_clients // 2)
    size = int(2 / n_clients * len(pairs))
    everyone = []
    for c in range(n_chunks):
        chunk = pairs[c * size :] if c == n_chunks - 1 else pairs[c * size : (c + 1) * size]
        group = min(2, n_clients - 2 * c)
        smallest, held = -1, []
        while smallest < int(0.5 * len(chunk) / group):
            held = [[] for _ in range(group)]
            for label in range(n_classes):
                mine = [index for index, y in chunk if y == label]
                q = stream.dirichlet([alpha] * group)
                q = np.array([q[k] if len(held[k]) < len(chunk) / group else 0.0 for k in range(group)])
                cuts = [0, *[int(share * len(mine)) for share in np.cumsum(q / q.sum())[:-1]], len(mine)]
                for k in range(group):
                    held[k] = held[k] + mine[cuts[k] : cuts[k + 1]]
            smallest = min(map(len, held))
        everyone += [index for client in held for index in client]
    even, rest = divmod(len(everyone), n_clients)
    parts, start = [], 0
    for k in range(n_clients):
        stop = start + even + (k < rest)
        parts.append(everyone[start:stop])
        start = stop
    return parts


def slow_authors(labels, n_clients, alpha, per_class):
    n_classes = max(labels) + 1
    stream = np.random.RandomState(7)
    labelled, unlabelled = [], []
    for c in range(n_classes):
        shuffled = stream.permutation([i for i, y in enumerate(labels) if y == c])
        labelled.append(shuffled[:per_class])
        unlabelled.append(shuffled[per_class:])
    first = slow_pairwise(labelled, n_classes, n_clients, alpha, 0)
    second = slow_pairwise(unlabelled, n_classes, n_clients, alpha, 0)
    return [(mine, others + mine) for mine, others in zip(first, second, strict=True)]


@pytest.mark.parametrize(("n_clients", "alpha"), [(20, 0.1), (4, 1.0), (7, 0.5), (2, 0.1), (1, 1.0)])
def test_authors_mode_is_the_released_routine(n_clients, alpha):
    shards = sage_partition(SMALL, n_clients, alpha, mode="authors", labelled_per_class=16, min_unlabelled=1)
    expected = slow_authors(SMALL.tolist(), n_clients, alpha, 16)
    assert [(s.labelled.tolist(), s.train.tolist()) for s in shards] == expected


def sha256(shards):
    digest = hashlib.sha256()
    for shard in shards:
        for part in (shard.labelled, shard.train):
            digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("replay", REPLAYS, ids=lambda replay: f"{replay['set']}-{replay['alpha']}")
def test_replays_at_the_papers_sizes(replay):
    labels = np.repeat(np.arange(len(replay["class_sizes"])), replay["class_sizes"])
    per_class = replay["labelled_per_class"]
    shards = sage_partition(labels, 20, replay["alpha"], mode="authors", labelled_per_class=per_class)
    assert sha256(shards) == replay["sha256"]
    assert [int(shards[0].labelled[0]), int(shards[19].train[-1])] == replay["first_and_last"]
    assert sorted({len(s.labelled) for s in shards}) == replay["labelled_sizes"]
    assert sorted({len(s.train) for s in shards}) == replay["pool_sizes"]


def total_variation(counts):
    mix = counts / counts.sum(axis=1, keepdims=True)
    return np.abs(mix - counts.sum(axis=0) / counts.sum()).sum(axis=1).mean() / 2


@pytest.mark.parametrize(
    ("alpha", "classes", "variation", "mismatch"),
    [(0.1, 6.2, 0.43, 0.47), (0.5, 8.3, 0.32, 0.43), (1, 8.7, 0.30, 0.39)],
)
def test_authors_heterogeneity_at_the_size_of_cifar10(alpha, classes, variation, mismatch):
    shards = sage_partition(CIFAR10, 20, alpha, mode="authors", labelled_per_class=500)
    labelled, others = counts_of_parts(shards)
    mix, own = others / others.sum(1, keepdims=True), labelled / labelled.sum(1, keepdims=True)
    assert round((mix > 0.01).sum(1).mean(), 1) == classes
    assert round(total_variation(others), 2) == variation
    assert round(np.abs(mix - own).sum(1).mean() / 2, 2) == pytest.approx(mismatch, abs=0.011)
    assert round(total_variation(others.reshape(10, 2, 10).sum(1)), 3) == 0.016, "pairs are alike"


@settings(max_examples=60)
@given(
    n_clients=st.integers(1, 12),
    alpha=st.sampled_from([0.05, 0.3, 1, 10.0]),
    scheme=st.sampled_from(["dirichlet", "pairwise_balanced", "iid"]),
    mode=st.sampled_from(["paper", "authors"]),
    fraction=st.sampled_from([0.1, 0.2, 0.5]),
    seed=st.integers(0, 1000),
)
def test_what_holds_for_every_draw(n_clients, alpha, scheme, mode, fraction, seed):
    def draw():
        alpha_or_none, none = None if scheme == "iid" else alpha, {"min_labelled": 0, "min_unlabelled": 0}
        return sage_partition(SMALL, n_clients, alpha_or_none, fraction, seed, mode, scheme=scheme, **none)

    np.random.seed(seed)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    torch.manual_seed(1)
    shards = draw()
    assert np.random.get_state()[1].tolist() == before, "no global stream is touched"  # noqa: NPY002
    assert sorted(np.concatenate([s.train for s in shards]).tolist()) == list(range(400))
    labelled = np.concatenate([s.labelled for s in shards])
    assert np.bincount(SMALL[labelled], minlength=5).tolist() == [round(80 * fraction)] * 5
    for shard in shards:
        assert set(shard.labelled.tolist()) <= set(shard.train.tolist())
        assert sorted([*shard.labelled.tolist(), *shard.unlabelled.tolist()]) == sorted(shard.train.tolist())
        assert len(shard.test) == 0
    if scheme != "dirichlet" or mode == "authors":
        for part in ("labelled", "unlabelled"):
            sizes = [len(getattr(s, part)) for s in shards]
            assert max(sizes) - min(sizes) <= 1
    np.random.seed(seed + 1)  # noqa: NPY002
    assert sha256(shards) == sha256(draw())


def test_seeds_and_modes_differ():
    settings = [(seed, mode) for seed in range(3) for mode in ("paper", "authors")]
    assert len({sha256(sage_partition(SMALL, 5, 0.5, 0.1, *pair, min_unlabelled=1)) for pair in settings}) == 6


def counts_of_parts(shards):
    parts = ("labelled", "unlabelled")
    return (np.array([np.bincount(CIFAR10[getattr(s, part)], minlength=10) for s in shards]) for part in parts)


def test_the_two_parts_are_drawn_separately():
    labelled, others = counts_of_parts(sage_partition(CIFAR10, 20, 0.1))
    assert total_variation(labelled) > 0.5
    gap = np.abs(labelled / labelled.sum(1, keepdims=True) - others / others.sum(1, keepdims=True))
    assert gap.sum(1).mean() / 2 > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha=0 is not a number above 0"),
        ({"alpha": float("nan")}, "alpha=nan is not"),
        ({"alpha": None}, "alpha=None is not"),
        ({"scheme": "iid"}, "alpha=0.1 has no meaning"),
        ({"scheme": "x"}, "scheme='x' is unknown"),
        ({"mode": "code"}, "mode='code' is unknown"),
        ({"label_fraction": 0}, "label_fraction=0 is not between"),
        ({"label_fraction": 1}, "label_fraction=1 is not between"),
        ({"label_fraction": 0.999}, "80 labelled images of class 0, which has 80"),
        ({"labelled_per_class": 0}, "0 labelled images of class 0"),
        ({"n_clients": 0}, "n_clients=0 is below 1"),
        ({"n_clients": 100}, "needs 100 labelled images, but there are 40"),
        ({"n_clients": 39, "alpha": 0.05, "max_redraws": 3}, "no draw of 4 gave all 39 clients 1 labelled images"),
        ({"mode": "authors", "seed": -1}, "32-bit legacy stream"),
        ({"max_redraws": -1}, "max_redraws=-1 is negative"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(FedCoPLError, match=message) as caught:
        sage_partition(SMALL, **{"n_clients": 4, "alpha": 0.1, "min_unlabelled": 1, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("wrong", [{"n_clients": 5.0}, {"n_clients": "5"}, {"labelled_per_class": 2.5}, {"seed": 1.5}])
def test_what_is_no_whole_number_is_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(FedCoPLError, match=f"{name}={value!r} is not valid; expected a whole number"):
        partition(load_dataset("digits"), "iid", **{"n_clients": 5, "label_fraction": 0.1, **wrong})
    if name != "labelled_per_class":
        with pytest.raises(FedCoPLError, match=f"{name}={value!r} is not valid"):
            partition(load_dataset("digits"), "iid", **{"n_clients": 5, **wrong})


class TestFederation:
    @pytest.fixture
    def digits(self):
        return load_dataset("digits")

    def test_positions_are_those_of_the_whole_set(self, digits):
        federation = partition(digits, "dirichlet", 5, alpha=1.0, label_fraction=0.1, seed=1)
        assert repr(federation) == (
            "Federation(digits, dirichlet, alpha=1, label_fraction=0.1, 5 clients, seed=1, mode=paper)"
        )
        few = partition(digits, "iid", 5, label_fraction=0.1, labelled_per_class=4)
        assert repr(few) == "Federation(digits, iid, labelled_per_class=4, 5 clients, seed=0, mode=paper)"
        held = np.concatenate([shard.train for shard in federation.shards])
        assert sorted(held.tolist()) == digits.train_indices.tolist()
        counts = {part: federation.class_counts(part) for part in ("train", "labelled", "unlabelled")}
        assert (counts["train"] == counts["labelled"] + counts["unlabelled"]).all()
        assert federation.class_counts("test").sum() == 0
        assert federation.heterogeneity.smallest_train >= 10
        assert federation.indices(0, "labelled").dtype == torch.int64

    def test_labelled_parts_exist_only_with_labels(self, digits):
        federation = partition(digits, "iid", 5)
        with pytest.raises(FedCoPLError, match="no image of this federation is labelled"):
            federation.indices(0, "labelled")
        assert torch.equal(federation.indices(0, "unlabelled"), federation.indices(0, "train"))

    @pytest.mark.parametrize(
        "arguments",
        [
            {"scheme": "dirichlet", "alpha": 0.5, "label_fraction": 0.2},
            {"scheme": "pairwise_balanced", "alpha": 0.1, "label_fraction": 0.1},
            {"scheme": "dirichlet", "alpha": 0.1, "label_fraction": 0.1, "mode": "authors"},
            {"scheme": "iid", "label_fraction": 0.1},
            {"scheme": "dirichlet", "beta": 0.1},
            {"scheme": "quantity"},
        ],
    )
    def test_a_stored_split_is_read_not_drawn(self, digits, arguments):
        federation = partition(digits, n_clients=5, **arguments)
        table = json.loads(json.dumps(split_table(federation)))
        restored = restore_federation(digits, table)
        assert restored.sha256 == federation.sha256
        assert repr(restored) == repr(federation)
        table["shards"][0]["train"][0], table["shards"][1]["train"][0] = (
            table["shards"][1]["train"][0],
            table["shards"][0]["train"][0],
        )
        with pytest.raises(FedCoPLError, match="it was changed: remove the run"):
            restore_federation(digits, table)
        with pytest.raises(FedCoPLError, match="is of 'other', not of 'digits'"):
            restore_federation(digits, {**table, "dataset": "other"})
        for name in ("shards", "settings", "sha256"):
            with pytest.raises(FedCoPLError, match=r"of digits is damaged .*; remove the run to compute it again"):
                restore_federation(digits, {key: value for key, value in table.items() if key != name})
        with pytest.raises(FedCoPLError, match="is damaged"):
            restore_federation(digits, {**table, "shards": [{"train": "all"}]})
        table["shards"][0]["train"][0] = 99_999
        with pytest.raises(FedCoPLError, match="names image 99999, but digits has 1797"):
            restore_federation(digits, table)
