import time

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import (
    dirichlet_partition,
    heterogeneity,
    iid_partition,
    load_dataset,
    partition,
    quantity_partition,
)


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.mark.parametrize("beta", [0.1, 0.05])
@pytest.mark.parametrize("n_clients", [5, 10])
def test_smoke_federations_exist_for_ten_seeds(digits, n_clients, beta):
    checksums = set()
    for seed in range(10):
        federation = partition(digits, "dirichlet", n_clients, beta, seed=seed)
        checksums.add(federation.sha256)
        assert federation.redraws <= 10
        for part, every in (("train", digits.train_indices), ("test", digits.test_indices)):
            held = np.concatenate([getattr(shard, part) for shard in federation.shards])
            assert sorted(held.tolist()) == every.tolist()
        assert federation.heterogeneity.smallest_train >= 10
        assert federation.heterogeneity.smallest_test >= 5
    assert len(checksums) == 10
    assert partition(digits, "dirichlet", 30, 0.5, mode="authors").heterogeneity.smallest_train >= 10


def test_fifty_clients_are_more_than_the_digits_carry(digits):
    start = time.perf_counter()
    with pytest.raises(FedCoPLError, match=r"choose fewer clients than 50, a larger beta than 0\.1") as caught:
        partition(digits, "dirichlet", 50, 0.1)
    assert time.perf_counter() - start < 60
    assert "\n" not in str(caught.value)
    with pytest.raises(FedCoPLError, match="needs 1500 train images, but there are 1197"):
        partition(digits, "dirichlet", 150, 0.1)
    with pytest.raises(FedCoPLError, match="needs 1500 train images"):
        partition(digits, "iid", 150)


def test_shards_are_the_schemes_own_mapped_to_the_dataset(digits):
    labels = (digits.train_labels, digits.test_labels)
    pairs = [
        (partition(digits, "dirichlet", 5, 0.1, seed=3), dirichlet_partition(*labels, 5, 0.1, 3, min_test=5)),
        (partition(digits, "dirichlet", 5, 0.5, mode="authors"), dirichlet_partition(*labels, 5, 0.5, 0, "authors")),
        (partition(digits, "quantity", 10, seed=2), quantity_partition(*labels, 10, 0.2, 2, min_train=10)),
        (partition(digits, "iid", 7, seed=1), iid_partition(*labels, 7, 1)),
    ]
    for federation, shards in pairs:
        assert len(federation) == len(shards) == len(federation.shards)
        for mapped, shard in zip(federation.shards, shards, strict=True):
            assert mapped.train.tolist() == [int(digits.train_indices[i]) for i in shard.train]
            assert mapped.test.tolist() == [int(digits.test_indices[i]) for i in shard.test]


def test_class_counts_and_indices(digits):
    federation = partition(digits, "quantity", 10)
    for part, labels in (("train", digits.train_labels), ("test", digits.test_labels)):
        counts = federation.class_counts(part)
        assert counts.shape == (10, 10)
        assert counts.sum(axis=0).tolist() == labels.bincount().tolist()
        for client in range(10):
            positions = federation.indices(client, part)
            assert positions.dtype == torch.int64
            assert digits.labels[positions].bincount(minlength=10).tolist() == counts[client].tolist()
    with pytest.raises(FedCoPLError, match="part='val'"):
        federation.class_counts("val")


def test_reprs_say_the_setting_and_html_shows_the_clients(digits):
    assert (
        repr(partition(digits, "dirichlet", 5, beta=0.1))
        == "Federation(digits, dirichlet, beta=0.1, 5 clients, seed=0, mode=paper)"
    )
    assert "fraction=0.2" in repr(partition(digits, "quantity", 5))
    few, many = partition(digits, "iid", 5), partition(digits, "iid", 20)
    assert "\n" not in repr(few.heterogeneity)
    shown = few._repr_html_()
    assert shown.count("<tr>") == 6
    assert all(word in shown for word in ("zero", "nine", "<th>test</th>", repr(few)))
    assert f'">{len(few.shards[4].test)}</td></tr></table>' in shown
    assert many._repr_html_().startswith("<details><summary>Federation(digits, iid, 20 clients")
    labelled = partition(digits, "iid", 5, label_fraction=0.1)._repr_html_()
    assert "<th>labelled</th>" in labelled
    assert "<th>test</th>" not in labelled


