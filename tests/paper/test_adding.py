"""Adding what is stored here to what is committed from other machines."""

import pandas as pd

from fedcopl_lab.paper import VALUE_COLUMNS, add_claims, add_numbers

COLUMN = "CIFAR-10, 30 %"


def line(series, key, value, seed=0, metric="accuracy", item="table"):
    return dict(zip(VALUE_COLUMNS, (item, series, COLUMN, metric, 1, None, seed, value, key), strict=True))


def numbers(*lines):
    return pd.DataFrame(lines, columns=VALUE_COLUMNS)


def asked_for(**keys):
    return {("table", series, COLUMN): of_cell for series, of_cell in keys.items()}


def test_a_committed_cell_stays_a_missing_one_comes_in_and_one_with_more_seeds_takes_its_place():
    committed = numbers(line("A", "a0", 0.5), line("A", "a1", 0.6, seed=1))
    fresh = numbers(line("A", "a0", 0.51), line("A", "a1", 0.61, seed=1), line("B", "b0", 0.7))
    for before, values in ((committed, [0.5, 0.6, 0.7]), (committed[:1], [0.51, 0.61, 0.7])):
        assert add_numbers(before, fresh, asked_for(A={"a0", "a1"}, B={"b0"}))["value"].tolist() == values


def test_a_metric_that_an_item_takes_now_comes_in_and_a_cell_that_lacks_one_stays():
    committed = numbers(line("A", "a0", 0.5), line("B", "b0", 0.7), line("B", "b0", 0.2, metric="drift_text"))
    fresh = numbers(line("A", "a0", 0.51), line("A", "a0", 0.3, metric="drift_text"), line("B", "b0", 0.71))
    assert set(add_numbers(committed, fresh, asked_for(A={"a0"}, B={"b0"}))["value"]) == {0.51, 0.3, 0.7, 0.2}


def test_a_cell_of_which_one_run_is_no_longer_asked_for_goes_whole():
    committed = numbers(line("A", "a0", 0.5), line("A", "old", 0.6, seed=1), line("B", "b0", 0.7))
    wanted = asked_for(A={"a0", "a1"}, B={"b0"})
    assert add_numbers(committed, numbers(), wanted)["key"].tolist() == ["b0"]
    fresh = numbers(line("A", "a0", 0.51), line("A", "a1", 0.61, seed=1))
    assert set(add_numbers(committed, fresh, wanted)["value"]) == {0.7, 0.51, 0.61}


def test_a_run_of_here_is_measured_against_the_reference_of_elsewhere():
    committed = numbers(line("FixMatch-LPL", "l", 12.0, metric="rounds_needed"))
    fresh = numbers(line("SAGE", "s", 4.0, metric="rounds_needed"))
    both = add_numbers(committed, fresh, asked_for(**{"FixMatch-LPL": {"l"}, "SAGE": {"s"}}))
    speed_up = both[both["metric"] == "speed_up"].set_index("series")["value"].to_dict()
    assert speed_up == {"FixMatch-LPL": 1.0, "SAGE": 3.0}
    again = add_numbers(both, numbers(), asked_for(**{"FixMatch-LPL": {"l"}, "SAGE": {"s"}}))
    assert len(again) == len(both), "no speed-up twice"


def verdict(runs, difference, text="a claim"):
    return {"number": 7, "claim": text, "verdict": "holds", "difference": difference, "runs": runs, "cells": difference}


def of_both(committed, fresh):
    tables = [pd.DataFrame([{"statistic": place} | line]) for place, line in enumerate((committed, fresh))]
    return add_claims(*tables, {"a", "b", "c"})["difference"].item()


def test_a_verdict_changes_only_where_more_runs_speak_and_none_is_missing():
    assert of_both(verdict("a b", 1.0), verdict("a b c", 2.0)) == 2.0
    assert of_both(verdict("", 1.0), verdict("a", 2.0)) == 2.0, "not tested before"
    assert [of_both(verdict("", one), verdict("", 2.0)) for one in (1.0, 3.0)] == [2.0, 3.0], "today's note, or numbers"
    assert of_both(verdict("a b", 1.0), verdict("a b", 2.0)) == 1.0, "its numbers are those that are committed"
    assert of_both(verdict("a b", 1.0), verdict("a b", 2.0) | {"statistic": 0}) == 2.0, "the same number, a later note"
    assert [of_both(verdict("a b", 1.0), verdict(runs, 2.0)) for runs in ("b c d", "")] == [1.0, 1.0], "not all here"
    assert of_both(verdict("a b", 1.0, "an older claim"), verdict("a", 2.0)) == 2.0
    assert of_both(verdict("a old", 1.0), verdict("a b", 2.0)) == 2.0, "nothing asks for old any more"
