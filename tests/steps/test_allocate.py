"""The allocation against exact fractions and NumPy's float32, and what reaches the server instead of exact counts."""

import math
from fractions import Fraction
from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedcopl_lab import allocate
from fedcopl_lab.steps import perturb_counts

COUNTS = st.integers(1, 6).flatmap(
    lambda c: st.lists(st.lists(st.integers(0, 200), min_size=c, max_size=c), min_size=1, max_size=6)
)


def exact_quota(counts):
    """Eq. 3 cell by cell: M = sum of all / C, then the ceiling of u / U * M; 0 where no client kept the class."""
    n_classes = len(counts[0])
    budget = Fraction(sum(map(sum, counts)), n_classes)
    seen = [sum(row[c] for row in counts) for c in range(n_classes)]
    return [[math.ceil(Fraction(u, U) * budget) if U else 0 for u, U in zip(row, seen, strict=True)] for row in counts]


def float32_quota(counts):
    """The released code's arithmetic: M rounded up, then u / U * M in single precision."""
    counts = np.array(counts)
    budget = np.float32(math.ceil(counts.sum() / counts.shape[1]))
    seen = np.maximum(counts.sum(axis=0), 1).astype(np.float32)
    return np.ceil(counts.astype(np.float32) / seen * budget).astype(int).tolist()


def test_the_cell_in_which_paper_and_authors_differ():
    counts = torch.tensor([[3, 20], [2, 25]])  # u = 3, U = 5, M = 25
    paper, authors = allocate(counts), allocate(counts, "authors")
    assert (paper.per_class, authors.per_class) == (25, 25)
    assert int(paper.quota[0, 0]) == 15
    assert int(authors.quota[0, 0]) == 16


@given(COUNTS)
@settings(max_examples=200)
def test_paper_mode_is_exact(counts):
    assume(any(map(any, counts)))
    given_counts = torch.tensor(counts)
    before = given_counts.clone()
    result = allocate(given_counts)
    assert torch.equal(given_counts, before)
    assert result.quota.tolist() == exact_quota(counts)
    budget = Fraction(sum(map(sum, counts)), len(counts[0]))
    assert result.per_class == pytest.approx(float(budget))
    for c in range(len(counts[0])):
        column = int(result.quota[:, c].sum())
        if any(row[c] for row in counts):
            assert budget <= column < budget + len(counts)
        else:
            assert column == 0
    assert not result.quota[given_counts == 0].any()


@given(COUNTS)
@settings(max_examples=200)
def test_authors_mode_is_their_single_precision(counts):
    assume(any(map(any, counts)))
    result = allocate(torch.tensor(counts), "authors", unseen="zero")
    assert result.quota.tolist() == float32_quota(counts)
    assert result.per_class == math.ceil(sum(map(sum, counts)) / len(counts[0]))
    assert bool((result.quota >= torch.tensor(exact_quota(counts))).all())


def test_single_precision_differs_from_exact_in_about_one_cell_of_a_thousand():
    differing = cells = 0
    for total in range(1, 200):
        for u in range(1, total, 7):
            # two classes whose counts sum to 2 M, so that M is whole and only the rounding differs
            counts = torch.tensor([[u, 200], [total - u, 200 - total]])
            a, b = allocate(counts).quota, allocate(counts, "authors").quota
            differing += int((a != b).sum())
            cells += 4
    assert 0 < differing < 0.02 * cells


def test_mode_none_keeps_the_counts():
    counts = torch.tensor([[3, 0], [1, 7]])
    result = allocate(counts, "none")
    assert torch.equal(result.quota, counts)
    assert result.quota is not counts
    assert result.per_class is None


@pytest.mark.parametrize(("phase", "expected"), [(0, 2), (1, 3), (2, 5), (3, 6)])
def test_a_class_that_no_client_kept_gets_the_authors_growing_quota(phase, expected):
    counts = torch.zeros(10, 47, dtype=torch.long)  # DTD: 47 classes, 10 clients, 2,820 training images
    counts[:, :46] = 3
    quota = allocate(counts, "authors", n_train=2820, phase=phase).quota
    assert quota[:, 46].tolist() == [expected] * 10
    assert allocate(counts, "paper", n_train=2820, phase=phase).quota[:, 46].tolist() == [0] * 10
    assert (
        allocate(counts, "paper", n_train=2820, phase=phase, unseen="authors_quota").quota[:, 46].tolist()
        == [expected] * 10
    )
    assert torch.equal(quota[:, :46], allocate(counts, "authors", unseen="zero").quota[:, :46])


