"""Tables for the README and the report: all items, what of their runs is committed, one item beside the paper."""

from collections.abc import Mapping, Set
from typing import Any

import pandas as pd

from fedcopl_lab.paper import ITEMS, Item, keys_by_cell, measured, measured_claims, measured_runs
from fedcopl_lab.report._claims import SYMBOLS
from fedcopl_lab.report._compare import beside, number_text
from fedcopl_lab.report._words import item_of, markdown, paper_of


def items_markdown(profile: str = "smoke") -> str:
    """Every table and figure that can be made, as Markdown for the README.

    Args:
        profile: whose committed runs and verdicts.

    Returns:
        One line per item: where it is in its paper, what it shows, its notebook, its runs and their minutes (of one
        process, for all seeds; runs that items share count for each), and its claims' verdicts as signs and numbers.

    Raises:
        FedCoPLError: nothing was measured in that profile.

    >>> items_markdown().splitlines()[0]
    '| item | shows | notebook | runs, minutes | claims |'
    """
    runs = measured_runs(profile).set_index("key")
    verdict_of = measured_claims(profile).set_index("number")["verdict"]
    keys = measured(profile).dropna(subset="key").groupby("item")["key"].unique()
    rows = []
    for item in ITEMS:
        own = runs.loc[[key for key in keys.get(item.id, ()) if key]]
        found = verdict_of.reindex(list(item.claims)).value_counts()
        rows.append(
            (
                f"{paper_of(item)}, {item.source} (`{item.id}`)",
                item.title,
                f"[{item.notebook}](notebooks/{item.notebook}.ipynb)",
                f"{len(own)}, {own['seconds'].sum() / 60:.1f}" if len(own) else "none",
                " ".join(f"{sign} {found[verdict]}" for verdict, sign in SYMBOLS.items() if verdict in found),
            )
        )
    return markdown(("item", "shows", "notebook", "runs, minutes", "claims"), rows)


def beside_markdown(item: Item | str, profile: str) -> str:
    """An item's committed numbers beside the printed ones as Markdown, in the columns of which both have a row.

    >>> print(beside_markdown("fedcopl_main_table1", "mini"))
    | | CIFAR-10, β = 0.1: paper | mini |...
    """
    wide = beside(item_of(item), measured(profile), profile).droplevel(["profile", "dataset"], axis=1)
    values: dict[Any, pd.Series] = dict(wide.items())
    printed = {column: values["paper", column, "mean"] for column in wide.xs("paper", axis=1).columns.unique("column")}
    ours = {column: values["measured", column, "mean"] for column in printed if ("measured", column, "mean") in values}
    columns = [column for column, mean in ours.items() if (mean.notna() & printed[column].notna()).any()]
    rows = []
    for row in wide.index:
        texts = []
        for column in columns:
            mean, std = (values["measured", column, of][row] for of in ("mean", "std"))
            texts += [number_text(printed[column][row]), number_text(mean, std)]
        if set(texts[1::2]) != {"–"}:  # a row that was measured
            rows.append([row, *texts])
    return markdown(["", *(name for column in columns for name in (f"{column}: paper", profile))], rows)


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

    Shown in the README.
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


def coverage_markdown(profile: str = "mini") -> str:
    """The table as Markdown, for the README.

    >>> coverage_markdown("mini").splitlines()[0]
    '| item | runs | not run |'
    """
    rows = [(row["shows"], f"{row['committed']:,} of {row['runs']:,}", row["not_run"] or "–")
            for row in coverage(profile).to_dict("records")]  # fmt: skip
    return markdown(("item", "runs", "not run"), rows)
