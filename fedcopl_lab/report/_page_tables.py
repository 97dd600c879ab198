"""The tables of the report page: measured ones, printed ones that say what of them was run, and the first screen."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item, backbone, printed
from fedcopl_lab.report._compare import leads
from fedcopl_lab.report._facets import headline
from fedcopl_lab.report._tables import clear_best, lead_over, order_of_rows, same_printed, seeds_text, summary, table
from fedcopl_lab.report._typeset import Grid, typeset
from fedcopl_lab.report._words import lines_of, mean_std, metric_name, order, row_name, setting_of, unit

NOT_RUN = "not run in this profile"
_MEASURED, _PARTLY, _COUNTED = "measured above", "partly measured above", "counted above"
CLEAR = "ahead of every other row beyond noise (95 % interval of the difference paired by seed, without 0)"
_TURNED_FROM = 7  # columns
_SPARSE = 0.6  # share of filled cells below which a table is listed line by line


def measured_table(item: Item, lines: pd.DataFrame, metrics: Sequence[str]) -> Grid | None:
    """All metrics of an item in one table; a header over each metric's columns.

    A single row, or a table with many holes, is listed line by line with one column per metric.
    """
    if not metrics:
        return None
    tables = {metric: table(lines, metric) for metric in metrics}
    names = {metric: metric_name(metric, item) + unit(metric) for metric in metrics}
    rows, columns = order(lines["series"]), order(lines["column"])
    cells = lines[["series", "column"]].drop_duplicates().to_numpy().tolist()
    if len(rows) == 1 or len(cells) < _SPARSE * len(rows) * len(columns):
        listed = [(column if len(rows) == 1 else f"{row}, {column}",
                   [_cell(wide, row, column) for wide in tables.values()]) for row, column in cells]  # fmt: skip
        return Grid(list(names.values()), listed, own=own_rows(item, [row for row, _ in cells]),
                    refs=[[f"{row} / {column}"] * len(tables) for row, column in cells])  # fmt: skip
    places = [(wide, column) for wide in tables.values() for column in wide.columns]
    return Grid(
        [column for _, column in places],
        [(row, [_cell(wide, row, column) for wide, column in places]) for row in rows],
        [(names[metric], len(wide.columns)) for metric, wide in tables.items()],
        own=own_rows(item, rows),
        refs=[[f"{row} / {column}" for _, column in places] for row in rows],
    )


def own_rows(item: Item, names: Sequence[str]) -> frozenset[int]:
    """Which of the rows are the paper's own method."""
    return frozenset(row for row, name in enumerate(names) if item.role(name) == "own")


def _cell(wide: pd.DataFrame, row: str, column: str) -> str:
    return str(wide.loc[row, column]) if row in wide.index and column in wide.columns else "–"


def printed_tables(item: Item, lines: pd.DataFrame) -> list[Grid]:
    """Every number that the paper prints for an item, each column with what of it is among the measured ``lines``."""
    tables = {metric: found for metric in item.metrics
              if metric != "accuracy_last5" and len(found := printed(item.id, metric))}  # fmt: skip
    if item.reads == "manifests" and tables:
        together = pd.concat([found.assign(column=metric_name(metric)) for metric, found in tables.items()])
        columns = order(together["column"])
        return [_grid(together, columns, columns, [], [(_COUNTED, 1)] * len(columns), "counts")]
    return [_printed_table(item, metric, found, lines) for metric, found in tables.items()]


def printed_grid(item: Item, metric: str, lines: pd.DataFrame) -> list[Grid]:
    """What the paper prints of one metric, of what was measured if it has that; empty where it prints nothing."""
    found = same_printed(item, lines, metric)
    if found.empty:
        return []
    grid = _printed_table(item, metric, found, lines)
    return [replace(grid, rows=[(row_name(name), cells) for name, cells in grid.rows])]


