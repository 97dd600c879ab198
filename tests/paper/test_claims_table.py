"""Any experiment's claims from a table: the documented example, what each field does, and what is refused."""

import re
from pathlib import Path

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import TidyRows, judge

ROOT = Path(__file__).resolve().parents[2]
NO_WIDTH = "Every seed gives the same number, so the interval has no width."
GAINS = {"A": 0.05, "B": 0.0, "C": 0.02}
ROWS = pd.DataFrame(
    [
        {"method": method, "depth": depth, "seed": seed, "metric": metric, "value": value}
        for method, gain in GAINS.items()
        for depth in (2, 4)
        for seed in range(3)
        for metric, value in (("accuracy", 0.6 + gain + 0.001 * seed * depth), ("loss", 1.0 - gain * depth))
    ]
)


def verdict_of(numbers=ROWS, **line):
    claims = pd.DataFrame([{"number": 1, "claim": "a claim", "read": "accuracy", **line}])
    return judge(claims, TidyRows(numbers)).iloc[0]


def test_the_documented_examples_run_and_say_what_they_should(capsys, monkeypatch):
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    monkeypatch.chdir(ROOT)
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, {})
    printed = capsys.readouterr().out
    assert "FedNew beats FedAvg on uneven splits" in printed
    assert "A beats B at every depth   holds  +5.0 points" in printed
    assert "Depth hardly matters to A   holds" in printed


@pytest.mark.parametrize(
    ("line", "verdict", "difference"),
    [
        ({"rule": "difference", "own": "method=A", "other": "method=B", "columns": "depth=2"}, "holds", 0.05),
        ({"rule": "difference", "own": "method=A", "other": "method=B", "columns": "depth=2", "scale": "-1"},
         "does not hold", -0.05),
        ({"rule": "every_case", "own": "method=A", "other": "best of method=B | method=C",
          "columns": "depth=2 | depth=4"}, "holds", 0.03),
        ({"rule": "difference", "read": "loss", "scale": "-1", "own": "method=A", "columns": "depth=2",
          "other": "best of method=B | method=C"}, "holds", 0.06),
        ({"rule": "every_case", "rows": "method=A | method=C", "own": "depth=4", "other": "depth=2"}, "within noise",
         0.002),
        ({"rule": "every_case", "rows": "the worst: method=B", "own": "method=A", "other": "row",
          "columns": "depth=2 | depth=4"}, "holds", 0.05),
        ({"rule": "equivalence", "own": "method=A", "other": "method=C", "columns": "depth=2", "margin": "0.1"},
         "holds", 0.03),
        ({"rule": "no_worse", "own": "method=B", "other": "method=A", "columns": "depth=2", "margin": "0.01"},
         "does not hold", -0.05),
        ({"rule": "trend", "read": "-1 * loss", "own": "method=A", "columns": "depth=2 | depth=4"}, "holds", 0.1),
        ({"rule": "range", "own": "method=A", "levels": "depth=2 4", "margin": "0.5"}, "holds", 0.002),
        ({"rule": "range", "own": "method=A", "levels": "depth=2 4", "margin": "0.5", "scale": "1000"}, "within noise",
         2.0),
        ({"rule": "every_case", "part": "row", "rows": "method=A | method=C", "other": "method=B",
          "columns": "depth=2"}, "holds", 0.05),
        ({"rule": "trend", "read": "-1 * loss", "rows": "method=A | method=B", "columns": "depth=2 | depth=4",
          "part": "row"}, "not tested", 0.0),
    ],
)  # fmt: skip
def test_each_rule_on_tidy_rows(line, verdict, difference):
    judged = verdict_of(**line)
    assert judged["verdict"] == verdict
    assert judged["difference"] == pytest.approx(difference)


def test_the_best_of_several_is_told_by_the_seeds_that_both_have():
    """B has all seeds, C the three hard ones alone: its plain mean is lower, and yet it is ahead of A."""
    own = {0: 0.50, 1: 0.51, 2: 0.53, 3: 0.90, 4: 0.92}
    runs = {"A": own, "B": {s: v - 0.02 for s, v in own.items()}, "C": {s: own[s] + 0.03 for s in range(3)}}
    rows = [{"method": m, "seed": s, "metric": "accuracy", "value": v} for m in runs for s, v in runs[m].items()]
    judged = verdict_of(pd.DataFrame(rows), rule="difference", own="method=A", other="best of method=B | method=C")
    assert (judged["verdict"], judged["n_seeds"]) == ("does not hold", 3)
    assert judged["difference"] == pytest.approx(-0.03)


def test_of_parts_that_are_rows_as_many_must_be_there_as_the_line_says():
    line = {
        "rule": "every_case",
        "part": "row",
        "rows": "method=A | method=D",
        "other": "method=B",
        "columns": "depth=2",
    }
    assert verdict_of(**line)["verdict"] == "holds"
    assert verdict_of(**line, least="2")["verdict"] == "not tested"


