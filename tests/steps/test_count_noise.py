"""What reaches the server instead of the exact counts."""

import math

import pytest
import torch

from fedcopl_lab.steps import perturb_counts

COUNTS = torch.tensor([[4, 0, 12], [7, 9, 1]])
MANY = torch.full((200, 200), 1000)


def noisy(kind, counts=COUNTS, seed=0, **changes):
    return perturb_counts(counts, kind, torch.Generator().manual_seed(seed), **changes)


def test_none_is_exact_and_draws_nothing():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    assert perturb_counts(COUNTS, "none", generator) is COUNTS
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize(
    ("kind", "deviation"), [("laplace", math.sqrt(2)), ("gaussian", math.sqrt(2 * math.log(1.25e5)))]
)
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_private_noise_has_the_stated_size(kind, deviation, epsilon):
    error = (noisy(kind, MANY, epsilon=epsilon) - MANY).double()
    expected = math.hypot(deviation / epsilon, math.sqrt(1 / 12))  # and the rounding to whole images
    assert error.std() == pytest.approx(expected, rel=0.02)  # 40 000 draws: 0.5 % and less
    assert abs(error.mean()) < 4 * expected / 200


def test_laplace_noise_has_laplace_tails():
    error = (noisy("laplace", MANY, epsilon=0.1) - MANY).double().abs()
    for scales in (1, 2, 4):
        assert (error > 10 * scales).double().mean() == pytest.approx(math.exp(-scales), abs=0.03)


def test_half_stays_between_half_and_one_and_a_half():
    factor = noisy("half", MANY) / MANY
    assert 0.5 <= factor.min() < 0.51
    assert 1.49 < factor.max() <= 1.5
    assert factor.mean() == pytest.approx(1, abs=0.01)
    assert noisy("half")[0, 1] == 0


def test_uniform_and_shuffled_keep_what_they_say():
    assert noisy("uniform").tolist() == [[6, 6, 6], [6, 6, 6]]  # 33 / 6, to the even one
    assert noisy("uniform", torch.tensor([[0, 1, 0, 0]])).tolist() == [[1, 1, 1, 1]]
    shuffled = noisy("shuffled", torch.arange(20).view(10, 2))
    assert shuffled.tolist() != torch.arange(20).view(10, 2).tolist()
    assert sorted(shuffled.tolist()) == torch.arange(20).view(10, 2).tolist()


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "half", "shuffled"])
def test_noise_is_whole_never_negative_and_comes_from_the_generator(kind):
    first = noisy(kind, epsilon=0.05)
    assert first.dtype == COUNTS.dtype
    assert first.min() >= 0
    assert torch.equal(first, noisy(kind, epsilon=0.05))
    assert any(not torch.equal(first, noisy(kind, seed=seed, epsilon=0.05)) for seed in range(1, 4))


def test_refuses_noise_without_a_budget(refused):
    with refused("epsilon=None", "laplace"):
        noisy("laplace")
    with refused("epsilon=0.0"):
        noisy("gaussian", epsilon=0.0)
