"""The filter against decimal arithmetic, where probabilities round to 1, and in its corner cases."""

import math
from decimal import Decimal, localcontext
from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import filter_confident
from fedcopl_lab.steps import class_log_odds, entropy, log_odds


@pytest.mark.parametrize("n", [0, 1, 70, 3000])
def test_portions_change_no_number(n):
    logits = 20 * torch.randn(n, 100, generator=torch.Generator().manual_seed(n))
    wide = logits.double()
    log_p = wide.log_softmax(dim=1)
    assert torch.equal(entropy(logits), -(log_p.exp() * log_p).sum(dim=1))
    top, best = wide.max(dim=1)
    assert torch.equal(log_odds(logits), top - wide.scatter(1, best[:, None], -torch.inf).logsumexp(dim=1))
    odds = (log_p - torch.log1p(-log_p.exp().clamp(max=1 - 1e-12))).scatter(1, best[:, None], log_odds(logits)[:, None])
    assert torch.equal(class_log_odds(logits), odds)


def exact_log_odds_and_entropy(row):
    """Both from their definitions with 80 digits, where nothing saturates."""
    with localcontext() as context:
        context.prec = 80
        weights = [Decimal(value).exp() for value in row]
        total = sum(weights)
        best = max(range(len(row)), key=lambda c: row[c])
        others = sum(w for c, w in enumerate(weights) if c != best)
        shares = [w / total for w in weights]
        return (weights[best] / others).ln(), -sum(p * p.ln() for p in shares)


def exact_quantile(values, level):
    ordered, place = sorted(values), Decimal(level) * (len(values) - 1)
    below = int(place)
    if place == below:
        return ordered[below]
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


def exact_filter(logits, q_conf, q_ent):
    """Eq. 2 image by image."""
    pairs = [exact_log_odds_and_entropy(row) for row in logits.double().tolist()]
    odds, spread = [a for a, _ in pairs], [b for _, b in pairs]
    keep = [True] * len(pairs)
    if q_conf is not None:
        tau = exact_quantile(odds, q_conf)
        keep = [k and value > tau for k, value in zip(keep, odds, strict=True)]
    if q_ent is not None:
        tau = exact_quantile(spread, 1 - q_ent)
        keep = [k and value < tau for k, value in zip(keep, spread, strict=True)]
    if any(keep):
        return keep, False
    share = max(1, math.ceil(Decimal(1 - (0.5 if q_conf is None else q_conf)) * len(pairs)))
    first = sorted(range(len(pairs)), key=lambda i: -odds[i])[:share]
    return [i in first for i in range(len(pairs))], True


def random_logits(n, c, spread=3.0, seed=0):
    return spread * torch.randn(n, c, generator=torch.Generator().manual_seed(seed))


def saturated_logits(n=101, c=10, seed=0):
    """Two images of three have a lead of 20 to 60 over the next class; the others one of 0 to 5."""
    rng = np.random.default_rng(seed)
    lead = np.where(np.arange(n) % 3 < 2, rng.uniform(20, 60, n), rng.uniform(0, 5, n))
    logits = -lead[:, None] - rng.uniform(0, 10, (n, c))
    runner_up = rng.permuted(np.tile(np.arange(c), (n, 1)), axis=1)[:, :2]
    logits[np.arange(n), runner_up[:, 1]] = -lead
    logits[np.arange(n), runner_up[:, 0]] = 0
    return torch.tensor(logits, dtype=torch.float32)