def test_checksum_tells_apart_who_holds_what(digits):
    first = partition(digits, "dirichlet", 5, 0.1)
    assert first.sha256 == partition(digits, "dirichlet", 5, 0.1).sha256
    others = [
        partition(digits, "dirichlet", 5, 0.1, seed=1),
        partition(digits, "dirichlet", 5, 0.2),
        partition(digits, "dirichlet", 5, 0.1, mode="authors"),
        partition(digits, "iid", 5),
    ]
    assert len({first.sha256, *(other.sha256 for other in others)}) == 5


def test_skew_grows_as_beta_shrinks(digits):
    variations = [
        np.mean([partition(digits, "dirichlet", 5, beta, seed=s).heterogeneity.total_variation for s in range(5)])
        for beta in (100, 1, 0.1)
    ]
    assert variations == sorted(variations)
    assert partition(digits, "iid", 5).heterogeneity.total_variation < 0.01
    owned = partition(digits, "quantity", 5).heterogeneity
    assert owned.classes_per_client == 2
    assert owned.total_variation == pytest.approx(0.8, abs=0.01)


@settings(max_examples=50)
@given(data=st.data(), n_clients=st.integers(1, 5), n_classes=st.integers(1, 5))
def test_heterogeneity_equals_plain_sums(data, n_clients, n_classes):
    def counts(smallest):
        cell = st.integers(smallest, 20)
        return data.draw(
            st.lists(st.lists(cell, min_size=n_classes, max_size=n_classes), min_size=n_clients, max_size=n_clients)
        )

    train, test = counts(0), counts(0)
    assume(any(map(sum, train)))
    result = heterogeneity(np.array(train), np.array(test))
    total = sum(map(sum, train))
    distances = [
        sum(abs(row[c] / sum(row) - sum(r[c] for r in train) / total) for c in range(n_classes)) / 2
        for row in train
        if sum(row)
    ]
    own = [
        sum(abs(a[c] / sum(a) - b[c] / sum(b)) for c in range(n_classes)) / 2
        for a, b in zip(train, test, strict=True)
        if sum(a) and sum(b)
    ]
    assert result.total_variation == pytest.approx(sum(distances) / len(distances))
    assert result.train_test_variation == pytest.approx(sum(own) / len(own) if own else 0)
    assert result.smallest_train == min(map(sum, train))
    assert result.smallest_test == min(map(sum, test))
    assert 0 <= result.total_variation <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scheme": "dirichlet"}, "beta=None, but the scheme 'dirichlet' needs"),
        ({"scheme": "dirichlet", "beta": 0}, "beta=0 is not a number above 0"),
        ({"scheme": "iid", "beta": 0.1}, "beta=0.1 has no meaning for the scheme 'iid'"),
        ({"scheme": "noniid", "beta": 0.1}, "scheme='noniid' is unknown"),
        ({"scheme": "iid", "mode": "code"}, "mode='code' is unknown"),
        ({"scheme": "iid", "class_order": "x"}, "class_order='x'"),
        ({"scheme": "iid", "test_split": "own_masks"}, "test_split='own_masks' has no meaning"),
        ({"scheme": "dirichlet", "beta": 0.1, "test_split": "x"}, "test_split='x' is unknown"),
        ({"scheme": "dirichlet", "alpha": 0.1}, "alpha=0.1 without label_fraction"),
        ({"scheme": "dirichlet", "label_fraction": 0.1}, "alpha=None is not a number above 0"),
        ({"scheme": "iid", "label_fraction": 0.1, "min_test": 5}, "min_test=5 has no meaning beside alpha"),
        ({"scheme": "iid", "label_fraction": 0.1, "beta": 1}, "beta=1 has no meaning beside alpha"),
        ({"scheme": "quantity", "label_fraction": 0.1}, "scheme='quantity' is unknown"),
        ({"scheme": "iid", "label_fraction": 0.1, "fraction": 0.5}, "fraction=0.5 has no meaning beside alpha"),
        ({"scheme": "iid", "labelled_per_class": 5}, "labelled_per_class=5 has no meaning without label_fraction"),
        ({"scheme": "quantity", "fraction": 2}, "fraction=2 is not in"),
        ({"scheme": "iid", "n_clients": 0}, "n_clients=0 is below 1"),
        ({"scheme": "dirichlet", "beta": 0.1, "n_clients": 5000}, "n_clients=5000 is more than the 1197"),
    ],
)
def test_bad_arguments(digits, arguments, message):
    with pytest.raises(FedCoPLError, match=message) as caught:
        partition(digits, **{"n_clients": 5, **arguments})
    assert "\n" not in str(caught.value)
