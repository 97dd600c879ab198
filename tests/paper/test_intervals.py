"""Intervals with test sampling, p-values, corrections for many tests and the seeds needed, against slow references."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper._intervals import (
    columns_of,
    image_error,
    minus,
    p_value,
    seeds_for,
    survivors,
    t_interval,
    with_image_error,
)
from fedcopl_lab.paper._judge import judge_difference, pooled, slopes
from fedcopl_lab.paper.statistics._readers import READERS, accuracy, last_five
from fedcopl_lab.paper.statistics._readers import image_error as error_of_rows

numbers = st.lists(st.integers(-50, 50).map(lambda n: n / 8), min_size=3, max_size=8)


@given(numbers)
def test_the_p_value_is_that_of_the_t_test(values: list[float]) -> None:
    mean, low, high = t_interval(pd.Series(values))
    if len(set(values)) > 1:
        assert p_value(mean, low, high, len(values)) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-12)
    else:
        assert p_value(mean, low, high, len(values)) == float(mean == 0)


@given(numbers, st.floats(0.0, 5.0))
def test_test_sampling_widens_the_interval_in_quadrature_and_p_follows(values: list[float], error: float) -> None:
    plain, wide = t_interval(pd.Series(values)), t_interval(with_image_error(pd.Series(values), error))
    assert (wide[2] - wide[0]) ** 2 == pytest.approx((plain[2] - plain[0]) ** 2 + (stats.norm.ppf(0.975) * error) ** 2)
    judged = judge_difference(with_image_error(pd.Series(values), error))
    if judged.verdict != "not tested" and abs(judged.p - 0.05) > 1e-9:
        assert (judged.p < 0.05) == (judged.verdict in ("holds", "does not hold"))


def test_errors_survive_signs_scales_pools_slopes_and_differences() -> None:
    one = with_image_error(pd.Series([1.0, 2.0, 3.0]), 3.0)
    other = with_image_error(pd.Series([1.0, 0.0, 2.0]), 4.0)
    assert image_error(-one) == image_error(1.0 * one) == image_error(one.dropna()) == 3.0
    assert image_error(minus(one, other)) == 5.0
    assert image_error(pooled({"a": one, "b": other})) == 3.5
    assert image_error(pd.Series([1.0])) == 0.0
    table = columns_of({"a": one, "b": one})
    assert image_error(table["a"] - table["b"]) == 3.0
    assert image_error(slopes(table, [0, 2])) == pytest.approx(3.0 / math.sqrt(2))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_and_benjamini_hochberg_are_the_textbooks(p_values: list[float]) -> None:
    n, ordered = len(p_values), sorted(p_values)
    adjusted = [max(min((n - j) * ordered[j], 1.0) for j in range(i + 1)) for i in range(n)]
    assert survivors(p_values, "Holm") == sum(p <= 0.05 + 1e-15 for p in adjusted)
    rates = [min(min(n * ordered[j] / (j + 1), 1.0) for j in range(i, n)) for i in range(n)]
    assert survivors(p_values, "Benjamini-Hochberg") == sum(p <= 0.05 + 1e-15 for p in rates)


@pytest.mark.parametrize(("spread", "effect"), [(0.1, 1.0), (2.4, 2.4), (2.4, 1.0), (1.0, 0.6), (6.0, 1.0)])
def test_seeds_needed_are_the_first_whose_half_width_is_smaller(spread: float, effect: float) -> None:
    found = seeds_for(spread, effect)
    widths = {n: stats.t.ppf(0.975, n - 1) * spread / math.sqrt(n) for n in range(3, 400)}
    assert found == min(n for n, width in widths.items() if width < effect)


def test_seeds_needed_that_no_number_gives() -> None:
    assert seeds_for(1.0, 2.0, error=1.1) is None, "1.96 errors of the test images alone are wider"
    assert seeds_for(1.0, 2.0, error=0.9) > seeds_for(1.0, 2.0)
    assert seeds_for(100.0, 0.1) is None
    with pytest.raises(FedCoPLError, match=r"effect=0\.0 is not valid; expected a half width above 0"):
        seeds_for(1.0, 0.0)


def fedcopl_rows(*right: str):
    sizes = [len(one) for one in right]
    shares = [one.count("1") / len(one) if one else None for one in right]
    return [{"accuracy": 0.5, "clients": {"accuracy": shares, "n_test": sizes, "right": list(right)}}]


def test_two_runs_are_compared_image_by_image_within_each_client() -> None:
    own, other = fedcopl_rows("1101", "10", ""), fedcopl_rows("1001", "11", "")
    first, second = np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, -1.0])
    slow = 100 * math.sqrt(np.var(first, ddof=1) / 4 + np.var(second, ddof=1) / 2) / 2
    assert error_of_rows(accuracy, own, other) == pytest.approx(slow)
    assert error_of_rows(accuracy, own, own) == 0.0
    assert error_of_rows(READERS["first_labels"], own, other) is None


def test_the_paired_error_is_that_of_drawing_test_images_again() -> None:
    draw = np.random.default_rng(0)
    own, other = draw.random(300) < 0.8, draw.random(300) < 0.7
    digits = ["".join(map(str, one.astype(int))) for one in (own, other)]
    again = [(own[i].mean() - other[i].mean()) for i in draw.integers(0, 300, (4000, 300))]
    found = error_of_rows(accuracy, [{"right": digits[0]}], [{"right": digits[1]}])
    assert found == pytest.approx(100 * np.std(again), rel=0.05)


def test_a_mean_over_rounds_has_the_results_of_all_of_them() -> None:
    rows = [{"right": text} for text in ("11", "10", "10", "10", "10", "10")]
    other = [{"right": "00"}] * 6
    shares = np.array([1.0, 0.0])
    assert error_of_rows(last_five, rows, other) == pytest.approx(100 * math.sqrt(np.var(shares, ddof=1) / 2))
    assert error_of_rows(last_five, [{"accuracy": 0.5}] * 6, other) is None


def test_without_results_clients_are_binomial_and_independent() -> None:
    rows = fedcopl_rows("1100", "10")
    for row in rows:
        del row["clients"]["right"]
    single = 100 * math.sqrt(0.25 / 4 + 0.25 / 2) / 2
    assert error_of_rows(accuracy, rows, rows) == pytest.approx(math.sqrt(2) * single)
    assert error_of_rows(accuracy, rows) == pytest.approx(math.sqrt(2) * single)
    assert error_of_rows(accuracy, [{"accuracy": 0.5}]) is None
