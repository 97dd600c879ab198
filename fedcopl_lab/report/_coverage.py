"""What of a profile's runs is committed, item by item, and what was not run."""

from collections.abc import Mapping, Set
from typing import Any

import pandas as pd

from fedcopl_lab.paper import ITEMS, Item, keys_by_cell, measured_runs
from fedcopl_lab.report._templates import render
from fedcopl_lab.report._words import paper_of


def coverage(profile: str = "mini") -> pd.DataFrame:
    """How much of every item has been run in a profile and is committed, and the cells that were not run.

    Args:
        profile: whose committed runs.

    Returns:
        One row per item that takes runs of the profile, indexed by its id; the last one, ``all``, counts a run that
        items share once. Columns shows (paper, place and title), runs (that its cells ask for, at all seeds),
        committed (how many of them are there), not_run (the cells of which a run is missing, in words; empty when
        there are none).

    Raises:
        FedCoPLError: nothing was measured in that profile.

    >>> coverage("mini").loc["fedcopl_main_table3", ["runs", "committed"]]

    Shown in the README.
    """
    known = set(measured_runs(profile)["key"])
    wanted = set[str]()
    rows = []
    for item in ITEMS:
        keys_of = keys_by_cell(item, profile)
        keys = {key for of_cell in keys_of.values() for key in of_cell}
        wanted |= keys
        if keys:
            place = f"{paper_of(item)}, {item.source}: {item.title}"
            rows.append(_row(item.id, place, keys, known) | {"not_run": _in_words(item, keys_of, known)})
    rows.append(_row("all", "All items, each run once", wanted, known) | {"not_run": ""})
    return pd.DataFrame(rows).set_index("item")


def _row(name: str, shows: str, keys: Set[str], known: Set[str]) -> dict[str, Any]:
    return {"item": name, "shows": shows, "runs": len(keys), "committed": len(keys & known)}


def _in_words(item: Item, keys_of: Mapping[tuple[str, str], Set[str]], known: Set[str]) -> str:
    """The cells of which a run is missing: whole columns by name, columns with the same missing rows together."""
    sign = item.axis.split(",")[0]  # of a sweep, such as τ1; longer names of axes say more than a list can bear
    name_of = (lambda column: f"{sign} = {column}") if item.field and " " not in sign else str
    whole, partly = list[str](), dict[tuple[str, ...], list[str]]()
    columns = dict[str, dict[str, Set[str]]]()
    for (series, column), keys in keys_of.items():
        columns.setdefault(column, {})[series] = keys
    for column, rows in columns.items():
        left = tuple(series for series, keys in rows.items() if not keys <= known)
        if len(left) == len(rows):
            whole.append(name_of(column))
        elif left:
            partly.setdefault(left, []).append(name_of(column))
    if len(whole) == len(columns):
        return "all"
    texts = [f"{'; '.join(names)}: {'; '.join(left)}" if len(columns) > 1 else "; ".join(left)
             for left, names in partly.items()]  # fmt: skip
    return ". ".join([*texts, *(["All of " + "; ".join(whole)] if whole else [])])


def coverage_markdown(profile: str = "mini") -> str:
    """The table as Markdown, for the README.

    >>> coverage_markdown("mini").splitlines()[0]
    '| item | runs | not run |'
    """
    lines = ["| item | runs | not run |", "|---|---|---|"]
    for row in coverage(profile).to_dict("records"):
        lines.append(f"| {row['shows']} | {row['committed']:,} of {row['runs']:,} | {row['not_run'] or '–'} |")
    return "\n".join(lines)


def coverage_section(profile: str) -> str:
    """The report's section on what was run in a profile and what was not, as HTML; empty when all was run.

    >>> "what was not" in coverage_section("mini")
    True
    """
    table = coverage(profile)
    if not table["not_run"].any():
        return ""
    return render("coverage.html.j2", profile=profile, rows=table.to_dict("records"))