def test_parts_must_all_hold_and_notes_are_told():
    lines = [
        {"part": "accuracy", "read": "accuracy", "rule": "difference"},
        {"part": "loss", "read": "loss", "rule": "difference"},
        {"part": "", "read": "100 * (accuracy - 0.5)", "rule": "note", "other": "", "text": "{:.0f} points above."},
    ]
    shared = {"number": 1, "claim": "A is better", "own": "method=A", "other": "method=B", "columns": "depth=2"}
    judged = judge(pd.DataFrame([shared | line for line in lines]), TidyRows(ROWS)).iloc[0]
    assert judged["verdict"] == "does not hold"
    assert "accuracy: +0.1 points" in judged["note"]
    assert judged["note"].endswith(f"15 points above. {NO_WIDTH}")


def test_a_part_s_note_stands_behind_its_numbers():
    shared = {"number": 1, "claim": "depth hardly matters", "read": "accuracy", "rule": "range", "levels": "depth=2 4"}
    lines = [shared | {"part": name, "own": f"method={name}", "margin": m} for name, m in (("A", "0.5"), ("B", "0.25"))]
    note = judge(pd.DataFrame(lines), TidyRows(ROWS)).iloc[0]["note"]
    for name, margin in (("A", "0.5"), ("B", "0.25")):
        own = note.partition(f"{name}: ")[2].partition("B: ")[0]
        assert f"(holds). Margin {margin} points. Best at 4, worst at 2, of 2 values." in own