@pytest.mark.parametrize("q_ent", [None, 0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("q_conf", [None, 0.0, 0.25, 0.5, 0.75, 1.0])
def test_equals_the_definition_in_decimal_arithmetic(q_conf, q_ent):
    for n, c, seed in ((23, 4, 0), (24, 2, 1), (25, 7, 2)):
        logits = random_logits(n, c, seed=seed)
        result = filter_confident(logits, q_conf, q_ent)
        keep, fallback = exact_filter(logits, q_conf, q_ent)
        assert result.kept.tolist() == keep
        assert result.fallback == fallback
        assert torch.equal(result.labels, logits.argmax(dim=1))
        assert result.counts.tolist() == [int((result.labels[result.kept] == k).sum()) for k in range(c)]


def test_equals_plain_probabilities_where_those_do_not_saturate():
    logits = random_logits(200, 10, seed=3).double()
    p = logits.softmax(dim=1).numpy()
    confidence, nats = p.max(axis=1), -(p * np.log(p)).sum(axis=1)
    expected = (confidence > np.quantile(confidence, 0.6)) & (nats < np.quantile(nats, 1 - 0.3))
    result = filter_confident(logits, 0.6, 0.3)
    assert result.kept.numpy().tolist() == expected.tolist()
    assert result.entropy_threshold == pytest.approx(np.quantile(nats, 0.7), rel=1e-12)
    # interpolated on another scale, so only the neighbouring order statistics are the same
    assert confidence[~(confidence > result.confidence_threshold)].size == 120
    assert confidence[confidence > result.confidence_threshold].size == 80


@pytest.mark.parametrize("seed", range(3))
def test_ranks_images_whose_confidence_rounds_to_one(seed):
    logits = saturated_logits(seed=seed)
    saturated = logits.softmax(dim=1).max(dim=1).values == 1
    assert saturated.float().mean() > 0.5  # a filter on float32 probabilities keeps nothing here
    only_confidence = filter_confident(logits, 0.5, None)
    assert int(only_confidence.kept.sum()) == 50  # strictly above the median of 101
    assert not only_confidence.fallback
    assert int(filter_confident(logits, 0.75, None).kept.sum()) == 25
    assert int(filter_confident(logits, None, 0.5).kept.sum()) == 50
    for levels in ((0.5, 0.5), (0.75, 0.5), (0.5, 0.75), (0.25, 0.25)):
        keep, _ = exact_filter(logits, *levels)
        assert filter_confident(logits, *levels).kept.tolist() == keep


def test_float32_and_float64_of_the_same_numbers_agree():
    logits = saturated_logits()
    assert torch.equal(filter_confident(logits).kept, filter_confident(logits.double()).kept)


FEW = torch.tensor([[1.0, 0], [4, 0], [0, 2], [0, 3]])


@pytest.mark.parametrize(
    ("logits", "levels", "kept"),
    [
        (torch.tensor([[2.0, 0.0, 1.0]]).repeat(10, 1), (0.7, 0.5), [True] * 3 + [False] * 7),
        *((torch.tensor([[0.0, 3.0]]), (level, level), [True]) for level in (0.0, 0.5, 0.9, 1.0)),
        (torch.tensor([[0.0, 3.0]]), (None, 0.5), [True]),
        (FEW, (1.0, None), [False, True, False, False]),  # at level 1 nothing lies above the largest value
        (torch.zeros(4, 1), (0.5, 0.5), [True, True, False, False]),  # one class is always certain
    ],
)
def test_where_nothing_passes_both_the_most_confident_share_is_kept(logits, levels, kept):
    result = filter_confident(logits, *levels)
    assert result.fallback
    assert result.kept.tolist() == kept
    labels = logits.argmax(dim=1)[torch.tensor(kept)]
    assert result.counts.tolist() == labels.bincount(minlength=logits.shape[1]).tolist()


def test_strict_levels_on_few_images_keep_the_most_confident():
    assert filter_confident(FEW, 0.9, 0.9).kept.tolist() == [False, True, False, False]


def test_no_filter_keeps_all():
    result = filter_confident(random_logits(6, 3), None, None)
    assert result.kept.all()
    assert not result.fallback
    assert result.confidence_threshold is None
    assert result.entropy_threshold is None


def test_given_thresholds_replace_the_quantiles():
    logits = random_logits(50, 4, seed=8).double()
    p = logits.softmax(dim=1)
    nats = -(p * p.log()).sum(dim=1)
    result = filter_confident(logits, thresholds=(0.8, 0.6))
    assert torch.equal(result.kept, (p.max(dim=1).values > 0.8) & (nats < 0.6))
    assert result.confidence_threshold == pytest.approx(0.8)
    assert result.entropy_threshold == 0.6


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=100)
def test_properties(n, c, seed, q_conf, q_ent):
    logits = random_logits(n, c, spread=20.0, seed=seed)
    before = logits.clone()
    result = filter_confident(logits, q_conf, q_ent)
    assert torch.equal(logits, before)
    assert 1 <= int(result.kept.sum()) <= n
    assert int(result.counts.sum()) == int(result.kept.sum())
    for looser in (filter_confident(logits, q_conf / 2, q_ent), filter_confident(logits, q_conf, q_ent / 2)):
        if not result.fallback:
            assert bool((looser.kept | ~result.kept).all())
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    if not result.fallback:
        assert torch.equal(filter_confident(logits[order], q_conf, q_ent).kept, result.kept[order])


def test_shift_of_an_image_changes_nothing():
    logits = random_logits(60, 5).double()
    shifted = logits + torch.arange(60).double()[:, None]
    assert torch.equal(filter_confident(logits).kept, filter_confident(shifted).kept)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_refuses_logits_that_are_not_finite(refused, bad):
    logits = random_logits(5, 3)
    logits[2, 1] = logits[3, 0] = bad
    before = logits.clone()
    with refused("2 of 5 images", "expected finite numbers", "look at the images"):
        filter_confident(logits)
    assert torch.equal(logits.nan_to_num(7.0), before.nan_to_num(7.0))


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        *((shape, {}, (str(shape), "expected [n_images, n_classes]")) for shape in ((4,), (2, 3, 4), (3, 0))),
        *(
            ((5, 3), {name: level}, (f"{name}={level}", "[0, 1]", "such as 0.5"))
            for name in ("q_conf", "q_ent")
            for level in (-0.1, 1.5, math.nan)
        ),
        *(
            ((5, 3), {"thresholds": pair}, ("thresholds=", "[0, 1]"))
            for pair in ((1.2, 0.5), (-0.1, 0.5), (0.5, -1.0), (math.nan, 0.5), (0.5, math.nan))
        ),
        ((0, 3), {}, ("0 images", "at least one")),
    ],
)
def test_refuses_other_shapes_and_levels(refused, shape, options, words):
    with refused(*words):
        unwrap(filter_confident)(torch.zeros(shape), **options)
