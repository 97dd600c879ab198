"""The README's generated tables: counts against the items' own lists of runs, and what they print is committed."""

import pandas as pd
import pytest

from fedcopl_lab._identity import key_of
from fedcopl_lab.paper import ITEMS, find_items, measured_claims, measured_profiles, measured_runs, printed
from fedcopl_lab.report import (
    _overview,
    beside,
    beside_markdown,
    claims_markdown,
    coverage,
    coverage_markdown,
    readable,
)
from fedcopl_lab.report._page import render

MINI = sorted(measured_runs("mini")["key"])


@pytest.fixture
def committed(monkeypatch):
    """Makes as if just these runs were committed."""

    def these(keys: list[str]) -> None:
        monkeypatch.setattr(_overview, "measured_runs", lambda profile: pd.DataFrame({"key": keys}))

    return these


@pytest.mark.parametrize("profile", measured_profiles())
def test_counts_are_those_of_the_items_runs(profile, committed) -> None:
    known, table, every = set(measured_runs(profile)["key"]), coverage(profile), set()
    for item in ITEMS:
        runs = [(cell, key_of(config)) for cell, config in item.runs(profile)] if item.reads != "nothing" else []
        if not runs:
            assert item.id not in table.index
            continue
        keys = {key for _, key in runs}
        cells = {(cell.series, cell.column) for cell, _ in runs}
        missing = {(cell.series, cell.column) for cell, key in runs if key not in known}
        row = table.loc[item.id]
        assert (row["runs"], row["committed"]) == (len(keys), len(keys & known))
        assert (row["not_run"] == "") == (not missing)
        assert (row["not_run"] == "all") == (missing == cells)
        every |= keys
    assert (table.loc["all", "runs"], table.loc["all", "committed"]) == (len(every), len(every & known))


def test_all_of_smoke_was_run_and_needs_no_section() -> None:
    assert not coverage("smoke")["not_run"].any()


@pytest.mark.parametrize("name", ["fedcopl_main_table1", "fedcopl_ours_surface", "sage_main_table1"])
def test_a_cell_with_one_missing_seed_is_named_alone(name, committed) -> None:
    [item] = find_items([name])
    runs = item.runs("mini")
    cell, missing = runs[len(runs) // 2]
    committed([key_of(config) for _, config in runs if config != missing])
    words = coverage("mini").loc[name, "not_run"]
    assert words.endswith(f"{cell.column}: {cell.series}")
    assert words.count(";") == 0


def test_a_missing_column_is_named_whole(committed) -> None:
    [item] = find_items(["fedcopl_main_table1"])
    committed([key_of(config) for cell, config in item.runs("mini") if cell.column != "CIFAR-10, β = 0.1"])
    assert coverage("mini").loc[item.id, "not_run"] == "All of CIFAR-10, β = 0.1"


def test_every_item_has_a_line_and_the_sum_is_last() -> None:
    table, (_, _, *lines) = coverage("mini"), coverage_markdown("mini").splitlines()
    assert len(lines) == len(table)
    assert lines[-1].startswith(f"| All items, each run once | {len(MINI)} of ")
    for line, row in zip(lines, table.to_dict("records"), strict=True):
        assert line == f"| {row['shows']} | {row['committed']:,} of {row['runs']:,} | {row['not_run'] or '–'} |"


def test_the_section_escapes_and_lists_every_line(committed) -> None:
    committed(MINI[:3])
    page = render("coverage.html.j2", name="mini", rows=coverage("mini").to_dict("records"))
    assert page.count("<tr><th") == len(coverage("mini")) + 1
    assert 'id="run-in-mini"' in page


def test_printed_and_measured_stand_in_pairs(made_up, monkeypatch) -> None:
    numbers = made_up("fedcopl_main_table1", profile="mini")
    monkeypatch.setattr(_overview, "measured", lambda profile: numbers)
    head, _, *rows = beside_markdown("fedcopl_main_table1", "mini").splitlines()
    assert head.startswith("| | CIFAR-10, β = 0.1: paper | mini | CIFAR-10, β = 0.05: paper | mini |")
    assert "DTD" not in head
    cells = {row.split(" | ")[0].removeprefix("| "): row.removesuffix(" |").split(" | ")[1:] for row in rows}
    wide = readable(beside("fedcopl_main_table1", numbers, "mini"))
    theirs = printed("fedcopl_main_table1").query("series == 'FedCoPL' and column == 'CIFAR-10, β = 0.1'")["value"]
    ours = wide.loc["FedCoPL"].filter(like="mini").filter(like="CIFAR-10, β = 0.1")
    assert cells["FedCoPL"][:2] == [f"{theirs.item():.1f}", ours.iloc[0]]
    assert cells["Prompted, before training"][0] == "–"
    assert "Zero-shot CLIP" not in cells


def test_a_column_without_a_row_of_both_stays_out(made_up, monkeypatch) -> None:
    numbers = made_up("fedcopl_main_table1", profile="mini")
    start_only = (numbers["column"] != "CIFAR-10, β = 0.05") | (numbers["series"] == "Prompted, before training")
    monkeypatch.setattr(_overview, "measured", lambda profile: numbers[start_only])
    head, *_ = beside_markdown("fedcopl_main_table1", "mini").splitlines()
    assert "CIFAR-10, β = 0.1" in head
    assert "β = 0.05" not in head.split("CIFAR-100")[0]


def test_every_settled_claim_has_a_line() -> None:
    settled = measured_claims("smoke").query("verdict != 'not tested'")
    _, _, *rows = claims_markdown("smoke").splitlines()
    assert len(rows) == len(settled)
    for row, line in zip(rows, settled.to_dict("records"), strict=True):
        assert row.startswith(f"| {line['number']}. {line['claim']} (")
        assert f"{line['verdict']} | {line['statistic']}; {line['n_seeds']} seeds |" in row
