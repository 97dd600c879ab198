"""The report's first screen: for each paper its main table in one sentence, and what of its claims holds."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedcopl_lab.paper import Item, printed
from fedcopl_lab.report._claims import claim_tables
from fedcopl_lab.report._compare import gaps
from fedcopl_lab.report._tables import seeds_text, summary
from fedcopl_lab.report._templates import SYMBOLS
from fedcopl_lab.report._words import PAPERS, UPPER_REFERENCE, is_own, lines_of, mean_std, order, setting_of

_MAIN = {"FedCoPL": "fedcopl_main_table1", "SAGE": "sage_main_table1"}
_WORDS = {"holds": "hold", "does not hold": "do not hold", "within noise": "within noise", "not tested": "not tested"}


def heads(
    items: Sequence[Item], numbers: pd.DataFrame, profile: str, verdicts: pd.DataFrame | None
) -> list[dict[str, Any]]:
    """One card for each paper that has an item here.

    Args:
        items: what the report shows.
        numbers: tidy numbers of all of them.
        profile: whose numbers they are.
        verdicts: on the papers' claims; None leaves them out.
    """
    by_name = {} if verdicts is None else {table["name"]: table for table in claim_tables(verdicts)}
    shown = {item.id for item in items}
    cards = []
    for prefix, name in PAPERS.items():
        if any(item_id.startswith(f"{prefix}_") for item_id in shown):
            main = next((item for item in items if item.id == _MAIN[name]), None)
            cards.append({"name": name, "main": main and main_table(main, numbers, profile),
                          "counts": by_name[name]["counts"] if name in by_name else [],
                          "lists": _lists(by_name[name]) if name in by_name else []})  # fmt: skip
    return cards


def _lists(table: dict[str, Any]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """(verdict, summary, claims) for every verdict that some claim has."""
    lines = [*table["judged"], *table["untested"]]
    found = {verdict: [line for line in lines if line["verdict"] == verdict] for verdict in SYMBOLS}
    return [(verdict, f"{SYMBOLS[verdict]} {len(some)} {_WORDS[verdict]}", some)
            for verdict, some in found.items() if some]  # fmt: skip


def main_table(item: Item, numbers: pd.DataFrame, profile: str) -> dict[str, Any] | None:
    """A main table at its first column: measured, the order of its rows, and the paper's; None where one is missing.

    Rows that the paper does not print are left out; the fully labelled reference of SAGE's table has no place.
    """
    paper = printed(item.id)
    lines = lines_of(item, numbers, ("accuracy",))
    lines = lines[lines["series"].isin(paper["series"])]
    column = order(lines["column"])[0]
    cells = summary(lines).query("column == @column").set_index("series")
    paper = paper[(paper["column"] == column) | paper["column"].str.endswith(f", {column}")]
    paper = paper[~paper["column"].str.startswith("Average")]
    common = paper.pivot(index="series", columns="column", values="value").reindex(cells.index).dropna(axis=1)
    ahead = gaps(item, lines, profile)
    ahead = ahead[ahead["column"].str.endswith(column) & ~ahead["column"].str.contains("Average")]
    here, there = (ahead[ahead["source"] == source] for source in ("measured", "paper"))
    if common.empty or here.empty or there.empty:
        return None
    places, printed_places = (_places(values) for values in (cells["mean"], common.mean(axis=1)))
    own, other = next(name for name in cells.index if is_own(name)), here["best_other"].iloc[0]
    texts = {name: mean_std(cell["mean"], cell["std"])
             for name, cell in zip(cells.index, cells.to_dict("records"), strict=True)}  # fmt: skip
    return {
        "item": item,
        "own": own,
        "column": column,
        "dataset": setting_of(item, profile, lines).dataset,
        "seeds": seeds_text(lines),
        "rows": [(name, texts[name], places.get(name, "–"), f"{common.loc[name].mean():.1f}",
                  printed_places.get(name, "–")) for name in order(cells.index)],
        "same_order": places == printed_places,
        "sets": [name.split(", ")[0] for name in common.columns],
        "gap": float(here["gap"].iloc[0]),
        "texts": (texts[own], texts[other]),
        "best_other": other,
        "printed_gaps": (float(there["gap"].min()), float(there["gap"].max())),
    }  # fmt: skip


def _places(values: pd.Series) -> dict[str, int]:
    ranks = values.drop(UPPER_REFERENCE, errors="ignore").rank(ascending=False, method="min").astype(int)
    return {str(name): int(rank) for name, rank in ranks.items()}
