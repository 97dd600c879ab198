"""Drift diversity and cosine distance against double loops."""

import math
from inspect import unwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import cosine_distance, drift_diversity


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def slow_diversity(updates):
    rows = updates.flatten(1).tolist()
    total = [math.fsum(column) for column in zip(*rows, strict=True)]
    return math.fsum(dot(row, row) for row in rows) / dot(total, total)


def slow_cosine_distance(updates):
    rows = updates.flatten(1).tolist()
    distances = [1 - dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)) for i, a in enumerate(rows) for b in rows[:i]]
    return math.fsum(distances) / len(distances)


@given(st.integers(2, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_equal_the_double_loops(k, seed):
    updates = torch.randn(k, 2, 4, generator=torch.Generator().manual_seed(seed))
    before = updates.clone()
    assert drift_diversity(updates) == pytest.approx(slow_diversity(updates), rel=1e-9)
    assert cosine_distance(updates) == pytest.approx(slow_cosine_distance(updates), rel=1e-9, abs=1e-12)
    assert 0 <= cosine_distance(updates) <= 2
    assert drift_diversity(updates) >= 1 / k - 1e-12  # Cauchy-Schwarz
    assert torch.equal(updates, before)
    assert drift_diversity(updates * 3) == pytest.approx(drift_diversity(updates), rel=1e-6)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_equal_updates(k):
    updates = torch.tensor([[1.0, -2.0, 0.5]]).repeat(k, 1)
    assert drift_diversity(updates) == pytest.approx(1 / k)
    if k > 1:
        assert cosine_distance(updates) == pytest.approx(0, abs=1e-12)


def test_orthogonal_opposite_and_zero_updates():
    for k in (2, 5):
        assert drift_diversity(torch.eye(k) * torch.arange(1, k + 1)) == pytest.approx(1)
        assert cosine_distance(torch.eye(k) * torch.arange(1, k + 1)) == pytest.approx(1)
    opposite = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    assert drift_diversity(opposite) == math.inf
    assert cosine_distance(opposite) == pytest.approx(2)
    assert math.isnan(drift_diversity(torch.zeros(2, 2)))
    assert math.isnan(cosine_distance(torch.tensor([[0.0, 0.0], [1.0, 0.0]])))


def test_refuse_too_few_clients(refused):
    with refused("(0, 3)", "n_clients", ">= 1"):
        drift_diversity(torch.zeros(0, 3))
    with refused("(1, 3)", ">= 2"):
        cosine_distance(torch.zeros(1, 3))
    with refused("()", "n_clients"):
        unwrap(drift_diversity)(torch.tensor(1.0))
