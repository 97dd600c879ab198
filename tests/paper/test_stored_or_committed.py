"""Numbers computed here stand in the place of the committed ones, and the rest stays; runs that settle claims."""

import dataclasses

import pandas as pd
import pytest

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.paper import (
    TIDY_COLUMNS,
    VALUE_COLUMNS,
    VERDICT_COLUMNS,
    _stored_or_committed,
    find_items,
    judged_here,
    runs_to_settle,
    stored_or_committed,
    unsettled,
    with_settings,
)
from fedcopl_lab.store import Store

TABLE = find_items(["main Table 1"])[0]
RUNS = TABLE.runs("smoke")
PAIRS = {1: RUNS[:1], 2: RUNS[1:4], 3: RUNS[1:6]}  # claim -> the runs behind it


@pytest.fixture
def committed(monkeypatch):
    """As if these numbers and verdicts were committed: one accuracy for each run of the table."""
    lines = [
        {"item": TABLE.id, "series": cell.series, "column": cell.column, "metric": "accuracy", "x": config.rounds,
         "y": None, "seed": config.seed, "value": 0.5, "key": key_of(config)}
        for cell, config in RUNS
    ]  # fmt: skip
    numbers = _stored_or_committed.in_file_order(with_settings(pd.DataFrame(lines, columns=VALUE_COLUMNS), "smoke"))
    claims = pd.DataFrame(
        [
            {"number": number, "claim": "A beats B", "verdict": "holds", "statistic": "as committed", "n_seeds": 3,
             "cells": 1, "runs": " ".join(key_of(config) for _, config in runs)}
            for number, runs in PAIRS.items()
        ],
        columns=VERDICT_COLUMNS,
    )  # fmt: skip
    monkeypatch.setattr(_stored_or_committed, "measured", lambda profile, item: numbers)
    monkeypatch.setattr(_stored_or_committed, "measured_claims", lambda profile: claims)
    return numbers, claims


def test_without_a_stored_run_the_committed_numbers_come_in_their_own_order(committed):
    numbers = stored_or_committed(TABLE)
    assert set(numbers.pop("origin")) == {"committed"}
    pd.testing.assert_frame_equal(numbers, committed[0][TIDY_COLUMNS], check_exact=True)


def test_a_stored_run_takes_the_place_of_its_own_lines_alone(committed):
    run = lab.run(lab.configure("smoke", method="zero-shot", beta=0.1, seed=0), progress=False)
    numbers = stored_or_committed(TABLE)
    here = numbers["origin"] == "computed here"
    assert set(numbers[here]["key"]) == {run.key}
    line = numbers[here & (numbers["metric"] == "accuracy")]
    assert line["value"].tolist() == [run.result["accuracy"]]
    assert (~here).sum() == len(committed[0]) - 1
    assert not numbers.duplicated(["series", "column", "metric", "x", "y", "seed"]).any()


def test_runs_with_other_settings_are_not_mixed_with_committed_ones_without_them(committed):
    lab.run(lab.configure("smoke", method="FedCoPL", beta=0.1, seed=0, rounds=1), progress=False)
    numbers = stored_or_committed(TABLE, rounds=1)
    untrained = numbers["series"].isin({cell.series for cell, config in RUNS if not config.rounds})
    assert set(numbers[untrained]["origin"]) == {"committed"}  # it has no rounds to change
    assert set(numbers[~untrained]["origin"]) == {"computed here"}
    assert stored_or_committed(TABLE, lr=1e-6).empty
    on_card = stored_or_committed(TABLE, machine=lambda config: dataclasses.replace(config, device="cuda"))
    assert set(on_card["origin"]) == {"committed"}


def test_committed_numbers_of_other_settings_are_not_shown(committed, monkeypatch):
    monkeypatch.setattr(
        _stored_or_committed, "keys_by_cell", lambda item, profile, cards, **changes: {("FedCoPL", "β = 0.1"): {"new"}}
    )
    assert stored_or_committed(TABLE).empty


def test_a_verdict_is_this_machines_when_it_has_all_the_runs_of_the_committed_one(committed):
    fresh = committed[1].assign(statistic=["on all runs", "on too few runs", "not tested"])
    fresh.loc[1, "runs"] = fresh.loc[1, "runs"].split()[0]
    fresh.loc[2, "verdict"] = "not tested"
    judged = judged_here(fresh, "smoke")
    assert judged["statistic"].tolist() == ["on all runs", "as committed", "as committed"]
    assert judged["origin"].tolist() == ["computed here", "committed", "committed"]


def test_the_cheapest_claim_is_settled_first_and_no_run_comes_twice(committed, store):
    assert {number: len(runs) for number, runs in unsettled("smoke", store).items()} == {1: 1, 2: 3, 3: 5}
    order = [key_of(config) for config in runs_to_settle("smoke", store, lambda config: 1.0)]
    keys = [{key_of(config) for _, config in runs} for runs in PAIRS.values()]
    assert [set(order[:1]), set(order[1:4]), set(order[4:])] == [keys[0], keys[1], keys[2] - keys[1]]
    assert len(order) == 6


def test_seconds_are_those_of_the_committed_run_else_of_its_method(monkeypatch):
    config = RUNS[0][1]
    timed = pd.DataFrame(
        {"key": [key_of(config), "other"], "method": config.method, "dataset": config.dataset, "seconds": [2.0, 4.0]}
    )
    monkeypatch.setattr(_stored_or_committed, "measured_runs", lambda profile: timed)
    seconds = _stored_or_committed.committed_seconds("smoke")
    assert seconds(config) == 2.0
    assert seconds(dataclasses.replace(config, seed=10_000)) == 3.0
    assert pd.isna(seconds(dataclasses.replace(config, dataset="digits:240")))


def test_a_profile_without_committed_numbers_has_what_is_stored_and_no_more(store):
    assert stored_or_committed(TABLE, "paper", store=Store(store.root)).empty
    assert unsettled("paper", store) == {}
