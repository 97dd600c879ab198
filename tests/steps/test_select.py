"""The selection against a slow loop, with ties, shortage and saturated probabilities."""

import math
from fractions import Fraction
from inspect import unwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import PseudoLabels, select_top


def slow_select(logits, quota, candidates):
    """Class by class: rank its candidates by log p minus log of the rest, ties in the order of the images."""
    rows = logits.double().tolist()
    chosen = []
    for c, wanted in enumerate(quota.tolist()):
        pool = []
        for i, row in enumerate(rows):
            if candidates == "any" or max(range(len(row)), key=lambda k: row[k]) == c:
                rest = [math.exp(value - row[c]) for k, value in enumerate(row) if k != c]
                pool.append((math.fsum(rest), i))  # (1 - p) / p: exact ties stay ties, small is confident
        chosen += [(i, c) for _, i in sorted(pool)[:wanted]]
    return chosen


def pairs(result):
    return list(zip(result.indices.tolist(), result.labels.tolist(), strict=True))


@given(st.integers(0, 30), st.integers(2, 5), st.integers(0, 10**6), st.sampled_from(["argmax", "any"]))
@settings(deadline=None, max_examples=100)
def test_equals_the_slow_loop(n, c, seed, candidates):
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(n, c, generator=generator)
    quota = torch.randint(0, 8, (c,), generator=generator)
    before = logits.clone(), quota.clone()
    result = select_top(logits, quota, candidates)
    assert pairs(result) == slow_select(logits, quota, candidates)
    assert torch.equal(logits, before[0])
    assert torch.equal(quota, before[1])
    assert bool((result.counts(c) <= quota).all())


@given(st.integers(1, 12), st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_ties_keep_the_order_of_the_images(n, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 3, (n, 2), generator=generator).float()  # few values, many equal rows
    quota = torch.tensor([4, 4])
    assert pairs(select_top(logits, quota)) == slow_select(logits, quota, "argmax")


@pytest.mark.parametrize(
    ("rows", "quota", "candidates", "expected"),
    [
        ([[1.0, 0.0]] * 6, [3, 3], "argmax", [(0, 0), (1, 0), (2, 0)]),  # equal images: from the front
        ([[2.0, 0], [0, 1], [3, 0]], [9, 9], "argmax", [(2, 0), (0, 0), (1, 1)]),  # short of candidates: all
        ([[2.0, 1.9], [9.0, 0.0]], [1, 1], "argmax", [(1, 0)]),
        ([[2.0, 1.9], [9.0, 0.0]], [2, 1], "any", [(1, 0), (0, 0), (0, 1)]),  # an image may go to several classes
    ],
)
def test_small_selections(rows, quota, candidates, expected):
    assert pairs(select_top(torch.tensor(rows), torch.tensor(quota), candidates)) == expected


def test_ranks_images_whose_confidence_rounds_to_one():
    leads = torch.tensor([20.0, 60, 30, 55, 25])
    logits = torch.stack([leads, torch.zeros(5)], dim=1)
    assert bool((logits.softmax(dim=1)[:, 0] == 1).all())
    assert select_top(logits, torch.tensor([3, 0])).indices.tolist() == [1, 3, 2]
    assert select_top(-logits, torch.tensor([2, 0]), "any").indices.tolist() == [0, 4]


def test_accuracy_counts_and_length():
    chosen = PseudoLabels(indices=torch.tensor([4, 0, 2]), labels=torch.tensor([1, 1, 0]))
    assert len(chosen) == 3
    assert chosen.accuracy(torch.tensor([1, 9, 9, 9, 1])) == pytest.approx(float(Fraction(2, 3)))
    assert chosen.counts(3).tolist() == [1, 2, 0]


def test_nothing_wanted_is_an_empty_selection():
    nothing = select_top(torch.tensor([[1.0, 0.0]]), torch.tensor([0, 0]))
    assert len(nothing) == 0
    assert math.isnan(nothing.accuracy(torch.tensor([0])))
    assert nothing.counts(2).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("value", "quota", "candidates", "words"),
    [
        (math.nan, [1, 1, 1], "argmax", ("1 of 2 images", "expected finite numbers")),
        (math.inf, [1, 1, 1], "argmax", ("1 of 2 images", "expected finite numbers")),
        (0.0, [1, 1], "argmax", ("quota", "(2,)", "3 classes")),
        (0.0, [1, -2, 0], "argmax", ("-2", "0 or more")),
        (0.0, [1, 1, 1], "all", ("candidates='all'", "argmax, any")),
    ],
)
def test_refuses_what_cannot_be_selected(refused, value, quota, candidates, words):
    with refused(*words):
        unwrap(select_top)(torch.tensor([[0.0, 1.0, 0.0], [value, 0.0, 0.0]]), torch.tensor(quota), candidates)
