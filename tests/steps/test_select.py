"""The selection, pools and candidate sets against slow loops, with ties, shortage and saturated probabilities."""

import math
import random
from fractions import Fraction
from inspect import unwrap

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import PseudoLabels, select_top
from fedcopl_lab.steps import candidate_sets, fill_pools


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
@settings(max_examples=100)
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
@settings(max_examples=50)
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


@pytest.mark.parametrize(
    ("indices", "labels"),
    [([0, 2], [1, 1, 0]), ([True, False], [1, 0]), ([0.0, 1.0], [1, 0]), ([[0], [1]], [[1], [0]])],
)
def test_labels_that_do_not_belong_to_their_images_are_refused(refused, monkeypatch, indices, labels):
    """Such as a mask, or the labels of all images beside the indices of some."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with refused("expected one label for each position"):
        PseudoLabels(torch.tensor(indices), torch.tensor(labels))
    with refused("3 rows of candidates for 2 images"):
        PseudoLabels(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.ones(3, 2, dtype=torch.bool))


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


def one_at_a_time(logits, allowed, capacity, order):
    """Each image in turn applies to its classes; an evicted one goes on at once."""
    p = logits.double().softmax(dim=1)
    wishes = [sorted((c for c in range(p.shape[1]) if allowed[i, c]), key=lambda c: -p[i, c]) for i in range(len(p))]
    pools = [[] for _ in range(p.shape[1])]
    waiting = list(order)
    while waiting:
        image = waiting.pop()
        if not wishes[image]:
            continue
        c = wishes[image].pop(0)
        pools[c].append(image)
        if len(pools[c]) > capacity[c]:
            worst = min(pools[c], key=lambda i: float(p[i, c]))
            pools[c].remove(worst)
            waiting.append(worst)
    return [sorted(pool, key=lambda i: -p[i, c]) for c, pool in enumerate(pools)]


def candidates_by_loops(logits, alpha, beta):
    def at(values, level):
        ordered = sorted(values)
        place = level * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    p = logits.double().softmax(dim=1).tolist()
    n_classes = len(p[0])
    limit = at([max(line) for line in p], alpha)
    between = [at([line[c] for line in p], beta) for c in range(n_classes)]
    sets = []
    for line in p:
        chosen, total = set(), 0.0
        for c in sorted(range(n_classes), key=lambda c: -line[c]):
            chosen.add(c)
            total += line[c]
            if total > limit:
                break
        sets.append([c in chosen and line[c] >= between[c] for c in range(n_classes)])
    return sets


@given(st.integers(0, 10**6), st.integers(1, 25), st.integers(2, 5))
@settings(max_examples=40)
def test_pools_equal_images_that_apply_one_at_a_time_in_any_order(seed, n, n_classes):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, n_classes, generator=generator)
    allowed = torch.rand(n, n_classes, generator=generator) < 0.6
    capacity = torch.randint(0, 4, (n_classes,), generator=generator)
    found = fill_pools(logits, allowed, capacity)
    order = list(range(n))
    random.Random(seed).shuffle(order)
    expected = one_at_a_time(logits, allowed, capacity.tolist(), order)
    assert [found.indices[found.labels == c].tolist() for c in range(n_classes)] == expected
    assert len(found.indices.unique()) == len(found)


def test_with_one_wish_each_pools_are_the_selection():
    logits = 4 * torch.randn(60, 5, generator=torch.Generator().manual_seed(2))
    only = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.argmax(dim=1, keepdim=True), True)
    quota = torch.tensor([3, 0, 50, 1, 7])
    pools, selected = fill_pools(logits, only, quota), select_top(logits, quota)
    assert torch.equal(pools.indices, selected.indices)
    assert torch.equal(pools.labels, selected.labels)


def test_pools_go_on_ranking_where_probabilities_round_to_one():
    logits = torch.tensor([[200.0, 0, 0], [300, 0, 0], [250, 0, 1]])
    found = fill_pools(logits, torch.ones(3, 3).bool(), torch.tensor([1, 3, 1]))
    assert found.indices[found.labels == 0].tolist() == [1]
    assert found.indices[found.labels == 2].tolist() == [2]


@pytest.mark.usefixtures("as_installed")
def test_pools_refuse_what_does_not_fit(refused):
    logits = torch.zeros(2, 3)
    with refused("(2, 2)", "(3,)", "as the logits"):
        fill_pools(logits, torch.ones(2, 2).bool(), torch.tensor([1, 1, 1]))
    with refused("capacity holds -1"):
        fill_pools(logits, torch.ones(2, 3).bool(), torch.tensor([1, -1, 1]))
    with refused("NaN"):
        fill_pools(logits * torch.nan, torch.ones(2, 3).bool(), torch.tensor([1, 1, 1]))


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 6), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=60)
def test_candidates_equal_loops(seed, n, n_classes, alpha, beta):
    logits = 2 * torch.randn(n, n_classes, generator=torch.Generator().manual_seed(seed))
    found = candidate_sets(logits, alpha, beta).tolist()
    expected = candidates_by_loops(logits, alpha, beta)
    if found != expected:  # a sum that meets its limit to the last bit may fall either way
        assert candidate_sets(logits, max(alpha - 1e-9, 0), max(beta - 1e-9, 0)).tolist() != found or (
            candidates_by_loops(logits, max(alpha - 1e-9, 0), beta) != expected
        )


def test_candidates_stay_few_where_probabilities_round_to_one():
    logits = torch.tensor([[100.0, 0, 0], [0, 120, 0], [0, 1, 90], [5, 0, 80]])
    sets = candidate_sets(logits, alpha=0.5, beta=0.0)
    assert sets.sum(dim=1).min() >= 1
    assert sets[:2].sum(dim=1).tolist() == [1, 1], "the two surest images have no doubt"


def test_a_stricter_level_between_images_leaves_fewer_candidates():
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    sizes = [int(candidate_sets(logits, 0.75, beta).sum()) for beta in (0.0, 0.5, 0.9, 1.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert candidate_sets(logits, 1.0, 0.9).sum(dim=0).tolist() == [5, 5, 5, 5], "every class has the same share"


def test_candidates_refuse_bad_levels(refused):
    with refused("alpha=1.5", "0.75"):
        candidate_sets(torch.zeros(2, 2), 1.5, 0.5)
    with refused("beta=-0.1"):
        candidate_sets(torch.zeros(2, 2), 0.5, -0.1)
    with refused("0 images"):
        candidate_sets(torch.zeros(0, 2), 0.5, 0.5)
