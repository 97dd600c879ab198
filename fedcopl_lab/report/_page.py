"""The report: one HTML file that needs nothing but a browser."""

import base64
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.paper.claims import claims
from fedcopl_lab.paper.items import Item
from fedcopl_lab.paper.measured import measured
from fedcopl_lab.paper.printed import printed
from fedcopl_lab.report._claims import claims_section
from fedcopl_lab.report._compare import against_committed, gaps
from fedcopl_lab.report._plots import draw
from fedcopl_lab.report._save import provenance
from fedcopl_lab.report._style import file_bytes
from fedcopl_lab.report._tables import seeds_text, summary, table
from fedcopl_lab.report._words import Setting, lines_of, mean_std, metric_name, order, paper_of, setting_of

_HEAD = "fedcopl_main_table1"
_FOLDED = ("accuracy_sample_mean", "accuracy_global", "n_selected")  # measures a reader asks for second


def write_report(
    folder: Path | str,
    items: Sequence[Item],
    numbers: pd.DataFrame | Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    profile: str = "smoke",
    verdicts: pd.DataFrame | None = None,
) -> Path:
    """Write ``report.html``: every item with picture, measured numbers, printed numbers and origin.

    The file is self-contained and has no date in it: the same numbers and runs give the same bytes.

    Args:
        folder: where to write; made when missing.
        items: what to show, in this order.
        numbers: tidy numbers of all items, in one frame or by item id.
        runs: the runs behind them, as :func:`fedcopl_lab.paper.run_table` gives them.
        profile: whose numbers they are.
        verdicts: on the papers' claims, as :func:`fedcopl_lab.paper.verdicts` gives them; None leaves them out.

    Returns:
        The file.

    Raises:
        FedCoPLError: no items, numbers without their runs, or a folder that cannot be written.

    >>> write_report("figures", ITEMS, measured("smoke"), measured_runs("smoke"))

    Shown in notebook ``00_quickstart``.
    """
    if not items:
        raise FedCoPLError("there is no item to report; pass at least one, such as find_items()")
    together = numbers if isinstance(numbers, pd.DataFrame) else _together(list(numbers.values()))
    by_paper: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        by_paper.setdefault(paper_of(item), []).append(_entry(item, together, runs, profile))
    page = {
        "profile": profile,
        "setting": next(
            (s for s in (setting_of(item, profile) for item in items) if s.dataset), Setting(profile, "", "", 0)
        ),
        "papers": by_paper,
        "head": _headline(items, together, profile),
        "totals": _totals(items, together, runs),
        "claims": claims_section(verdicts),
        "has_verdicts": verdicts is not None,
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = resources.files("fedcopl_lab.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    path = Path(folder) / "report.html"
    write_atomic(path, environment.from_string(source).render(page))
    return path


def _together(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else frames[0]


def _entry(item: Item, numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, Any]:
    lines = lines_of(item, numbers)
    picture = file_bytes(draw(item, lines, profile), "png", dpi=180)
    there = [metric for metric in item.metrics if metric in set(lines["metric"]) and item.reads != "split"]
    present = [metric for metric in there if metric not in _FOLDED]
    return {
        "item": item,
        "setting": setting_of(item, profile),
        "picture": base64.b64encode(picture).decode(),
        "alt": _alternative(item, lines, present),
        "measured": _measured_table(lines, present),
        "more": _measured_table(lines, [metric for metric in there if metric in _FOLDED]),
        "seeds": seeds_text(lines, present[0]) if present else "",
        "printed": [_printed_table(item, metric) for metric in present if len(printed(item.id, metric))],
        "doubts": _doubts(item),
        "agreement": _agreement(lines, profile),
        "origin": provenance(item, lines, runs, profile),
    }


def _measured_table(lines: pd.DataFrame, metrics: Sequence[str]) -> dict[str, Any] | None:
    """All metrics of an item in one table; a header over each metric's columns."""
    if not metrics:
        return None
    tables = {metric: table(lines, metric) for metric in metrics}
    rows = order(lines["series"])
    columns = [(metric, column) for metric, wide in tables.items() for column in wide.columns]
    if len(rows) == 1:  # columns are the sweep's values: turn it round, so that it reads downwards
        values = order(lines["column"])
        cells = [[tables[metric].iloc[0].get(value, "–") for metric in metrics] for value in values]
        return {
            "groups": [],
            "columns": [metric_name(m) + _unit(m) for m in metrics],
            "rows": list(zip(values, cells, strict=True)),
        }
    groups = [(metric_name(metric) + _unit(metric), len(wide.columns)) for metric, wide in tables.items()]
    cells = [[tables[m][c].get(row, "–") if row in tables[m].index else "–" for m, c in columns] for row in rows]
    return {"groups": groups, "columns": [column for _, column in columns], "rows": list(zip(rows, cells, strict=True))}


def _printed_table(item: Item, metric: str) -> dict[str, Any]:
    found = printed(item.id, metric)
    value_of = {(line["series"], line["column"]): f"{line['value']:.2f}" for line in found.to_dict("records")}
    rows, columns = order(found["series"]), order(found["column"])
    cells = [[value_of.get((row, column), "–") for column in columns] for row in rows]
    sets = order(column.split(", ")[0] for column in columns)
    groups = [(name, sum(column.startswith(f"{name}, ") for column in columns)) for name in sets]
    places = sorted(range(len(columns)), key=lambda place: sets.index(columns[place].split(", ")[0]))
    return {
        "what": metric_name(metric) if metric != "accuracy" else "accuracy",
        "groups": groups,
        "columns": [columns[place].split(", ")[1] for place in places],
        "rows": [(row, [values[place] for place in places]) for row, values in zip(rows, cells, strict=True)],
    }


def _headline(items: Sequence[Item], numbers: pd.DataFrame, profile: str) -> dict[str, Any] | None:
    """Table 1 at its first column: measured, and the order of the rows here and in the paper."""
    item = next((item for item in items if item.id == _HEAD), None)
    if item is None:
        return None
    lines = lines_of(item, numbers, ("accuracy",))
    column = order(lines["column"])[0]
    cells = summary(lines).query("column == @column").set_index("series")
    paper = printed(item.id)
    paper = paper[paper["column"].str.endswith(f", {column}") & ~paper["column"].str.startswith("Average")]
    common = paper.pivot(index="series", columns="column", values="value").reindex(cells.index).dropna(axis=1)
    ranks = cells["mean"].rank(ascending=False, method="min").astype(int)
    printed_ranks = common.mean(axis=1).rank(ascending=False, method="min").astype(int)
    rows = [
        (
            name,
            mean_std(cell["mean"], cell["std"]),
            int(ranks[name]),
            f"{common.loc[name].mean():.1f}",
            int(printed_ranks[name]),
        )
        for name, cell in zip(order(cells.index), cells.to_dict("records"), strict=True)
    ]
    ahead = gaps(item, lines, profile)
    here = ahead[(ahead["source"] == "measured") & ahead["column"].str.endswith(column)]
    there = ahead[
        (ahead["source"] == "paper") & ahead["column"].str.endswith(column) & ~ahead["column"].str.contains("Average")
    ]
    return {
        "column": column,
        "seeds": seeds_text(lines),
        "rows": rows,
        "same_order": bool((ranks == printed_ranks).all()),
        "sets": [name.split(", ")[0] for name in common.columns],
        "gap": None if here.empty else (float(here["gap"].iloc[0]), here["best_other"].iloc[0]),
        "printed_gaps": (float(there["gap"].min()), float(there["gap"].max())),
    }


def _totals(items: Sequence[Item], numbers: pd.DataFrame, runs: pd.DataFrame) -> dict[str, Any]:
    behind = runs[runs["key"].isin(set(numbers["key"]))].drop_duplicates("key")
    return {
        "items": len(items),
        "runs": len(behind),
        "minutes": f"{behind['seconds'].sum() / 60:.1f}",
        "hardware": order(behind["hardware"]),
    }


def _alternative(item: Item, lines: pd.DataFrame, metrics: Sequence[str]) -> str:
    if not metrics:
        return f"{item.title}. {item.question}"
    wide = table(lines, metrics[0])
    values = "; ".join(f"{row}, {column}: {wide.loc[row, column]}" for row in wide.index for column in wide.columns)
    return f"{item.title}: {metric_name(metrics[0])}. {values}."


def _doubts(item: Item) -> list[str]:
    known = set(claims()["item"])
    if item.source not in known:
        return []
    table_of_paper = claims("fedcopl", item.source)
    doubtful = table_of_paper[table_of_paper["flag"] != ""]
    texts: dict[str, list[str]] = {}
    for line in doubtful.to_dict("records"):
        texts.setdefault(line["flag"], []).append(f"{line['dataset']} {line['value']}")
    return [f"{', '.join(cells)}: {flag}" for flag, cells in texts.items()]


def _agreement(lines: pd.DataFrame, profile: str) -> str:
    if lines.empty:
        return ""
    try:
        committed = measured(profile)
    except FedCoPLError:
        return ""
    found = against_committed(lines, committed[committed["item"].isin(set(lines["item"]))])
    counts = {str(verdict): int(n) for verdict, n in found["verdict"].value_counts().items()}
    parts = [f"{counts[verdict]} {verdict}" for verdict in
             ("exact", "within tolerance", "differs", "only fresh", "only committed") if verdict in counts]  # fmt: skip
    return f"{len(found)} cells against the committed numbers: {', '.join(parts)}"


def _unit(metric: str) -> str:
    return " (%)" if "accuracy" in metric else ""
