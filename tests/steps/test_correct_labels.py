"""Corrected pseudo-labels: the truth table by hand, a slow reference, and the losses they are trained with."""

import itertools
import math
from inspect import unwrap

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import correct_pseudo_labels
from fedcopl_lab.steps import CorrectedLabels, confident_labels, consistency_loss, proximal_term

KAPPA = math.log(2) / 0.05


def logits_of(*rows):
    """Scores whose softmax is exactly these probabilities, up to rounding."""
    return torch.tensor(rows, dtype=torch.float64).log().float()


def slow_reference(local_logits, global_logits, tau, kappa, fixed=None, cpg=True, cdsc=True, soft=False):
    """Eqs. 1-6 image by image, in plain Python."""
    rows = []
    for a, b in zip(local_logits.tolist(), global_logits.tolist(), strict=True):
        p, q = ([math.exp(v - max(row)) for v in row] for row in (a, b))
        p, q = ([v / sum(row) for v in row] for row in (p, q))
        c_l, c_g, classes = max(p), max(q), range(len(p))
        e_l = [float(c == p.index(c_l)) for c in classes]
        e_g = [float(c == q.index(c_g)) for c in classes]
        weight = math.exp(-kappa * abs(c_l - c_g)) if fixed is None else fixed
        one, other = (p, q) if soft else (e_l, e_g)
        if c_l >= tau:
            share = weight if cdsc else 1.0
            rows.append(([share * u + (1 - share) * v for u, v in zip(one, other, strict=True)], weight, True))
        else:
            rows.append((other, weight, cpg and c_g >= tau))
    return rows


def same_as(result, rows):
    targets, weights, used = zip(*rows, strict=True)
    assert torch.allclose(result.target, torch.tensor(targets), atol=2e-4)
    assert torch.allclose(result.weight, torch.tensor(weights), atol=2e-4)
    assert result.used.tolist() == list(used)


def test_truth_table():
    local = logits_of(
        [0.97, 0.02, 0.01], [0.97, 0.02, 0.01], [0.60, 0.30, 0.10], [0.60, 0.30, 0.10], [0.96, 0.03, 0.01]
    )
    global_ = logits_of(
        [0.01, 0.97, 0.02], [0.50, 0.30, 0.20], [0.01, 0.02, 0.97], [0.30, 0.40, 0.30], [0.01, 0.40, 0.59]
    )
    labels = correct_pseudo_labels(local, global_)
    assert labels.used.tolist() == [True, True, True, False, True]
    # both sure, equally: the local label alone, though they differ
    assert labels.target[0].tolist() == pytest.approx([1, 0, 0], abs=1e-3)
    # both say class 0: one-hot whatever lambda
    assert labels.target[1].tolist() == [1, 0, 0]
    # only the global model is sure
    assert labels.target[2].tolist() == [0, 0, 1]
    # the less sure the global model, the more its label counts
    weight = math.exp(-KAPPA * (0.96 - 0.59))
    assert labels.target[4].tolist() == pytest.approx([weight, 0, 1 - weight], abs=1e-5)


@pytest.mark.parametrize(
    ("gap", "expected"), [(0, 1), (0.01, 0.871), (0.05, 0.5), (0.1, 0.25), (0.2, 0.0625), (0.5, 0.001)]
)
def test_lambda_halves_every_five_points_of_discrepancy(gap, expected):
    other = (0.03 + gap) / 2
    local, global_ = logits_of([0.97, 0.015, 0.015]), logits_of([0.97 - gap, other, other])
    assert float(correct_pseudo_labels(local, global_).weight) == pytest.approx(expected, abs=6e-4 if gap else 1e-6)


def test_ties_go_to_the_first_class_and_the_threshold_itself_counts():
    tied = torch.zeros(1, 4)
    labels = correct_pseudo_labels(tied, tied, threshold=0.25)
    assert labels.used.tolist() == [True]
    assert labels.target.tolist() == [[1, 0, 0, 0]]
    assert labels.weight.tolist() == [1]
    assert correct_pseudo_labels(tied, tied, threshold=0.2501).used.tolist() == [False]
    both = torch.tensor([[1.0, 1.0, 0.0]])
    assert confident_labels(both, 0.4).target.tolist() == [[1, 0, 0]]


@pytest.mark.parametrize(("cpg", "cdsc", "soft"), list(itertools.product([True, False], repeat=3)))
@pytest.mark.parametrize("fixed", [None, 0.5])
def test_equals_the_slow_reference_with_every_switch(cpg, cdsc, soft, fixed):
    generator = torch.Generator().manual_seed(1)
    local, global_ = 4 * torch.randn(2, 60, 5, generator=generator)
    options = {"fixed_weight": fixed, "use_cpg": cpg, "use_cdsc": cdsc, "soft": soft}
    result = correct_pseudo_labels(local, global_, 0.8, 6.0, **options)
    same_as(result, slow_reference(local, global_, 0.8, 6.0, fixed, cpg, cdsc, soft))
    assert 0 < int(result.used.sum()) < 60


@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 100))
@settings(max_examples=60)
def test_properties(n, c, seed, tau, kappa):
    generator = torch.Generator().manual_seed(seed)
    local, global_ = 6 * torch.randn(2, n, c, generator=generator)
    labels = correct_pseudo_labels(local, global_, tau, kappa)
    assert torch.allclose(labels.target.sum(dim=1), torch.ones(n), atol=1e-6)
    assert bool((labels.target >= 0).all())
    assert bool(((labels.weight >= 0) & (labels.weight <= 1)).all())
    agree = local.argmax(dim=1) == global_.argmax(dim=1)
    assert torch.equal(labels.target[agree], torch.nn.functional.one_hot(local.argmax(dim=1), c).float()[agree])
    looser = correct_pseudo_labels(local, global_, tau / 2, kappa)
    assert bool((looser.used | ~labels.used).all())


