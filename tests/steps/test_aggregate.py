"""The server's weighted mean against exact fractions."""

import math
from fractions import Fraction
from inspect import unwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import aggregate


def exact_mean(column, weights):
    total = sum(map(Fraction, weights))
    return float(sum(Fraction(w) * Fraction(x) for x, w in zip(column, weights, strict=True)) / total)


@given(st.integers(1, 8), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
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
