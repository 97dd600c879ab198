"""From stored runs to the table of verdicts: what is found, what is missing, what is committed."""

import math
import sys

import pandas as pd
import pytest
from made_up_runs import jitter, rounds

from fedcopl_lab import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.paper import (
    ITEMS,
    VERDICT_COLUMNS,
    judged_claims,
    measured,
    measured_claims,
    same_verdicts,
    verdicts,
    write_claims,
)
from fedcopl_lab.paper._evidence import NotTestedError
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.statistics._readers import accuracy
from fedcopl_lab.store import Store


def everywhere(config):
    """FedCoPL is ahead of everything by five points; runs with other levels or clients are not stored."""
    if not isinstance(config, PromptConfig):
        return None
    if (config.q_conf, config.q_ent, config.n_clients, config.participation) != (0.5, 0.5, 5, 1.0):
        return None
    return rounds([60.0, 65.0, 70.0 + 5 * (config.method == "FedCoPL") + jitter(config)])


def test_the_table_has_every_claim_once_with_all_it_needs() -> None:
    table = judged_claims()
    assert table["number"].tolist() == list(range(1, 84))
    assert (table["paper"] == ["fedcopl"] * 45 + ["sage"] * 38).all()
    for column in ("source", "claim", "claimed"):
        assert (table[column].str.len() > 1).all(), column
    assert table["claim"].str.len().max() <= 90, "claims are read in a table"
    assert table["claim"].is_unique
    assert table.loc[table["margin"].notna(), "number"].tolist() == [11, 14, 39, 40, 41, 42, 55, 75, 81]
    assert (table["margin"].dropna() > 0).all()
    with pytest.raises(FedCoPLError, match="there is no claim 0, 84; expected 1 to 83"):
        verdicts("smoke", numbers=[0, 12, 84])
    with pytest.raises(FedCoPLError, match="unknown paper 'fedcop'; did you mean 'fedcopl'"):
        judged_claims("fedcop")


def test_every_claim_is_about_some_item_of_its_paper() -> None:
    paper_of = judged_claims().set_index("number")["paper"].to_dict()
    assert {number for item in ITEMS for number in item.claims} == set(paper_of)
    for item in ITEMS:
        assert list(item.claims) == sorted(set(item.claims))
        assert {paper_of[number] for number in item.claims} <= {item.id.split("_")[0]}
    assert any(not item.claims for item in ITEMS)


def test_an_empty_store_tests_nothing_and_says_why(tmp_path) -> None:
    table = verdicts("smoke", Store(tmp_path))
    assert list(table.columns) == VERDICT_COLUMNS
    assert (table["verdict"] == "not tested").all()
    assert (table["note"] != "").all()
    assert (table["runs"] == "").all()
    by_number = table.set_index("number")["note"]
    assert by_number[12] == "Needs 3 seeds of FedCoPL (beta=0.1) and zero-shot (beta=0.1); 0 stored."
    assert by_number[16] == "About CUB, which profile smoke does not have."
    assert by_number[46] == "Needs 3 seeds of SAGE (alpha=1.0); 0 stored."


def test_judged_claims_say_interval_seeds_cells_and_runs(evidence_of) -> None:
    runs = evidence_of(everywhere)
    line = verdicts("smoke", runs.store, numbers=[12], machine=lambda config: config).iloc[0]
    assert line["verdict"] == "holds"
    assert line["statistic"].startswith("+5.0 points [")
    assert line["statistic"].endswith(", 2 of 2 cells")
    assert (line["n_seeds"], line["cells"], line["k_of_m"]) == (5, 2, 2)
    assert line["low"] <= line["difference"] <= line["high"]
    assert len(line["runs"].split()) == 5 * 2 * 10  # seeds, columns, rows
    assert line["note"] == (
        "The label skews of digits stand for the paper's data sets. The interval leaves out the sampling of test "
        "images: these runs stored no result per image."
    )


def test_cells_that_are_not_stored_are_left_out_and_named(evidence_of) -> None:
    runs = evidence_of(lambda c: everywhere(c) if c.beta == 0.1 or c.seed == 0 else None)
    table = verdicts("smoke", runs.store, numbers=[12, 13], machine=lambda config: config).set_index("number")
    assert (table.loc[12, "cells"], len(table.loc[12, "runs"].split())) == (1, 5 * 10)  # seeds, rows
    assert "Omitted, as not stored: β = 0.05." in table.loc[12, "note"]
    assert table.loc[13, "verdict"] == "not tested"


