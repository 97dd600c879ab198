"""The judging rule against slow, obvious references; nothing here was measured."""

import math
import statistics

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper._intervals import t_interval, with_image_error
from fedcopl_lab.paper._judge import (
    Judgement,
    chosen_on_others,
    judge_difference,
    judge_equivalence,
    judge_every_case,
    judge_no_worse,
    judge_parts,
    judge_range,
)

UP, DOWN, NOISE = pd.Series([1.0, 1.2, 0.9]), pd.Series([-1.0, -1.2, -0.9]), pd.Series([1.0, -1.1, 0.2])
OTHER_SIDE = {"holds": "does not hold", "does not hold": "holds"}
numbers = st.lists(st.integers(-50, 50).map(lambda n: n / 8), min_size=3, max_size=8)


def slow_verdict(values: list[float]) -> str:
    """The rule word by word, with the standard library and scipy's own interval."""
    mean, error = statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))
    if error == 0:
        return "holds" if mean > 0 else "does not hold" if mean < 0 else "not tested"
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
    return "holds" if low > 0 else "does not hold" if high < 0 else "within noise"


@given(numbers)
def test_a_difference_is_judged_by_its_t_interval(values: list[float]) -> None:
    assert judge_difference(pd.Series(values)).verdict == slow_verdict(values)


@given(numbers)
def test_the_interval_is_scipys(values: list[float]) -> None:
    mean, low, high = t_interval(pd.Series(values))
    error = statistics.stdev(values) / math.sqrt(len(values))
    expected = (
        stats.t.interval(0.95, len(values) - 1, loc=statistics.mean(values), scale=error) if error else (mean,) * 2
    )
    assert (low, high) == pytest.approx(expected, abs=1e-9)


@given(numbers, st.randoms(use_true_random=False))
def test_turning_the_sign_turns_the_verdict_and_the_order_of_seeds_does_not_matter(values: list[float], draw) -> None:
    once = judge_difference(pd.Series(values))
    turned = judge_difference(-pd.Series(values))
    assert turned.verdict == OTHER_SIDE.get(once.verdict, once.verdict)
    assert (turned.low, turned.high) == pytest.approx((-once.high, -once.low))
    assert turned.p == pytest.approx(once.p)
    draw.shuffle(values)
    again = judge_difference(pd.Series(values))
    assert again.verdict == once.verdict
    assert (again.low, again.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [1.0, 2.0, math.nan]])
def test_fewer_than_three_seeds_are_not_tested(values: list[float]) -> None:
    judged = judge_difference(pd.Series(values, dtype=float))
    assert judged.verdict == "not tested"
    assert judged.text == ""
    assert "3 are needed" in judged.note


def test_seeds_without_a_value_are_left_out_and_equal_seeds_need_no_spread() -> None:
    assert judge_difference(pd.Series([1.0, math.nan, 1.2, 0.9])).n_seeds == 3
    assert judge_difference(pd.Series([0.1, 0.1, 0.1])).low == pytest.approx(0.1)
    for nothing in (0.0, (0.1 + 0.2) - 0.3):
        floor = judge_difference(pd.Series([nothing] * 3))
        assert (floor.verdict, floor.note) == ("not tested", "Exactly 0 at every seed: nothing to test.")
    assert judge_equivalence(pd.Series([0.0, 0.0, 0.0])).verdict == "holds"


@pytest.mark.parametrize(
    ("cells", "verdict", "k"),
    [
        ({"a": UP, "b": UP}, "holds", 2),
        ({"a": 5 * UP, "b": NOISE}, "holds", 2),
        ({"a": 5 * UP, "b": DOWN}, "does not hold", 1),  # one cell significantly the other way
        ({"a": NOISE, "b": NOISE}, "within noise", 2),
        ({"a": DOWN, "b": 0.01 * NOISE}, "does not hold", 1),
        ({"a": UP.head(2), "b": UP}, "not tested", 2),
    ],
)
def test_every_case(cells: dict[str, pd.Series], verdict: str, k: int) -> None:
    judged = judge_every_case(cells)
    assert (judged.verdict, judged.k_of_m, judged.cells) == (verdict, k, 2)


@given(st.lists(st.lists(st.integers(-40, 40).map(float), min_size=4, max_size=4), min_size=1, max_size=4))
def test_every_case_is_the_rule_word_by_word(rows: list[list[float]]) -> None:
    judged = judge_every_case({str(i): pd.Series(row) for i, row in enumerate(rows)})
    pooled = slow_verdict([statistics.mean(row[seed] for row in rows) for seed in range(4)])

    def opposite(row: list[float]) -> bool:
        """The t-test with scipy, its p-value times the number of cells."""
        if len(set(row)) == 1:
            return row[0] < 0
        return statistics.mean(row) < 0 and stats.ttest_1samp(row, 0).pvalue * len(rows) <= 0.05

    refuted = pooled != "not tested" and len(rows) > 1 and any(map(opposite, rows))
    assert judged.verdict == ("does not hold" if refuted else pooled)
    if judged.verdict == "does not hold":
        assert judged.high < 0, "a cross never stands beside an interval that covers 0"
    assert judged.k_of_m == sum(statistics.mean(row) > 0 for row in rows)


def test_the_cell_on_the_other_side_is_named() -> None:
    judged = judge_every_case({"CUB": 5 * UP, "DTD": DOWN})
    assert judged.note == (
        "Significantly the other way: DTD. The numbers are those of DTD; the mean over all cells is +2.1 points "
        "[1.3, 2.8]."
    )
    assert judged.text == "-1.0 points [-1.4, -0.7], 1 of 2 cells"


