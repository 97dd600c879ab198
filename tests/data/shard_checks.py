"""Small label sets and what must be true of every partition of them."""

import numpy as np

SMALL_TRAIN = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
SMALL_TEST = np.random.default_rng(2).permutation(np.repeat(np.arange(10), 30))


def sizes(shards, part):
    return [len(getattr(shard, part)) for shard in shards]


def class_counts(shards, part, labels, n_classes):
    return np.array([np.bincount(labels[getattr(s, part)], minlength=n_classes) for s in shards])


def assert_disjoint_and_complete(shards, n_train, n_test):
    assert sorted(np.concatenate([s.train for s in shards]).tolist()) == list(range(n_train))
    assert sorted(np.concatenate([s.test for s in shards]).tolist()) == list(range(n_test))


def same(first, second):
    return all(
        np.array_equal(a.train, b.train) and np.array_equal(a.test, b.test) for a, b in zip(first, second, strict=True)
    )
