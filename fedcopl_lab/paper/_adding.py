"""Adding runs of one machine to what is committed from others: what is there stays, what is missing comes in."""

from collections.abc import Mapping, Set
from typing import Any

import pandas as pd

from fedcopl_lab.paper._sage_reached import speed_up_lines

_CELL = ["item", "series", "column"]


def add_numbers(
    committed: pd.DataFrame, fresh: pd.DataFrame, asked_for: Mapping[tuple[str, str, str], Set[str]]
) -> pd.DataFrame:
    """The committed cells, and those of the fresh ones that are not among them.

    A cell stays whole, so that its seeds come from where they came from; it goes where one of its runs is no longer
    what the item asks for. How many times faster a run reached an accuracy is reckoned anew over both.

    Args:
        committed: as :func:`fedcopl_lab.paper.measured` gives it.
        fresh: as :func:`fedcopl_lab.paper.collect` gives it, of all items.
        asked_for: (item, series, column) -> the keys of the runs that the cell asks for today.

    >>> numbers = add_numbers(measured("mini"), fresh, asked_for)
    """
    held: dict[tuple[str, str, str], set[str]] = {}
    for item, series, column, key in committed[[*_CELL, "key"]].itertuples(index=False):
        held.setdefault((item, series, column), set()).add(key)
    current = [cell for cell, keys in held.items() if keys <= asked_for.get(cell, set())]
    kept = committed[_cells(committed).isin(current)]
    new = fresh[~_cells(fresh).isin(current)]
    return _with_speed_ups(pd.concat([table for table in (kept, new) if len(table)], ignore_index=True))


def add_claims(committed: pd.DataFrame, fresh: pd.DataFrame) -> pd.DataFrame:
    """The fresh verdicts of claims whose committed one rests on fewer runs, all of them stored here; else that one.

    >>> add_claims(measured_claims("mini"), verdicts("mini"))
    """
    before = committed.set_index("number")
    rows = []
    for row in fresh.to_dict("records"):
        number = row["number"]
        if number in before.index and before.loc[number, "claim"] == row["claim"]:
            old = before.loc[number].to_dict()
            if not _runs(old) < _runs(row):
                row = {"number": number} | old
        rows.append(row)
    return pd.DataFrame(rows, columns=fresh.columns)


def _cells(numbers: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(numbers[_CELL])


def _runs(verdict: Mapping[Any, Any]) -> set[str]:
    return set(str(verdict["runs"]).split())


def _with_speed_ups(numbers: pd.DataFrame) -> pd.DataFrame:
    needed = numbers[numbers["metric"] == "rounds_needed"]
    lines = list[dict[str, Any]]()
    for _, item in needed.groupby("item"):
        lines += speed_up_lines([{str(name): value for name, value in row.items()} for row in item.to_dict("records")])
    rest = numbers[numbers["metric"] != "speed_up"]
    return pd.concat([rest, pd.DataFrame(lines, columns=numbers.columns)]) if lines else rest