def test_one_client_fills_every_class_to_the_budget_and_large_counts_do_not_overflow():
    assert allocate(torch.tensor([[1, 9, 4]])).quota.tolist() == [[5, 5, 5]]
    counts = torch.full((3, 2), 100_000_000, dtype=torch.long)
    assert allocate(counts).quota.tolist() == [[100_000_000] * 2] * 3
    small = torch.tensor([[30000, 1], [30000, 1]], dtype=torch.int32)
    assert allocate(small).quota.tolist() == [[15001, 15001]] * 2  # 30000 * 60002 does not fit 32 bits


MODES, SHAPES = ("paper", "authors", "none"), ((3,), (1, 2, 3), (0, 3), (3, 0))


@pytest.mark.parametrize(
    ("counts", "arguments", "words"),
    [
        (torch.tensor([[1, 0]]), ("authors",), ("n_train=None",)),
        (torch.tensor([[1, 0]]), ("authors", -40), ("n_train=-40", "0 or more")),
        *((torch.tensor([[1, -4]]), (mode,), ("-4", "0 or more")) for mode in MODES),
        *(
            (torch.zeros(2, 3).long(), (mode, 10), ("all 0", "at least one kept image", "lower q_conf"))
            for mode in MODES
        ),
        *((torch.ones(shape).long(), (), (str(shape), "[n_clients, n_classes]")) for shape in SHAPES),
        *((torch.ones(2, 2).to(kind), (), (str(kind), "whole numbers")) for kind in (torch.float32, torch.bool)),
        (torch.ones(1, 1).long(), ("papers",), ("mode='papers'", "paper, authors, none")),
        (torch.ones(1, 1).long(), ("paper", None, 0, "none"), ("unseen='none'", "zero, authors_quota")),
    ],
)
def test_refuses_what_cannot_be_allocated(refused, counts, arguments, words):
    before = counts.clone()
    with refused(*words):
        unwrap(allocate)(counts, *arguments)
    assert torch.equal(counts, before)


def test_noise_is_for_whole_numbers(refused):
    with refused("torch.float32", "whole numbers"):
        unwrap(perturb_counts)(torch.tensor([[3.5]]), "none", torch.Generator())


def test_quotas_of_narrow_counts_do_not_overflow():
    counts = torch.tensor([[255, 1], [255, 0], [255, 0]])
    for mode in ("paper", "none"):
        assert unwrap(allocate)(counts.to(torch.uint8), mode).quota.tolist() == allocate(counts, mode).quota.tolist()
    half = [unwrap(perturb_counts)(one, "half", torch.Generator().manual_seed(0)).tolist()
            for one in (counts, counts.to(torch.uint8))]  # fmt: skip
    assert half[0] == half[1]
    assert max(map(max, half[0])) > 255


FEW = torch.tensor([[4, 0, 12], [7, 9, 1]])
MANY = torch.full((200, 200), 1000)


def noisy(kind, counts=FEW, seed=0, **changes):
    return perturb_counts(counts, kind, torch.Generator().manual_seed(seed), **changes)


def test_none_is_exact_and_draws_nothing():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    assert perturb_counts(FEW, "none", generator) is FEW
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
    assert first.dtype == FEW.dtype
    assert first.min() >= 0
    assert torch.equal(first, noisy(kind, epsilon=0.05))
    assert any(not torch.equal(first, noisy(kind, seed=seed, epsilon=0.05)) for seed in range(1, 4))


def test_refuses_noise_without_a_budget(refused):
    with refused("epsilon=None", "laplace"):
        noisy("laplace")
    with refused("epsilon=0.0"):
        noisy("gaussian", epsilon=0.0)
