"""Summaries against a slow count, and the LaTeX table by reading it back."""

import statistics

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import VALUE_COLUMNS, with_settings
from fedcopl_lab.report import beside, summary, table, to_csv, to_latex
from fedcopl_lab.report._tables import clear_best, escape_latex, order_of_rows, seeds_text


def frame(values: dict[tuple[str, str], list[float]], metric: str = "accuracy") -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"item": "some", "series": series, "column": column, "metric": metric, "x": 4, "y": None, "seed": seed,
             "value": value, "key": f"{series}{column}{seed}"}
            for (series, column), many in values.items()
            for seed, value in enumerate(many)
        ]
    )  # fmt: skip


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_summary_is_mean_std_and_count_of_the_seeds(first: list[float], second: list[float]) -> None:
    cells = summary(frame({("b", "one"): first, ("a", "one"): second}))
    assert list(cells["series"]) == ["b", "a"]
    assert list(cells["n"]) == [len(first), len(second)]
    assert cells["mean"].tolist() == pytest.approx([statistics.mean(first), statistics.mean(second)], abs=1e-12)
    assert cells["std"].iloc[0] == pytest.approx(statistics.stdev(first), abs=1e-9)
    assert pd.isna(cells["std"].iloc[1]) == (len(second) == 1)


def test_a_column_that_weak_rows_lack_is_no_harder_one() -> None:
    """The best row stays on top where only some rows were measured in a second column."""
    both = frame({(f"row {n}", "one"): [0.5 + 0.01 * n] for n in range(9)})
    strong = frame({(f"row {n}", "two"): [0.7 + 0.01 * n] for n in (7, 8)})
    best_first = [f"row {n}" for n in reversed(range(9))]
    assert order_of_rows(both, "accuracy") == best_first
    assert order_of_rows(pd.concat([both, strong]), "accuracy") == best_first


def test_of_rounds_to_an_accuracy_the_fewest_are_the_best() -> None:
    rounds = frame({("slow", "c"): [90, 91, 92], ("quick", "c"): [50, 51, 52]}, "rounds_needed")
    assert clear_best(rounds, "rounds_needed", None) == {("quick", "c")}
    assert clear_best(rounds.assign(metric="speed_up"), "speed_up", None) == {("slow", "c")}


def test_numbers_of_another_profile_are_refused(made_up) -> None:
    own = frame({("a", "c"): [0.5, 0.7]}).assign(profile="smoke")
    with pytest.raises(FedCoPLError, match="of several profiles; choose one"):
        summary(pd.concat([own, own.assign(profile="mini")]))
    with pytest.raises(FedCoPLError, match="are of the profile mini, not smoke; name it"):
        beside("fedcopl_main_table6", made_up("fedcopl_main_table6", profile="mini"))
    counted = beside("fedcopl_supp_table1", made_up("fedcopl_supp_table1", profile="paper"))
    assert set(counted.columns.get_level_values("source")) == {"counted", "paper"}  # in the manifests, of no profile


def test_summary_takes_the_last_round_of_each_run() -> None:
    late = frame({("a", "c"): [0.5, 0.7]})
    early = late.assign(x=1, value=0.1)
    assert summary(pd.concat([late, early]))["mean"].item() == pytest.approx(0.6)


def test_rows_and_columns_come_in_the_items_own_order_even_from_a_sorted_file(made_up) -> None:
    numbers = made_up("fedcopl_main_table1").sort_values(["series", "column", "metric", "seed"])
    wide = table(numbers)
    assert list(wide.index)[:3] == ["Zero-shot CLIP", "PromptFL + FPL", "PromptFL + CPL"]
    assert list(wide.index)[-2:] == ["FedOTP + CPL", "FedCoPL"]
    assert len(wide) == 10
    assert list(wide.columns) == ["β = 0.1", "β = 0.05"]
    shots = table(made_up("fedcopl_ours_fpl_shots").sort_values("column"))
    assert list(shots.columns) == ["1", "4", "8", "16", "32", "64", "256"]


def test_table_shows_percent_with_one_decimal_and_no_spread_for_one_seed() -> None:
    wide = table(frame({("a", "one"): [0.784, 0.788], ("b", "one"): [0.5]}))
    assert wide.loc["a", "one"] == "78.6 ± 0.3"
    assert wide.loc["b", "one"] == "50.0"
    assert seeds_text(frame({("a", "one"): [0.1, 0.2], ("b", "one"): [0.5]})) == "1 to 2 seeds"
    assert table(frame({("a", "one"): [0.1234, 0.1234]}, "drift_text"), "drift_text").iloc[0, 0] == "0.123 ± 0.000"


