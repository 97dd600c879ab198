"""What of every item's runs is committed in a profile, and what is not run."""

from collections.abc import Mapping, Set

import pandas as pd

from fedcopl_lab.paper import ITEMS, Item, keys_by_cell, measured_runs
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

    >>> coverage("smoke").loc["all", "not_run"]
    ''

    Shown in the report.
    """
    known = set(measured_runs(profile)["key"])
    wanted = set[str]()
    rows = []
    for item in ITEMS:
        keys_of = keys_by_cell(item, profile)
        keys = set[str]().union(*keys_of.values())
        wanted |= keys
        if keys:
            place = f"{paper_of(item)}, {item.source}: {item.title}"
            rows.append((item.id, place, len(keys), len(keys & known), _missing_cells(item, keys_of, known)))
    rows.append(("all", "All items, each run once", len(wanted), len(wanted & known), ""))
    return pd.DataFrame(rows, columns=["item", "shows", "runs", "committed", "not_run"]).set_index("item")


def _missing_cells(item: Item, keys_of: Mapping[tuple[str, str], Set[str]], known: Set[str]) -> str:
    """The cells of which a run is missing: whole columns by name, columns with the same missing rows together."""
    sign = item.axis.split(",")[0]  # of a sweep, such as τ1; longer names of axes say more than a list can bear
    columns = dict[str, dict[str, Set[str]]]()
    for (series, column), keys in keys_of.items():
        name = f"{sign} = {column}" if item.field and " " not in sign else column
        columns.setdefault(name, {})[series] = keys
    whole, partly = list[str](), dict[tuple[str, ...], list[str]]()
    for column, rows in columns.items():
        left = tuple(series for series, keys in rows.items() if not keys <= known)
        if len(left) == len(rows):
            whole.append(column)
        elif left:
            partly.setdefault(left, []).append(column)
    if len(whole) == len(columns):
        return "all"
    texts = [("; ".join(names) + ": " if len(columns) > 1 else "") + "; ".join(left) for left, names in partly.items()]
    return ". ".join([*texts, *(["All of " + "; ".join(whole)] if whole else [])])