def test_what_is_missing_is_not_tested_and_said():
    few = ROWS[ROWS["seed"] < 2]
    assert verdict_of(few, rule="difference", own="method=A, depth=2")["note"] == (
        "Needs 3 seeds of method=A, depth=2; 2 stored."
    )
    lacking = verdict_of(read="colour", rule="difference", own="method=A, depth=2")
    assert lacking["note"] == "The stored rows of method=A, depth=2 lack 'colour'."
    partly = verdict_of(rule="every_case", own="method=A", other="method=B", columns="depth=2 | depth=8")
    assert (partly["verdict"], partly["note"]) == ("holds", f"{NO_WIDTH} Omitted, as not stored: depth=8.")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"rule": "vote", "own": "method=A, depth=2"}, "rule='vote' is unknown; choose one of difference, every_"),
        ({"rule": "difference", "own": "A"}, "'A' is no name of rows or columns and no settings"),
        ({"rule": "difference", "own": "method=A"}, "the lines of method=A have several values of depth; name one"),
        ({"rule": "difference", "own": "width=3"}, "the numbers have no column 'width'"),
        ({"rule": "difference", "read": "accuracy ** 2"}, "expected names with"),
        ({"rule": "difference", "read": "accuracy -"}, "expected names with"),
        (
            {"rule": "trend", "rows": "method=A | method=B", "columns": "depth=2 | depth=4"},
            "takes one line and one row",
        ),
        ({"rule": "range", "rows": "method=A", "levels": "depth=2 4"}, "does not read rows; name the run in own"),
        ({"rule": "range", "part": "row", "levels": "depth=2 4"}, "rule='range' does not read part=row"),
        ({"rule": "range", "own": "method=A"}, "rule='range' needs levels, a setting and its values"),
        ({"rule": "range", "own": "method=A", "levels": "depth=2"}, "rule='range' needs levels, a setting and its"),
        (
            {"rule": "note", "own": "method=A, depth=2", "text": "so much: {:.1f}"},
            "rule='note' judges nothing; give the claim a line of another",
        ),
        ({"rule": "rang", "part": "row", "rows": "method=A"}, "rule='rang' is unknown"),
        ({"rule": "no_worse", "own": "method=A, depth=2", "margin": "small"}, "margin='small' is no number"),
        ({"rule": "difference", "own": "method=A, depth=2", "effect": "large"}, "effect='large' is no number"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(line, message):
    with pytest.raises(FedCoPLError, match=re.escape(message)):
        verdict_of(**line)


@pytest.mark.parametrize("rules", [("every_case", "every_case"), ("difference", "no_worse"), ("range", "range")])
def test_no_line_of_a_claim_takes_the_place_of_another(rules):
    shared = {"number": 1, "claim": "A leads", "read": "accuracy", "own": "method=A"}
    lines = [shared | ({"rule": rule, "levels": "depth=2 4"} if rule == "range" else
                       {"rule": rule, "own": "method=A, depth=2", "other": f"method={other}, depth=2"})
             for rule, other in zip(rules, "BC", strict=True)]  # fmt: skip
    with pytest.raises(FedCoPLError, match="two lines of a claim give the part or cell ''; name each in part, rows"):
        judge(pd.DataFrame(lines).fillna(""), TidyRows(ROWS))
    for line, name in zip(lines, ("against B", "against C"), strict=True):
        line["part"] = name
    assert "against C" in judge(pd.DataFrame(lines).fillna(""), TidyRows(ROWS)).iloc[0]["note"]


def test_lines_of_one_part_share_scale_and_unit_and_each_part_has_its_own_effect():
    shared = {"number": 1, "claim": "A is better", "rule": "every_case", "own": "method=A", "other": "method=B"}
    own = {"read": ["accuracy", "loss"], "columns": ["shallow: depth=2", "deep: depth=4"], "effect": ["10", "-0.2"]}
    lines = pd.DataFrame(own).assign(part=own["read"], scale=["100", "-1"], **shared)
    assert judge(lines, TidyRows(ROWS))["verdict"].item() == "holds"
    alike = lines.assign(read="accuracy", part="", scale=["100", "100.0"], unit=["", "points"], margin=["", "3"])
    assert judge(alike, TidyRows(ROWS))["verdict"].item() == "holds"
    with pytest.raises(FedCoPLError, match=r"lines of one rule and part have other scales, .* name each in part"):
        judge(lines.assign(part=""), TidyRows(ROWS))
    judged = judge(lines.assign(scale=["100", "1"]), TidyRows(ROWS)).iloc[0]  # of the loss, which is shown
    assert (judged["verdict"], judged["paper_effect"]) == ("does not hold", -0.2)
    ahead = {(2, 0): 5.0, (2, 1): 1.0, (2, 2): 3.0}  # of the loss; at depth 4 alone it is behind
    losses = [value - ahead.get((depth, seed), -0.5) * (method == "A" and metric == "loss")
              for method, depth, seed, metric, value in ROWS.assign(value=1.0).itertuples(index=False)]  # fmt: skip
    numbers = ROWS.assign(value=ROWS["value"].where(ROWS["metric"] == "accuracy", pd.Series(losses)))
    judged = judge(lines.assign(columns="depth=2 | depth=4"), TidyRows(numbers)).iloc[0]
    assert (judged["verdict"], judged["difference"], judged["paper_effect"]) == ("does not hold", -0.5, -0.2)


def test_a_setting_that_changes_from_seed_to_seed_is_not_left_open():
    mixed = ROWS[(ROWS["depth"] == 2) == (ROWS["seed"] < 2)]
    with pytest.raises(FedCoPLError, match="the lines of method=A have several values of depth; name one"):
        verdict_of(mixed, rule="difference", own="method=A", other="method=B")
    told_apart = ROWS.assign(key=[f"run {place // 2}" for place in range(len(ROWS))])  # of a line of its own each
    same = {"rule": "difference", "own": "method=A", "other": "method=B", "columns": "depth=2"}
    assert verdict_of(told_apart, **same)["difference"] == verdict_of(**same)["difference"]
    with pytest.raises(FedCoPLError, match="a line of the numbers has no seed"):
        TidyRows(ROWS.astype({"seed": float}).assign(seed=[float("nan"), *ROWS["seed"][1:]]))


def test_numbers_beside_words_are_found_and_words_are_levels():
    mixed = ROWS.assign(split=[["0.1", "iid"][depth == 2] for depth in ROWS["depth"]]).drop(columns="depth")
    judged = verdict_of(mixed, rule="every_case", own="method=A,split=0.1", other="method=B, split=0.1")
    assert (judged["verdict"], judged["note"]) == ("holds", NO_WIDTH)
    ones = mixed.replace({"split": {"0.1": "1.0"}})
    same = verdict_of(ones, rule="every_case", own="method=A,split=1", other="method=B, split=1")
    assert same["statistic"] == judged["statistic"]
    levels = verdict_of(mixed, rule="range", own="method=A", levels="split=0.1 iid", margin="0.5")
    assert "Best at 0.1, worst at iid, of 2 values." in levels["note"]


def test_numbers_in_a_column_of_any_kind_are_read_infinity_is_none_and_times_are_refused():
    asked = {"rule": "difference", "own": "method=A", "other": "method=B", "columns": "depth=2"}
    plain = verdict_of(ROWS, **asked)
    objects = ROWS.astype({"value": object})
    assert verdict_of(objects, **asked).equals(plain)
    endless = objects.assign(value=objects["value"].where(ROWS["seed"] > 0, float("inf")))
    judged = verdict_of(endless, **asked)
    assert judged["n_seeds"] == plain["n_seeds"] - 1
    for kind in ("Float64", "string"):
        numbers = ROWS.astype({"value": kind}).assign(value=lambda rows: rows["value"].where(ROWS["seed"] > 0))
        read = verdict_of(numbers, **asked)
        assert read["n_seeds"] == judged["n_seeds"]
    with pytest.raises(FedCoPLError, match=r"accuracy=Timedelta.* is no number"):
        TidyRows(ROWS.assign(value=pd.to_timedelta(ROWS["value"], unit="s")))
    assert verdict_of(ROWS.assign(seed=ROWS["seed"].map({0: 0, 1: 1, 2: "two"})), **asked).equals(plain)


def test_tables_without_their_columns_are_refused():
    with pytest.raises(FedCoPLError, match="accuracy='high' at seed 0 is no number"):
        TidyRows(ROWS.astype({"value": object}).assign(value=["high", *ROWS["value"][1:]]))
    with pytest.raises(FedCoPLError, match="the claims lack the columns number, rule"):
        judge(pd.DataFrame({"claim": ["a"], "read": ["accuracy"]}), TidyRows(ROWS))
    with pytest.raises(FedCoPLError, match="the numbers lack the columns seed"):
        TidyRows(ROWS.drop(columns="seed"))
