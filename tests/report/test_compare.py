"""Paper beside measured stays apart, gaps are right, and fresh against committed finds every kind of difference."""

import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import claims
from fedcopl_lab.report import _compare, against_committed, beside, committed_beside, gaps, readable


def test_printed_columns_hold_printed_numbers_and_measured_columns_measured_ones(made_up) -> None:
    numbers = made_up("fedcopl_main_table1")
    wide = beside("fedcopl_main_table1", numbers)
    printed = [column for column in wide.columns if column.startswith("paper: ")]
    measured = [column for column in wide.columns if column.startswith("measured (smoke, handwritten digits)")]
    assert len(printed) == 14
    assert sorted(printed + measured) == sorted(wide.columns)
    for column in printed:
        dataset, beta = column.removeprefix("paper: ").split(", β = ")
        expected = claims("fedcopl", "main Table 1", dataset=dataset, beta=float(beta), method="FedCoPL")
        assert wide.loc["FedCoPL", column] == expected["value_number"].item()
    own = numbers.query("series == 'FedCoPL' and column == 'β = 0.1' and metric == 'accuracy'")["value"]
    name = "measured (smoke, handwritten digits) β = 0.1"
    assert wide.loc["FedCoPL", name] == pytest.approx(100 * own.mean())
    assert wide.loc["FedCoPL", f"{name}: std"] == pytest.approx(100 * own.std(ddof=1))
    assert wide.loc["FedCoPL", f"{name}: n"] == 3


def test_table_6_has_its_four_printed_sets(made_up) -> None:
    wide = beside("fedcopl_main_table6", made_up("fedcopl_main_table6"))
    printed = [column for column in wide.columns if column.startswith("paper: ")]
    assert printed == [f"paper: {name}, β = 0.1" for name in ("DTD", "RESISC45", "CUB", "UCF101")]
    assert wide.loc["neither", "paper: DTD, β = 0.1"] == 50.45
    assert wide.loc["visual only (FedCoPL)", "paper: DTD, β = 0.1"] == 60.89


def test_a_row_that_the_paper_does_not_print_stays_empty(made_up) -> None:
    wide = beside("fedcopl_main_table5", made_up("fedcopl_main_table5"))
    assert wide.loc["no part"].filter(like="paper").isna().all()
    assert wide.loc["allocation", "paper: DTD, β = 0.1"] == 46.35


def test_label_accuracy_stands_beside_its_own_table(made_up) -> None:
    wide = beside("fedcopl_supp_table3", made_up("fedcopl_supp_table3"), metric="label_accuracy")
    assert wide.loc["FPL", "paper: DTD, β = 0.1"] == 66.36
    assert len([column for column in wide.columns if column.startswith("paper: ")]) == 18


def test_a_sweep_has_one_row_per_level_with_both_in_it(made_up) -> None:
    numbers = made_up("fedcopl_supp_table4")
    wide = beside("fedcopl_supp_table4", numbers)
    assert list(wide.index) == [f"{float(level):.2f}" for level in dict.fromkeys(numbers["column"])]
    assert wide.loc["0.10", "paper: DTD, β = 0.1"] == 55.89
    own = numbers.query("column == '0.10' and metric == 'accuracy'")["value"]
    assert wide.loc["0.10", "measured (smoke, handwritten digits) β = 0.1"] == pytest.approx(100 * own.mean())


def test_paper_mini_and_smoke_stand_in_columns_of_their_own(made_up, monkeypatch) -> None:
    numbers = {profile: made_up("fedcopl_main_table1", profile=profile) for profile in ("mini", "smoke")}
    monkeypatch.setattr(_compare, "measured", numbers.__getitem__)
    monkeypatch.setattr(_compare, "measured_profiles", lambda: sorted(numbers))
    wide = committed_beside("fedcopl_main_table1")
    alone = {profile: beside("fedcopl_main_table1", numbers[profile], profile) for profile in numbers}
    kinds = [re.match(r"paper: |measured \((mini|smoke), ", column)[0] for column in wide.columns]
    assert list(dict.fromkeys(kinds)) == ["paper: ", "measured (mini, ", "measured (smoke, "]
    for own in alone.values():
        for column in own.columns:
            pd.testing.assert_series_equal(wide.loc[own.index, column], own[column], check_dtype=False)
    starts = {"Zero-shot CLIP", "Prompted, before training"}
    assert starts < set(wide.index)
    assert wide.loc["Zero-shot CLIP"].filter(like="measured (mini").filter(regex="[^n]$").isna().all()
    monkeypatch.setattr(_compare, "measured", lambda profile: made_up("fedcopl_main_table6"))
    with pytest.raises(FedCoPLError, match="no committed numbers have 'accuracy' of fedcopl_main_table1"):
        committed_beside("fedcopl_main_table1")


def test_numbers_to_look_at_have_their_spread_and_say_how_many_runs_they_are() -> None:
    ours = {"ours": [78.44, 33.06, math.nan], "ours: std": [1.02, math.nan, math.nan], "ours: n": [3, 1, 0]}
    wide = pd.DataFrame(ours | {"paper: CUB": [56.07, math.nan, 60.0]}, index=["one", "two", "three"])
    told = readable(wide)
    assert told["ours, n = 3"].tolist() == ["78.4 ± 1.0", "33.1 (n = 1)", "–"]
    assert told["paper: CUB"].tolist() == ["56.1", "–", "60.0"]
    assert list(told.columns) == ["ours, n = 3", "paper: CUB"]


