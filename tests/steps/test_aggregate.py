"""The server's weighted mean against exact fractions; drift diversity and cosine distance against double loops."""

import math
from fractions import Fraction
from inspect import unwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import aggregate, cosine_distance, drift_diversity


def exact_mean(column, weights):
    total = sum(map(Fraction, weights))
    return float(sum(Fraction(w) * Fraction(x) for x, w in zip(column, weights, strict=True)) / total)


@given(st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=60)
def test_equals_exact_fractions_in_any_order_of_clients(k, seed):
    generator = torch.Generator().manual_seed(seed)
    stacked = torch.randn(k, 2, 3, generator=generator, dtype=torch.float64)
    weights = torch.randint(0, 50, (k,), generator=generator)
    weights[0] += 1
    before = stacked.clone(), weights.clone()
    mean = aggregate(stacked, weights)
    assert torch.equal(stacked, before[0])
    assert torch.equal(weights, before[1])
    assert mean.shape == (2, 3)
    for i in range(6):
        expected = exact_mean(stacked.flatten(1)[:, i].tolist(), weights.tolist())
        assert mean.flatten()[i] == pytest.approx(expected, rel=1e-12, abs=1e-13)
    order = torch.randperm(k, generator=generator)
    assert torch.allclose(aggregate(stacked[order], weights[order]), mean, rtol=1e-12, atol=1e-13)
    assert torch.allclose(aggregate(stacked, 7 * weights.double()), mean, rtol=1e-12, atol=1e-13)


def test_equal_prompts_stay_what_they_are():
    prompt = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    mean = aggregate(prompt.expand(3, 4, 5), torch.tensor([5, 1, 3]))
    assert torch.equal(mean, prompt)
    assert mean.dtype == torch.float32


def test_sums_in_float64():
    stacked = torch.tensor([[1e8], [1.0], [-1e8]])  # 1e8 + 1 is 1e8 in float32
    assert aggregate(stacked, torch.ones(3)).item() == pytest.approx(1 / 3, rel=1e-6)


def test_a_client_of_weight_0_does_not_count():
    assert aggregate(torch.tensor([[1.0, 2.0], [9.0, 9.0]]), torch.tensor([4, 0])).tolist() == [1, 2]


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0], [1.0, math.nan], [math.inf, 1.0]])
def test_refuses_weights_that_cannot_average(refused, weights):
    with refused(str(weights)[:3], "expected finite numbers >= 0, not all 0"):
        aggregate(torch.ones(2, 3), torch.tensor(weights))


def test_refuses_another_number_of_weights(refused):
    with refused("(3,)", "2 clients"):
        unwrap(aggregate)(torch.ones(2, 3), torch.ones(3))


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
@settings(max_examples=60)
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
    assert math.isnan(cosine_distance(torch.zeros(2, 0)))  # of a prompt without vectors


def test_refuse_too_few_clients(refused):
    with refused("(0, 3)", "n_clients", ">= 1"):
        drift_diversity(torch.zeros(0, 3))
    with refused("(1, 3)", ">= 2"):
        cosine_distance(torch.zeros(1, 3))
    with refused("()", "n_clients"):
        unwrap(drift_diversity)(torch.tensor(1.0))
