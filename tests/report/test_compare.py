"""Paper beside measured stays apart, gaps are right, and fresh against committed finds every kind of difference."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcopl_lab import FedCoPLError
from fedcopl_lab.config import configure
from fedcopl_lab.paper import claims, measured
from fedcopl_lab.report import _compare, against_committed, agreement_text, beside, committed_beside, gaps, readable


def test_printed_columns_hold_printed_numbers_and_measured_columns_measured_ones(made_up) -> None:
    numbers = made_up("fedcopl_main_table1")
    wide = beside("fedcopl_main_table1", numbers)
    assert wide.columns.names == ["source", "profile", "dataset", "column", "statistic"]
    assert wide["paper"].shape[1] == 14
    for *_, column, _ in wide["paper"].columns:
        dataset, beta = column.split(", β = ")
        expected = claims("fedcopl", "main Table 1", dataset=dataset, beta=float(beta), method="FedCoPL")
        assert wide["paper", "", "", column, "mean"]["FedCoPL"] == expected["value_number"].item()
    own = numbers.query("series == 'FedCoPL' and column == 'β = 0.1' and metric == 'accuracy'")["value"]
    here = [wide["measured", "smoke", "handwritten digits", "β = 0.1", of]["FedCoPL"] for of in ("mean", "std", "n")]
    assert here == pytest.approx([100 * own.mean(), 100 * own.std(ddof=1), 3])


def test_table_6_has_its_four_printed_sets(made_up) -> None:
    wide = beside("fedcopl_main_table6", made_up("fedcopl_main_table6"))
    printed = {column: values for (*_, column, _), values in wide["paper"].items()}
    assert list(printed) == [f"{name}, β = 0.1" for name in ("DTD", "RESISC45", "CUB", "UCF101")]
    assert printed["DTD, β = 0.1"][["neither", "visual only (FedCoPL)"]].tolist() == [50.45, 60.89]


def test_a_row_that_the_paper_does_not_print_stays_empty(made_up) -> None:
    wide = beside("fedcopl_main_table5", made_up("fedcopl_main_table5"))
    assert wide["paper"].loc["no part"].isna().all()
    assert readable(wide).loc["allocation", "paper: DTD, β = 0.1"] == "46.4"


def test_label_accuracy_stands_beside_its_own_table(made_up) -> None:
    wide = beside("fedcopl_supp_table3", made_up("fedcopl_supp_table3"), metric="label_accuracy")
    assert wide["paper", "", "", "DTD, β = 0.1", "mean"]["FPL"] == 66.36
    assert wide["paper"].shape[1] == 18


def test_a_sweep_has_one_row_per_level_with_both_in_it(made_up) -> None:
    numbers = made_up("fedcopl_supp_table4")
    wide = beside("fedcopl_supp_table4", numbers)
    assert list(wide.index) == [f"{float(level):.2f}" for level in dict.fromkeys(numbers["column"])]
    assert wide["paper", "", "", "DTD, β = 0.1", "mean"]["0.10"] == 55.89
    own = numbers.query("column == '0.10' and metric == 'accuracy'")["value"]
    here = wide["measured", "smoke", "handwritten digits", "β = 0.1", "mean"]
    assert here["0.10"] == pytest.approx(100 * own.mean())


def test_paper_mini_and_smoke_stand_in_columns_of_their_own(made_up, monkeypatch) -> None:
    numbers = {profile: made_up("fedcopl_main_table1", profile=profile) for profile in ("mini", "smoke")}
    monkeypatch.setattr(_compare, "measured", lambda profile, item: numbers[profile])
    monkeypatch.setattr(_compare, "measured_profiles", lambda: sorted(numbers))
    wide = committed_beside("fedcopl_main_table1")
    alone = {profile: beside("fedcopl_main_table1", numbers[profile], profile) for profile in numbers}
    assert list(dict.fromkeys(column[:2] for column in wide.columns)) == [
        ("paper", ""), ("measured", "mini"), ("measured", "smoke")
    ]  # fmt: skip
    for own in alone.values():
        for column in own.columns:
            pd.testing.assert_series_equal(wide.loc[own.index, column], own[column], check_dtype=False)
    assert {"Zero-shot CLIP", "Prompted, before training"} < set(wide.index)
    mini = wide.xs(("mini", "mean"), axis=1, level=("profile", "statistic"))
    assert mini.loc["Zero-shot CLIP"].isna().all()
    monkeypatch.setattr(_compare, "measured", lambda _, item: made_up("fedcopl_main_table6").query("item == @item"))
    with pytest.raises(FedCoPLError, match="no committed numbers have 'accuracy' of fedcopl_main_table1"):
        committed_beside("fedcopl_main_table1")


def test_numbers_to_look_at_have_their_spread_and_say_how_many_runs_they_are() -> None:
    ours = ("measured", "mini", "CIFAR-10", "β = 0.1")
    values = {(*ours, "mean"): [78.44, 33.06, math.nan], (*ours, "std"): [1.02, math.nan, math.nan],
              (*ours, "n"): [3, 1, 0], ("paper", "", "", "CUB", "mean"): [56.07, math.nan, 60.0]}  # fmt: skip
    told = readable(pd.DataFrame(values, index=["one", "two", "three"]))
    assert told["measured (mini, CIFAR-10) β = 0.1, n = 3"].tolist() == ["78.4 ± 1.0", "33.1 (n = 1)", "–"]
    assert told["paper: CUB"].tolist() == ["56.1", "–", "60.0"]
    assert len(told.columns) == 2


def test_counts_of_the_manifests_are_not_called_measured(made_up) -> None:
    wide = readable(beside("fedcopl_supp_table1", made_up("fedcopl_supp_table1"), metric="n_train"))
    assert list(wide.columns) == ["counted in the manifests", "paper: printed"]
    assert wide.loc["CUB"].tolist() == ["5994", "5594"]


def test_an_item_without_printed_numbers_has_measured_columns_only(made_up) -> None:
    wide = beside("fedcopl_ours_fpl_shots", made_up("fedcopl_ours_fpl_shots"))
    assert "paper" not in wide.columns


def test_gaps_are_to_the_best_other_row_at_the_seeds_that_both_have(made_up) -> None:
    few = "seed == 1 or series != 'neither' and (seed == 2 or series != 'text only')"
    numbers = made_up("fedcopl_main_table6").query(few)
    found = gaps("fedcopl_main_table6", numbers).set_index("column")
    assert found.loc["paper: DTD, β = 0.1", ["gap", "best_other"]].tolist() == [pytest.approx(5.58), "text only"]
    values = 100 * numbers[numbers["metric"] == "accuracy"].pivot(index="seed", columns="series", values="value")
    own = values.pop("visual only (FedCoPL)")
    ahead = {row: (own - other).mean() for row, other in values.items() if row != "neither"}  # which has one seed
    here = found[found["source"] == "measured"]
    assert here["gap"].item() == pytest.approx(min(ahead.values()))
    assert here["best_other"].item() == min(ahead, key=ahead.__getitem__)


def test_the_fewest_rounds_lead_and_no_other_row_is_named_the_best() -> None:
    found = gaps("sage_supp_table6", measured("smoke", "sage_supp_table6")).set_index("column")
    assert found.loc["paper: CIFAR-100, 30 %", ["best_other", "gap"]].tolist() == ["FedLabel", 34]


def test_sages_mean_of_the_last_five_rounds_stands_beside_the_printed_accuracy(made_up) -> None:
    wide = beside("sage_main_table1", numbers := made_up("sage_main_table1"))
    own = numbers.query("series == 'SAGE' and column == 'α = 0.1' and metric == 'accuracy_last5'")["value"]
    assert wide["measured", "smoke", "handwritten digits", "α = 0.1", "mean"]["SAGE"] == pytest.approx(100 * own.mean())
    assert wide["paper", "", "", "CIFAR-100, α = 0.1", "mean"].notna().all()


def test_the_same_numbers_are_exact_whatever_their_order(made_up) -> None:
    numbers = made_up("fedcopl_main_fig2")
    found = against_committed(numbers, numbers.sample(frac=1, random_state=1))
    assert set(found["verdict"]) == {"exact"}
    assert (found["n"] == 3 * configure("smoke").rounds).all()
    assert len(found) == 2 * 4


@given(st.floats(1e-6, 0.5), st.floats(0, 0.5))
def test_a_shift_is_within_tolerance_exactly_when_the_means_are(shift: float, tolerance: float) -> None:
    line = {"item": "i", "series": "s", "column": "c", "metric": "accuracy", "x": 4, "y": None, "seed": 0, "key": "k"}
    fresh, committed = pd.DataFrame([line | {"value": 0.5 + shift}]), pd.DataFrame([line | {"value": 0.5}])
    found = against_committed(fresh, committed, tolerance).iloc[0]
    assert found["mean_difference"] == pytest.approx(shift)
    assert found["max_difference"] == pytest.approx(shift)
    assert found["verdict"] == ("within tolerance" if abs((0.5 + shift) - 0.5) <= tolerance else "differs")


@pytest.mark.parametrize(("shift", "verdict"), [(0.05, "within seeds"), (0.07, "differs"), (0.005, "within tolerance")])
def test_a_difference_that_two_seeds_have_too_is_named_so(shift: float, verdict: str) -> None:
    line = {"item": "i", "series": "s", "column": "c", "metric": "accuracy", "x": 4, "y": None, "key": "k"}
    spread = [line | {"seed": seed, "value": value} for seed, value in enumerate((0.5, 0.53, 0.56))]  # std 0.03
    fresh = pd.DataFrame([line | {"seed": 0, "value": 0.5 + shift, "origin": "computed here"}])
    found = against_committed(fresh, pd.DataFrame(spread))
    assert found["verdict"].item() == verdict
    assert ("1 no further apart than two seeds" in agreement_text(found)) == (verdict == "within seeds")


def test_differences_that_cancel_out_are_seen() -> None:
    """Over seeds, and over the bins and clients of a histogram or split; over rounds they may."""
    line = {"column": "c", "metric": "m", "x": 4, "y": None, "key": "k"}
    named = line | {"item": "sage_main_table1", "series": "SAGE"}
    seeds = pd.DataFrame([named | {"seed": seed, "value": 0.5} for seed in range(2)])
    found = against_committed(seeds.assign(value=seeds["value"] + 0.3 * (-1.0) ** seeds["seed"]), seeds)
    assert found[["verdict", "mean_difference"]].values.tolist() == [["differs", 0]]
    verdicts = {}
    for item in ("sage_main_fig5", "sage_main_fig2a", "sage_supp_fig16", "fedcopl_supp_fig3"):
        lines = [line | {"item": item, "series": "s", "seed": seed, "x": x, "value": x + 0.1 * seed}
                 for x in range(9) for seed in range(3)]  # fmt: skip
        numbers = pd.DataFrame(lines)
        verdicts[item] = against_committed(numbers.assign(x=8 - numbers["x"]), numbers)["verdict"].item()
    assert verdicts.pop("sage_main_fig5") == "within tolerance"  # x is the round: the mean over them counts
    assert set(verdicts.values()) == {"differs"}


def test_a_number_against_none_differs(made_up) -> None:
    numbers = made_up("fedcopl_main_fig2")
    fresh = numbers.assign(value=numbers["value"].where(numbers.index > 0))
    found = against_committed(fresh, numbers)["verdict"].value_counts().to_dict()
    assert found == {"exact": len(numbers[["series", "column", "metric"]].drop_duplicates()) - 1, "differs": 1}
    assert set(against_committed(fresh, fresh)["verdict"]) == {"exact"}


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


def test_of_mixed_numbers_those_computed_here_are_compared_with_the_same_runs(made_up) -> None:
    numbers = made_up("fedcopl_main_table6")
    here = (numbers["seed"] == 0) & (numbers["series"] != "neither")
    mixed = numbers.assign(origin=here.map({True: "computed here", False: "committed"}))
    mixed.loc[~here, "value"] = 7.0
    found = against_committed(mixed, numbers)
    assert set(found["verdict"]) == {"exact"}
    assert set(found["n"]) == {1}
    assert "neither" not in set(found["series"])
    assert agreement_text(found).startswith(f"{len(found)} cells: {len(found)} equal to the last bit, 0 within")
    nothing = against_committed(mixed[~here], numbers)
    assert nothing.empty
    assert agreement_text(nothing).startswith("nothing to compare: none of the committed runs")


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