def test_one_cell_of_many_refutes_only_when_all_of_them_are_counted() -> None:
    weak = pd.Series([-1.0, -2.0, -1.5, -0.3])  # p = 0.046
    assert judge_difference(weak).verdict == "does not hold"
    assert judge_every_case({"a": weak, "b": 5 + weak}).verdict != "does not hold"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.1, -0.2, 0.3], "holds"),
        ([1.8, 1.9, 2.2], "within noise"),
        ([3.0, 3.1, 3.2], "does not hold"),
        ([-3.0, -3.1, -3.2], "does not hold"),
        ([8.0, -8.0, 1.0], "within noise"),
    ],
)
def test_equivalence_asks_for_the_interval_inside_the_margin(values: list[float], verdict: str) -> None:
    judged = judge_equivalence(pd.Series(values), margin=2.0)
    assert judged.verdict == verdict
    assert judge_equivalence(-pd.Series(values), margin=2.0).verdict == verdict
    assert "Margin 2 points." in judged.note


def test_no_worse_welcomes_any_gain_and_refuses_a_loss_beyond_the_margin() -> None:
    gain = judge_no_worse(pd.Series([5.0, 6.0, 7.0]))
    assert gain.verdict == "holds"
    assert gain.difference == 6.0
    assert gain.low < 6.0 < gain.high
    assert judge_no_worse(pd.Series([-5.0, -6.0, -5.5])).verdict == "does not hold"
    assert judge_no_worse(pd.Series([-1.9, -2.0, -2.1])).verdict == "within noise"
    assert judge_no_worse(pd.Series([-0.5, -0.4, -0.6])).verdict == "holds"


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ((UP, UP), "holds"),
        ((UP, NOISE), "within noise"),
        ((NOISE, DOWN), "does not hold"),
        ((UP.head(2), DOWN), "not tested"),
    ],
)
def test_all_parts_must_hold(parts: tuple[pd.Series, pd.Series], verdict: str) -> None:
    judged = judge_parts({name: judge_difference(values) for name, values in zip("ab", parts, strict=True)})
    assert judged.verdict == verdict
    assert "a: " in judged.note
    assert "b: " in judged.note


def test_a_range_is_the_best_mean_minus_the_worst() -> None:
    table = pd.DataFrame({0.4: [70.0, 71.0, 72.0], 0.5: [75.0, 76.1, 77.0], 0.6: [72.0, 73.0, 74.0]})
    judged = judge_range(table)
    assert judged.verdict == "does not hold"
    assert judged.difference == pytest.approx(statistics.mean([5.0, 5.1, 5.0]))
    assert "Best at 0.5, worst at 0.4, of 3 values." in judged.note
    assert judge_range(table.assign(**{"0.4": table[0.5]})[["0.4", 0.5]]).verdict == "holds"
    assert judge_range(table.head(2)).verdict == "not tested"


def test_a_range_is_over_the_seeds_that_chose_its_ends() -> None:
    """A fourth seed that only two settings have takes no part."""
    table = pd.DataFrame({1: [70.0, 71.0, 72.0, 60.0], 2: [70.2, 71.3, 72.2, 90.0], 3: [70.1, 71.1, 72.1, math.nan]})
    judged = judge_range(table, gap=lambda best, worst: with_image_error(table[best] - table[worst], 0.01))
    assert (judged.n_seeds, judged.difference) == (3, pytest.approx(statistics.mean([0.2, 0.3, 0.2])))
    assert judged.image_error == pytest.approx(0.01)


@given(st.lists(st.tuples(*[st.integers(0, 20).map(float)] * 3), min_size=2, max_size=5))
def test_the_best_is_chosen_on_other_seeds(rows: list[tuple[float, float, float]]) -> None:
    table = pd.DataFrame(rows, columns=list("abc"))
    found = chosen_on_others(table) - table["b"]
    for i, row in enumerate(rows):
        others = [other for j, other in enumerate(rows) if j != i]
        means = [statistics.mean(other[c] for other in others) for c in range(3)]
        best = max(range(3), key=lambda c: (round(means[c], 9), -c))
        assert found[i] == pytest.approx(row[best] - row[1])


def test_text_is_short_and_says_the_cells() -> None:
    judged = Judgement("holds", 1.94, 0.41, 3.42, 5, cells=8, k_of_m=6)
    assert judged.text == "+1.9 points [0.4, 3.4], 6 of 8 cells"
    assert Judgement("holds", 0.5, 0.25, 0.75, 5, cells=1, k_of_m=1, unit="rho").text == "+0.50 rho [0.25, 0.75]"


def test_small_numbers_keep_two_digits_and_zero_has_no_sign() -> None:
    small = Judgement("within noise", -0.0017, -0.0041, 0.0007, 3, cells=1, k_of_m=0, unit="of λ per round")
    assert small.text == "-0.0017 of λ per round [-0.0041, 0.0007]"
    assert Judgement("within noise", -0.01, -0.8, 0.8, 3, cells=1).text == "+0.0 points [-0.8, 0.8]"
    assert Judgement("within noise", 0.0, 0.0, 0.0, 3, cells=1, unit="rho").text == "+0.00 rho [0.00, 0.00]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: judge_every_case({}), "no cell to judge"),
        (lambda: judge_parts({}), "no cell to judge"),
        (lambda: judge_equivalence(UP, margin=0.0), "margin=0.0 is not valid; expected a width above 0 in points"),
        (lambda: t_interval(UP.head(1)), "an interval of 1 value"),
    ],
)
def test_bad_input_is_said(call, message: str) -> None:
    with pytest.raises(FedCoPLError, match=message):
        call()
