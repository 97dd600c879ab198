"""What of an item's runs is committed, against the items' own lists of runs."""

import pandas as pd
import pytest

from fedcopl_lab._identity import key_of
from fedcopl_lab.paper import ITEMS, find_items, measured_profiles, measured_runs
from fedcopl_lab.report import _coverage, coverage
from fedcopl_lab.report._page import render

MINI = sorted(measured_runs("mini")["key"])


@pytest.fixture
def committed(monkeypatch):
    """Makes as if just these runs were committed."""

    def these(keys: list[str]) -> None:
        monkeypatch.setattr(_coverage, "measured_runs", lambda profile: pd.DataFrame({"key": keys}))

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


def test_the_section_escapes_and_lists_every_line(committed) -> None:
    committed(MINI[:3])
    page = render("coverage.html.j2", name="mini", rows=coverage("mini").to_dict("records"))
    assert page.count("<tr><th") == len(coverage("mini")) + 1
    assert 'id="run-in-mini"' in page