def test_the_best_is_not_judged_while_a_rival_is_missing(evidence_of) -> None:
    runs = evidence_of(lambda c: None if c.method == "pFedPrompt" else everywhere(c))
    line = verdicts("smoke", runs.store, numbers=[12]).iloc[0]
    assert line["verdict"] == "not tested"
    missing = "pFedPrompt (labeller=FPL, beta=0.1)"
    assert line["note"] == f"Needs 3 seeds of FedCoPL (beta=0.1) and {missing}; 0 stored."


@pytest.mark.parametrize(("stored", "verdict"), [((0, 1), "not tested"), ((0, 1, 4), "holds")])
def test_three_stored_seeds_are_enough_and_two_are_not(evidence_of, stored, verdict) -> None:
    runs = evidence_of(lambda c: everywhere(c) if c.seed in stored else None)
    table = verdicts("smoke", runs.store, seeds=range(5), numbers=[13]).set_index("number")
    assert table.loc[13, "verdict"] == verdict


def test_numbers_are_paired_over_seeds(evidence_of) -> None:
    runs = evidence_of(lambda c: rounds([70.0 + 10 * c.seed + (c.method == "FedCoPL")] * 2))
    gap = runs.gap(accuracy, {"method": "FedCoPL"}, {"method": "PromptFL"})()
    assert gap.tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_an_incomplete_run_does_not_count(evidence_of) -> None:
    runs = evidence_of(everywhere)
    runs.values(accuracy)
    for path in runs.store.root.glob("*/result.json"):
        path.unlink()
    fresh = StoredRuns("smoke", runs.store, (0, 1, 2))
    with pytest.raises(NotTestedError, match=r"needs 3 seeds of FedCoPL; 0 stored"):
        fresh.values(accuracy)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda runs: runs.values(accuracy, method="FedSomething"), "unknown method 'FedSomething'"),
        (lambda runs: runs.values(lambda rows: rows[-1]["colour"]), "the stored rows of FedCoPL lack 'colour'"),
        (lambda runs: runs.needs_set("CUB"), "about CUB, which profile smoke does not have"),
    ],
)
def test_what_cannot_be_asked_is_a_reason(evidence_of, ask, message) -> None:
    with pytest.raises(NotTestedError, match=message):
        ask(evidence_of(everywhere))


def test_data_that_is_not_here_is_named_without_a_path() -> None:
    runs = StoredRuns("smoke", Store(), (0, 1, 2))
    with pytest.raises(NotTestedError, match=r"^dtd or tiny is not here$"):
        runs.values(accuracy, dataset="dtd")


def test_committed_verdicts_read_back_as_they_were(evidence_of, tmp_path, monkeypatch) -> None:
    runs = evidence_of(everywhere)
    fresh = verdicts("smoke", runs.store, numbers=[12, 16, 38, 43, 50])
    monkeypatch.setattr(sys.modules["fedcopl_lab.paper._measured"], "measured_folder", lambda: tmp_path)
    path = write_claims(tmp_path, "smoke", fresh)
    assert path.name == "smoke.claims.csv"
    first = path.read_bytes()
    assert write_claims(tmp_path, "smoke", fresh).read_bytes() == first
    pd.testing.assert_frame_equal(measured_claims("smoke"), fresh, check_dtype=False)
    with pytest.raises(FedCoPLError, match="nothing measured in profile 'smoke' is committed"):
        measured("smoke")


def test_fresh_and_committed_verdicts_are_compared_where_both_judged(evidence_of) -> None:
    fresh = verdicts("smoke", evidence_of(everywhere).store, numbers=[12, 13, 14, 16])
    committed = fresh.copy()
    committed.loc[committed["number"] == 12, "verdict"] = "within noise"
    committed.loc[committed["number"] == 13, "verdict"] = "not tested"
    committed.loc[committed["number"] == 14, "n_seeds"] = 3
    both = same_verdicts(fresh, committed).set_index("number")
    assert not both.loc[12, "same"]
    assert (both.loc[12, "fresh"], both.loc[12, "committed"]) == ("holds", "within noise")
    assert both.drop(index=12)["same"].all()
    assert not {13, 14, 16} & set(both.index)
    assert math.isclose(both.loc[12, "difference_fresh"], both.loc[12, "difference_committed"])
