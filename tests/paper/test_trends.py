"""Slopes, ranks and rounds-to-accuracy against slow references."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper._judge import mean_step, slope, slopes, spearman
from fedcopl_lab.paper._sage_reached import Reached, log_speed_up, rounds_to

pairs = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=9).filter(
    lambda found: len({x for x, _ in found}) > 1 and len({y for _, y in found}) > 1
)


@given(pairs)
def test_slope_and_rank_correlation_are_those_of_numpy_and_scipy(found: list[tuple[int, int]]) -> None:
    x, y = ([float(pair[i]) for pair in found] for i in (0, 1))
    assert slope(x, y) == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-9)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert spearman(x, y) == pytest.approx(spearman(y, x))


def test_slopes_go_line_by_line_and_a_gap_gives_none() -> None:
    table = pd.DataFrame({"a": [1.0, 0.0, 1.0], "b": [3.0, math.nan, 0.0]}, index=[4, 7, 9])
    found = slopes(table, [0, 2])
    assert found.index.tolist() == [4, 7, 9]
    assert found[4] == 1.0
    assert found[9] == -0.5
    assert math.isnan(found[7])


def test_a_constant_side_has_no_rank_correlation() -> None:
    assert math.isnan(spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))


def test_mean_step_counts_up_and_down_alike() -> None:
    assert mean_step([1.0, 3.0, 2.0]) == 1.5
    assert math.isnan(mean_step([1.0]))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(0, 25), st.integers(1, 4))
def test_rounds_to_a_target_against_a_plain_loop(curve: list[int], target: int, window: int) -> None:
    expected = None
    for number in range(window, len(curve) + 1):
        if sum(curve[number - window : number]) / window >= target:
            expected = number
            break
    found = rounds_to([float(value) for value in curve], target, window)
    assert found == (Reached(len(curve) + 1, True) if expected is None else Reached(expected, False))


def test_a_speed_up_turns_its_sign_and_a_bound_understates_it() -> None:
    fast, slow, never = Reached(10, False), Reached(40, False), Reached(101, True)
    assert log_speed_up(slow, fast) == 2.0
    assert log_speed_up(fast, slow) == -2.0
    assert log_speed_up(never, fast) == pytest.approx(math.log2(10.1))
    assert log_speed_up(never, never) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: slope([1.0, 1.0], [1.0, 2.0]), "expected two different places"),
        (lambda: slope([1.0], [1.0]), "no slope through 1 values"),
        (lambda: spearman([1.0], [1.0, 2.0]), "1 and 2 values cannot be ranked together"),
        (lambda: rounds_to([], 0.5), "expected both at least 1"),
        (lambda: rounds_to([0.1], 0.5, window=0), "window=0"),
    ],
)
def test_bad_input_is_said(call, message: str) -> None:
    with pytest.raises(FedCoPLError, match=message):
        call()