def test_counts_of_the_manifests_are_not_called_measured(made_up) -> None:
    wide = beside("fedcopl_supp_table1", made_up("fedcopl_supp_table1"), metric="n_train")
    assert list(wide.columns) == ["counted in the manifests", "paper: printed"]
    assert wide.loc["CUB"].tolist() == [5994, 5594]


def test_an_item_without_printed_numbers_has_measured_columns_only(made_up) -> None:
    wide = beside("fedcopl_ours_fpl_shots", made_up("fedcopl_ours_fpl_shots"))
    assert not [column for column in wide.columns if column.startswith("paper")]


def test_gaps_are_to_the_best_other_row(made_up) -> None:
    numbers = made_up("fedcopl_main_table6")
    found = gaps("fedcopl_main_table6", numbers).set_index("column")
    assert found.loc["paper: DTD, β = 0.1", "gap"] == pytest.approx(60.89 - 55.31)
    assert found.loc["paper: DTD, β = 0.1", "best_other"] == "text only"
    means = 100 * numbers[numbers["metric"] == "accuracy"].groupby("series")["value"].mean()
    own = means.pop("visual only (FedCoPL)")
    here = found[found["source"] == "measured"]
    assert here["gap"].item() == pytest.approx(own - means.max())
    assert here["best_other"].item() == means.idxmax()


def test_the_same_numbers_are_exact_whatever_their_order(made_up) -> None:
    numbers = made_up("fedcopl_main_fig2")
    found = against_committed(numbers, numbers.sample(frac=1, random_state=1))
    assert set(found["verdict"]) == {"exact"}
    assert (found["n"] == 3 * 4).all()
    assert len(found) == 2 * 4


@given(st.floats(1e-6, 0.5), st.floats(0, 0.5))
def test_a_shift_is_within_tolerance_exactly_when_the_means_are(shift: float, tolerance: float) -> None:
    line = {"item": "i", "series": "s", "column": "c", "metric": "accuracy", "x": 4, "y": None, "seed": 0, "key": "k"}
    fresh, committed = pd.DataFrame([line | {"value": 0.5 + shift}]), pd.DataFrame([line | {"value": 0.5}])
    found = against_committed(fresh, committed, tolerance).iloc[0]
    assert found["mean_difference"] == pytest.approx(shift)
    assert found["max_difference"] == pytest.approx(shift)
    assert found["verdict"] == ("within tolerance" if abs((0.5 + shift) - 0.5) <= tolerance else "differs")


@pytest.mark.parametrize(
    ("metric", "verdict"), [("label_accuracy_global", "no common value"), ("share_global", "only fresh")]
)
def test_a_label_given_on_one_machine_alone_is_no_missing_cell(metric, verdict) -> None:
    """Another processor rounds differently, and with it goes which rare label is given."""
    line = {"item": "sage_main_fig7", "series": "SAGE", "column": "α = 0.1", "x": 3, "y": None, "seed": 0, "value": 0.5}
    shared = {**line, "metric": "share_local"}
    found = against_committed(pd.DataFrame([shared, {**line, "metric": metric}]), pd.DataFrame([shared]))
    assert found.set_index("metric")["verdict"].to_dict() == {"share_local": "exact", metric: verdict}


def test_only_common_seeds_are_compared_and_lonely_cells_are_named(made_up) -> None:
    numbers = made_up("fedcopl_main_table6")
    fresh = numbers[(numbers["seed"] == 0) & (numbers["series"] != "neither")]
    found = against_committed(fresh, numbers[numbers["series"] != "text only"])
    verdicts = found.groupby("series")["verdict"].agg(set).to_dict()
    assert verdicts == {
        "text and visual": {"exact"},
        "visual only (FedCoPL)": {"exact"},
        "text only": {"only fresh"},
        "neither": {"only committed"},
    }
    assert set(found[found["verdict"] == "exact"]["n"]) == {1}


def test_a_cell_that_only_other_seeds_have_is_not_missing(made_up) -> None:
    numbers = made_up("fedcopl_main_table6")
    mine = numbers["seed"] == 0
    gave_none = numbers["series"] == "neither"  # in seed 0 alone, on both sides
    found = against_committed(numbers[mine & ~gave_none], numbers[~(mine & gave_none)])
    assert set(found["verdict"]) == {"exact"}
    assert "neither" not in set(found["series"])


def test_nothing_against_nothing_is_empty(made_up) -> None:
    nothing = made_up("fedcopl_main_fig1")
    assert against_committed(nothing, nothing).empty


def test_bad_input_is_named(made_up) -> None:
    numbers = made_up("fedcopl_main_table6")
    with pytest.raises(FedCoPLError, match="tolerance=-1"):
        against_committed(numbers, numbers, -1.0)
    with pytest.raises(FedCoPLError, match="the committed numbers lack the columns value"):
        against_committed(numbers, numbers.drop(columns="value"))
    with pytest.raises(FedCoPLError, match="the fresh numbers hold a line twice"):
        against_committed(pd.concat([numbers, numbers]), numbers)
    with pytest.raises(FedCoPLError, match="no 'accuracy' of fedcopl_main_table1"):
        beside("fedcopl_main_table1", numbers)
    with pytest.raises(FedCoPLError, match="0 rows of its own method"):
        gaps("fedcopl_ours_fpl_shots", made_up("fedcopl_ours_fpl_shots"))
