"""What statistics read from rows, against slow references written out in loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import label_phase, rounds

from fedcopl_lab.paper.statistics._readers import (
    cosine,
    distance,
    label_accuracy,
    mean,
    phases,
    sampling_distance,
    shares,
)

histograms = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=4)


def slow_distance(first: list[int], second: list[int]) -> float:
    if not sum(first) or not sum(second):
        return math.nan
    return sum(abs(a / sum(first) - b / sum(second)) for a, b in zip(first, second, strict=True)) / 2


@given(histograms, st.randoms(use_true_random=False))
def test_distance_and_cosine_of_class_counts(first: list[list[int]], draw) -> None:
    second = [draw.sample(row, len(row)) for row in first]
    a, b = np.array(first, dtype=float), np.array(second, dtype=float)
    expected = [slow_distance(*rows) for rows in zip(first, second, strict=True)]
    assert distance(a, b).tolist() == pytest.approx(expected, nan_ok=True)
    assert distance(b, a).tolist() == pytest.approx(expected, nan_ok=True)
    angles = [
        sum(x * y for x, y in zip(p, q, strict=True)) / (math.hypot(*p) * math.hypot(*q)) if any(p) else math.nan
        for p, q in zip(first, second, strict=True)
    ]
    assert cosine(a, b).tolist() == pytest.approx(angles, nan_ok=True)


def test_a_distance_is_one_for_disjoint_classes_and_knows_no_sizes() -> None:
    assert distance(np.array([3.0, 0.0]), np.array([0.0, 5.0])) == 1.0
    assert distance(np.array([3.0, 1.0]), np.array([30.0, 10.0])) == 0.0


def test_sampling_distance_is_what_drawing_gives() -> None:
    counts = np.array([50.0, 30.0, 20.0])
    draws = np.random.default_rng(0).multinomial(200, counts / counts.sum(), size=20_000)
    expected = distance(draws.astype(float), np.broadcast_to(counts, draws.shape)).mean()
    assert float(sampling_distance(counts, 200)) == pytest.approx(expected, rel=0.02)
    assert sampling_distance(np.array([[1.0, 0.0]]), np.array([7])).tolist() == [0.0]


def test_label_accuracy_is_the_mean_over_clients_that_have_labels() -> None:
    phase = label_phase(selected=[[6, 2], [0, 0], [1, 1]]) | {"selected_correct": [[3, 1], [0, 0], [1, 1]]}
    assert label_accuracy(phase) == pytest.approx((50 + 100) / 2)
    assert math.isnan(label_accuracy(label_phase(selected=[[0, 0]])))


def test_shares_of_nothing_are_gaps() -> None:
    assert shares(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()[0] == [0.25, 0.75]
    assert np.isnan(shares(np.array([0.0, 0.0]))).all()


def test_mean_leaves_gaps_out() -> None:
    assert mean([1.0, None, 2.0]) == 1.5
    assert math.isnan(mean([None]))


def test_label_phases_come_in_order_and_a_run_without_any_says_so() -> None:
    rows = rounds([70.0, 71.0], [label_phase(60.0), label_phase(90.0)])
    assert [round(label_accuracy(phase)) for phase in phases(rows)] == [60, 90]
    with pytest.raises(KeyError, match="labels"):
        phases([{"round": 1}])