def typeset_table(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """A table of one value a cell, typeset: mean ± std; in bold the rows that are clearly the best of their column."""
    texts, best = table(lines, metric := item.metric), clear_best(lines, metric, item)
    rows, columns, ranked = order_of_rows(lines, metric), list(texts.columns), item.drawing == "dots"
    bold = frozenset((row, columns.index(column)) for row, name in enumerate(rows) for place, column in best
                     if place == name and ranked)  # fmt: skip
    marks = f"{metric_name(metric, item)}{unit(metric)}, mean ± std" + ("; bold: " + CLEAR if bold else "")
    cells = [(row_name(row), [str(text) for text in texts.loc[row].to_numpy()]) for row in rows]
    grid = Grid(columns, cells, bold=bold, own=own_rows(item, rows),
                head=headline(item, lines[lines["metric"] == metric], profile, marks))  # fmt: skip
    if len(rows) == 1 or len(columns) > _TURNED_FROM > len(rows):  # a sweep: its levels read downwards
        turned = [(column, [row[1][place] for row in grid.rows]) for place, column in enumerate(columns)]
        grid = replace(grid, columns=[name for name, _ in grid.rows], rows=turned, corner=item.axis, own=frozenset(),
                       bold=frozenset((column, row) for row, column in bold))  # fmt: skip
    return typeset([grid, *printed_grid(item, metric, lines)])


def _printed_table(item: Item, metric: str, found: pd.DataFrame, lines: pd.DataFrame) -> Grid:
    name = "accuracy" if metric.startswith("accuracy") else metric_name(metric)
    what = ", ".join(filter(None, (name + unit(metric), backbone(item.id))))
    run = set(lines.loc[lines["metric"] == metric, ["series", "column"]].itertuples(index=False, name=None))
    found = found.assign(run=[cell in run for cell in zip(found["series"], found["column"], strict=True)])
    if item.drawing == "sweep":  # its columns are the swept levels: turn it round, so that it reads downwards
        found = found.assign(column=found["series"], series=found["column"], setting=found["series"])
        pairs = zip(found["setting"], found["dataset"], strict=True)
        found["setting"] = [text.removeprefix(f"{name}, ") for text, name in pairs]
    columns = found.groupby(["dataset", "column"], sort=False).agg(setting=("setting", "first"), run=("run", "mean"))
    columns = columns.loc[sets := order(found["dataset"])].reset_index()
    columns["state"] = columns["run"].map(lambda share: NOT_RUN if share == 0 else _MEASURED if share == 1 else _PARTLY)
    for place, line in columns[columns["dataset"] == "Average"].iterrows():
        averaged = columns[(columns["setting"] == line["setting"]) & (columns["dataset"] != "Average")]
        columns.loc[place, "state"] = averaged["state"].iloc[0] if averaged["state"].nunique() == 1 else _PARTLY
    groups, status = [], []
    for name in sets:
        own = list(columns.loc[columns["dataset"] == name, "state"])
        groups.append((name, len(own)))
        status += [(own[0], len(own))] if len(set(own)) == 1 else [(state, 1) for state in own]
    return _grid(found, list(columns["column"]), list(columns["setting"]), groups, status, what)


def _grid(
    found: pd.DataFrame, columns: Sequence[str], shown: Sequence[str], groups: Sequence[tuple[str, int]],
    status: Sequence[tuple[str, int]], what: str,
) -> Grid:  # fmt: skip
    found = found.dropna(subset="value")  # printed as "not reached"
    digits = 0 if (found["value"] % 1 == 0).all() else 2
    names, own = order(found["series"]), set(found.loc[found["role"] == "own", "series"])
    text_of = {(line["series"], line["column"]): f"{line['value']:,.{digits}f}" for line in found.to_dict("records")}
    rows = [(name, [text_of.get((name, column), "–") for column in columns]) for name in names]
    return Grid(shown, rows, groups, own=frozenset(row for row, name in enumerate(names) if name in own),
                head=f"Printed in the paper: {what}", printed=True, status=status)  # fmt: skip


def main_table(item: Item, numbers: pd.DataFrame, profile: str) -> dict[str, Any] | None:
    """A main table at its first column: measured, the order of its rows, and the paper's; None where one is missing.

    Places follow differences to the own row at the seeds that both have. Rows that the paper does not print are left
    out; the fully labelled reference of SAGE's table has no place.
    """
    paper = printed(item.id)
    lines = lines_of(item, numbers, profile, (metric := item.metric,))
    lines = lines[lines["series"].isin(paper["series"])]
    first = lines[lines["column"] == (column := lines["column"].iloc[0])]
    cells = summary(first, metric).set_index("series")
    paper = paper[(paper["level"] == first["level"].iloc[0]) & (paper["dataset"] != "Average")]
    paper = paper[same] if (same := paper["column"] == column).any() else paper  # the set that was measured
    common = paper.set_index(["series", "dataset"])["value"].unstack(sort=False).reindex(cells.index).dropna(axis=1)
    ahead = leads(item, lines, profile, metric)
    here = ahead[(ahead["source"] == "measured") & (ahead["column"] == column)]
    there = ahead[(ahead["source"] == "paper") & ahead["column"].isin(paper["column"])]
    if common.empty or here.empty or there.empty:
        return None
    own, other = next(name for name in cells.index if item.role(name) == "own"), here["best_other"].iloc[0]
    paired = {str(name): lead_over(first, column, own, name, metric) for name in cells.index if name != own}
    behind = pd.Series({own: 0.0} | {name: -lead.mean for name, lead in paired.items()})
    lead, places, printed_places = paired[other], _places(item, behind), _places(item, common.mean(axis=1))
    return {
        "item": item, "own": own, "column": column, "sets": list(common.columns), "seeds": seeds_text(lines),
        "metric": metric_name(metric, item) + unit(metric), "dataset": setting_of(item, profile, lines).dataset,
        "rows": [(name, mean_std(*cells.loc[name, ["mean", "std"]]), places.get(name, "–"),
                  f"{common.loc[name].mean():.1f}", printed_places.get(name, "–")) for name in cells.index],
        "same_order": places == printed_places, "gap": lead.mean, "beyond_noise": lead.clear, "n": len(lead.points),
        "interval": "" if np.isnan(lead.low) else f"{lead.low:+.2f} to {lead.high:+.2f}",
        "texts": [mean_std(lead.pair[name].mean(), lead.pair[name].std()) for name in (own, other)],
        "best_other": other, "printed_gaps": (float(there["gap"].min()), float(there["gap"].max())),
    }  # fmt: skip


def _places(item: Item, values: pd.Series) -> dict[str, int]:
    compete = values[[item.role(str(name)) != "reference" for name in values.index]]
    return {str(name): int(rank) for name, rank in compete.dropna().rank(ascending=False, method="min").items()}