CLEAR = {("low", "β = 0.1"): [0.1, 0.11], ("mid", "β = 0.1"): [0.2, 0.21], ("top_1", "β = 0.1"): [0.3, 0.31]}


def test_latex_marks_the_best_bold_where_it_is_clear() -> None:
    text = to_latex(frame(CLEAR), caption="50% & more")
    assert r"top\_1 & \textbf{30.5 $\pm$ 0.7} \\" in text
    assert r"mid & 20.5 $\pm$ 0.7 \\" in text
    assert r"$\beta$ = 0.1" in text
    assert r"\caption{50\% \& more}" in text
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize(
    "best", [[0.22, 0.25], [0.9], [0.9, 0.2]], ids=["hardly ahead", "a single run", "ahead once, behind once"]
)
def test_a_lead_within_noise_is_not_in_bold(best) -> None:
    assert r"\textbf" not in to_latex(frame(CLEAR | {("top_1", "β = 0.1"): best}))


def test_ties_have_no_best() -> None:
    assert r"\textbf" not in to_latex(frame({("a", "c"): [0.3, 0.4], ("b", "c"): [0.3, 0.4], ("d", "c"): [0.1, 0.2]}))


def test_latex_marks_nothing_where_nobody_competes() -> None:
    one_row = {("a", str(level)): [0.1 * level, 0.1 * level] for level in range(1, 7)}
    alone = to_latex(frame(one_row), corner="level")
    all_equal = to_latex(frame({("a", "c"): [0.3], ("b", "c"): [0.3], ("d", "c"): [0.3]}))
    for text in (alone, all_equal):
        assert r"\textbf" not in text
    assert r"level & a \\" in alone, "one row of many columns is turned round"
    assert r"3 & 30.0 $\pm$ 0.0 \\" in alone


def test_latex_leaves_the_labelled_reference_and_gates_out_of_the_competition() -> None:
    values = {"FedAvg-SL": 0.9, "a": 0.5, "b": 0.4, "SAGE": 0.6}
    numbers = frame({(name, "c"): [value, value + 0.02] for name, value in values.items()})
    text = to_latex(numbers.assign(item="sage_main_table1"))
    assert r"FedAvg-SL & 91.0 $\pm$ 1.4 \\" in text
    assert r"SAGE & \textbf{61.0 $\pm$ 1.4} \\" in text
    assert r"\textbf" not in to_latex(numbers, marked=False) + to_latex(numbers.assign(item="sage_ours_gates"))


@given(st.text(alphabet="ab\\&%$#_{}~^<>βτ±–"))
def test_escaped_text_has_no_bare_special_character(text: str) -> None:
    escaped = escape_latex(text)
    assert not set(escaped) & set("<>βτ±–")
    bare = escaped
    for piece in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textless{}", r"\textgreater{}",
                  r"$\beta$", r"$\tau$", r"$\pm$", r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"):  # fmt: skip
        bare = bare.replace(piece, "")
    assert not set(bare) & set("\\&%$#_{}~^")


def test_csv_reads_back_to_the_same_numbers(made_up, tmp_path) -> None:
    numbers = made_up("fedcopl_main_table6")
    (tmp_path / "n.csv").write_text(to_csv(numbers))
    read = pd.read_csv(tmp_path / "n.csv")
    assert list(read.columns) == VALUE_COLUMNS
    cell = ["series", "column", "metric", "x", "seed"]
    both = read.merge(numbers, on=cell, suffixes=("", "_before"), validate="one_to_one")
    assert len(both) == len(read) == len(numbers)
    assert both["value"].tolist() == pytest.approx(both["value_before"].tolist(), abs=1e-15)
    assert to_csv(with_settings(read, "smoke")) == to_csv(
        numbers.sort_values(["metric", "seed"], ascending=False, kind="stable")
    )


def test_bad_input_is_named(made_up) -> None:
    numbers = made_up("fedcopl_main_table1")
    with pytest.raises(FedCoPLError, match="no number has metric='acuracy'; these have: accuracy"):
        summary(numbers, "acuracy")
    with pytest.raises(FedCoPLError, match="are of 2 items"):
        summary(pd.concat([numbers, made_up("fedcopl_main_table6")]))
    with pytest.raises(FedCoPLError, match="several values for one series"):
        summary(pd.concat([numbers, numbers]))