def test_nothing_carries_a_gradient():
    local = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = correct_pseudo_labels(local, local * 2, 0.1)
    assert not labels.target.requires_grad
    assert not labels.weight.requires_grad
    assert not confident_labels(local, soft=True).target.requires_grad


def plain_loss(strong, rows):
    """Mean over the whole batch of the cross-entropy less the target's entropy; unused images add 0."""
    total = 0.0
    for row, (target, _, used) in zip(strong.double().tolist(), rows, strict=True):
        log_sum = math.log(sum(math.exp(v) for v in row))
        if used:
            total += sum(t * (math.log(t) - (v - log_sum)) for t, v in zip(target, row, strict=True) if t > 0)
    return total / len(rows)


def test_reduces_to_fixmatch():
    generator = torch.Generator().manual_seed(2)
    local, global_, strong = 4 * torch.randn(3, 50, 5, generator=generator)
    lpl = confident_labels(local, 0.8)
    sage = correct_pseudo_labels(local, global_, 0.8, use_cpg=False, fixed_weight=1.0)
    assert torch.equal(sage.target[sage.used], lpl.target[lpl.used])
    assert torch.equal(sage.used, lpl.used)
    gpl = confident_labels(global_, 0.8)
    only_global = correct_pseudo_labels(torch.zeros_like(local), global_, 0.8)  # a local model that is never sure
    assert torch.equal(only_global.target, gpl.target)
    assert torch.equal(only_global.used, gpl.used)
    # for one-hot labels the divergence is FixMatch's masked cross-entropy
    expected = (torch.nn.functional.cross_entropy(strong, local.argmax(dim=1), reduction="none") * lpl.used).mean()
    assert float(consistency_loss(strong, lpl.target, lpl.used)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("soft", [False, True])
def test_loss_equals_the_plain_sum(soft):
    generator = torch.Generator().manual_seed(3)
    local, global_, strong = 4 * torch.randn(3, 40, 4, generator=generator)
    labels = correct_pseudo_labels(local, global_, 0.7, 5.0, soft=soft)
    rows = list(zip(labels.target.double().tolist(), labels.weight.tolist(), labels.used.tolist(), strict=True))
    assert float(consistency_loss(strong, labels.target, labels.used)) == pytest.approx(
        plain_loss(strong, rows), abs=1e-5
    )


def test_reverse_divergence_is_large_but_finite_for_one_hot_targets():
    strong, target, used = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([True])
    expected = 0.5 * (math.log(0.5) - math.log(1 + 1e-10)) + 0.5 * (math.log(0.5) - math.log(1e-10))
    assert float(consistency_loss(strong, target, used, "reverse")) == pytest.approx(expected, rel=1e-5)
    same = torch.tensor([[0.3, 0.7]])
    assert float(consistency_loss(same.log(), same, used, "reverse")) == pytest.approx(0, abs=1e-6)
    assert float(consistency_loss(same.log(), same, used, "forward")) == pytest.approx(0, abs=1e-6)


def test_proximal_term_is_half_the_squared_distance_and_pulls_back():
    now = [torch.tensor([1.0, 2.0]).requires_grad_(), torch.tensor([[3.0]]).requires_grad_()]
    start = [torch.tensor([0.0, 0.0]), torch.tensor([[1.0]])]
    term = proximal_term(now, start)
    assert float(term.detach()) == 0.5 * (1 + 4 + 4)
    term.backward()
    assert now[0].grad.tolist() == [1, 2]
    assert now[1].grad.tolist() == [[2]]


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        ({"threshold": 1.1}, "threshold=1.1 is outside [0, 1]"),
        ({"threshold": math.nan}, "threshold=nan"),
        ({"kappa": -1.0}, "kappa=-1.0 is not 0 or more"),
        ({"kappa": math.inf}, "kappa=inf"),
        ({"fixed_weight": 2.0}, "fixed_weight=2.0 is outside [0, 1]"),
    ],
)
def test_refuses_settings_out_of_range(refused, change, saying):
    with refused(saying):
        correct_pseudo_labels(torch.zeros(2, 3), torch.zeros(2, 3), **change)


@pytest.mark.parametrize("used", [torch.ones(4, 1).bool(), torch.ones(4), torch.ones(3).bool()])
def test_a_mask_that_would_be_broadcast_is_refused(refused, monkeypatch, used):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with refused("target, weight and used are [(4, 2), (4,), ", "expected [n, C], [n] and [n] of True and False"):
        CorrectedLabels(torch.full((4, 2), 0.5), torch.ones(4), used)


def test_refuses_scores_of_other_shapes_or_not_finite(refused):
    with refused("(2, 3)", "(3, 3)", "score the same views with both models"):
        unwrap(correct_pseudo_labels)(torch.zeros(2, 3), torch.zeros(3, 3))
    bad = torch.tensor([[0.0, math.nan]])
    with refused("1 of 1 images", "NaN"):
        correct_pseudo_labels(torch.zeros(1, 2), bad)
    with refused("1 of 1 images", "NaN"):
        confident_labels(bad)
