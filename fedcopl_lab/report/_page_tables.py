"""The tables of the report page: measured ones, and printed ones that say what of them was run."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedcopl_lab.paper import Item, backbone, printed
from fedcopl_lab.report._tables import table
from fedcopl_lab.report._words import metric_name, order, unit

NOT_RUN = "not run in this profile"
_MEASURED, _PARTLY, _COUNTED = "measured above", "partly measured above", "counted above"
_SPARSE = 0.6  # share of filled cells below which a table is listed line by line


def measured_table(lines: pd.DataFrame, metrics: Sequence[str]) -> dict[str, Any] | None:
    """All metrics of an item in one table; a header over each metric's columns.

    A single row, or a table with many holes, is listed line by line with one column per metric.

    >>> measured_table(measured("smoke").query("item == 'fedcopl_main_table6'"), ["accuracy"])["groups"]
    [('accuracy, mean over clients (%)', 1)]
    """
    if not metrics:
        return None
    tables, of = {metric: table(lines, metric) for metric in metrics}, str(lines["item"].iloc[0])
    rows, columns = order(lines["series"]), order(lines["column"])
    cells = lines[["series", "column"]].drop_duplicates()
    if len(rows) == 1 or len(cells) < _SPARSE * len(rows) * len(columns):
        named = [(str(row), str(column)) for row, column in cells.to_numpy()]
        return _line_by_line(tables, named, len(rows) == 1, of)
    places = [(metric, column) for metric, wide in tables.items() for column in wide.columns]
    texts = [[_cell(tables[metric], row, column) for metric, column in places] for row in rows]
    return {
        "groups": [(metric_name(metric, of) + unit(metric), len(wide.columns)) for metric, wide in tables.items()],
        "columns": [column for _, column in places],
        "rows": list(zip(rows, texts, strict=True)),
    }


def _line_by_line(
    tables: dict[str, pd.DataFrame], cells: list[tuple[str, str]], one_row: bool, of: str
) -> dict[str, Any]:
    names = [column if one_row else f"{row}, {column}" for row, column in cells]
    texts = [[_cell(wide, row, column) for wide in tables.values()] for row, column in cells]
    columns = [metric_name(metric, of) + unit(metric) for metric in tables]
    return {"groups": [], "columns": columns, "rows": list(zip(names, texts, strict=True))}


def _cell(wide: pd.DataFrame, row: str, column: str) -> str:
    return str(wide.loc[row, column]) if row in wide.index and column in wide.columns else "–"


def printed_tables(item: Item, lines: pd.DataFrame) -> list[dict[str, Any]]:
    """Every number that the paper prints for an item, each column with what of it was run here.

    Args:
        item: the item.
        lines: its measured numbers; a printed column whose rows are among them is "measured above".

    >>> printed_tables(find_items(["fedcopl_main_table2"])[0], lines)[0]["status"][0]
    ('not run in this profile', 1)
    """
    tables = {metric: found for metric in item.metrics if len(found := printed(item.id, metric))}
    if item.reads == "manifests" and tables:
        names = {metric: metric_name(metric) for metric in tables}
        together = pd.concat([found.assign(column=names[metric]) for metric, found in tables.items()])
        columns = list(names.values())
        status = [(_COUNTED, 1)] * len(columns)
        return [_grid(together, columns, columns, [], status) | {"what": "counts"}]
    return [_printed_table(item, metric, found, lines) for metric, found in tables.items()]


def _printed_table(item: Item, metric: str, found: pd.DataFrame, lines: pd.DataFrame) -> dict[str, Any]:
    what = ", ".join(filter(None, (f"{'accuracy' if metric == 'accuracy' else metric_name(metric)}{unit(metric)}",
                                   backbone(item.id))))  # fmt: skip
    run = set(lines.loc[lines["metric"] == metric, ["series", "column"]].itertuples(index=False, name=None))
    if item.drawing == "sweep":  # its columns are the swept levels: turn it round, so that it reads downwards
        found = found.rename(columns={"series": "column", "column": "series"})
        run = {(level, row) for row, level in run}
    sets = order(column.split(", ")[0] for column in found["column"])
    columns = sorted(order(found["column"]), key=lambda column: sets.index(column.split(", ")[0]))
    spans = [sum(column.split(", ")[0] == name for column in columns) for name in sets]
    states = {column: _state(found, column, run) for column in columns}
    for average in (column for column in columns if column.startswith("Average, ")):
        split = average.removeprefix("Average")
        states[average] = _joint(states[column] for column in columns if column.endswith(split) and column != average)
    status, start = [], 0
    for span in spans:
        own = [states[column] for column in columns[start : start + span]]
        status += [(own[0], span)] if len(set(own)) == 1 else [(state, 1) for state in own]
        start += span
    shown = [column.partition(", ")[2] for column in columns]
    return _grid(found, columns, shown, list(zip(sets, spans, strict=True)), status) | {"what": what}


def _grid(
    found: pd.DataFrame,
    columns: Sequence[str],
    shown: Sequence[str],
    groups: Sequence[tuple[str, int]],
    status: Sequence[tuple[str, int]],
) -> dict[str, Any]:
    found = found.dropna(subset="value")  # printed as "not reached"
    digits = 0 if (found["value"] % 1 == 0).all() else 2
    value_of = {(line["series"], line["column"]): f"{line['value']:,.{digits}f}" for line in found.to_dict("records")}
    rows = [(row, [value_of.get((row, column), "–") for column in columns]) for row in order(found["series"])]
    return {"groups": list(groups), "columns": list(shown), "rows": rows, "status": list(status)}


def _state(found: pd.DataFrame, column: str, run: set[tuple[str, str]]) -> str:
    rows = found.loc[found["column"] == column, "series"]
    n_run = sum((row, column) in run for row in rows)
    return NOT_RUN if n_run == 0 else _MEASURED if n_run == len(rows) else _PARTLY


def _joint(states: Any) -> str:
    states = set(states)
    return str(states.pop()) if len(states) == 1 else _PARTLY
