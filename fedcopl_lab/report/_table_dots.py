"""Pictures with a row for each method: tables as dots beside what is printed, tables as text, leads over others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedcopl_lab.paper import Item, backbone, printed, reached_table
from fedcopl_lab.report._facets import Block, Panel, by_column, compose, facets, headline
from fedcopl_lab.report._marks import seed_dots
from fedcopl_lab.report._page_tables import own_rows, printed_grid
from fedcopl_lab.report._tables import Lead, clear_best, lead_over, order_of_rows, same_printed, summary
from fedcopl_lab.report._typeset import Grid, typeset
from fedcopl_lab.report._words import axis_name, mean_std, metric_name, order, row_name, scale
from fedcopl_lab.report.looks import (
    BLUE,
    DOUBLE,
    FAINT,
    GREEN,
    INK,
    LOOKS,
    ONE_SEED,
    ORANGE,
    OWN,
    PAIR,
    PURPLE,
    QUIET,
    REFERENCE,
    SETS,
    Look,
    fold,
    sheet,
)

_BESIDE_UP_TO = 2  # measured columns; more of them stand above the printed ones
_ACROSS = 3  # panels side by side when there are more
_ROW, _AROUND = 0.2, 0.8  # inches: a row; a panel's title and axis
_NAME_WIDTH = 1.5  # inches of a row's name before it breaks
_FAR = 1.0  # times the span of all others: a row that lies so far below them is an arrow at the edge
_LABELLERS = {"FPL": Look(ORANGE, "s"), "CPL": Look(PURPLE, "^"), "CoPL": Look(GREEN, "v")}
_MEAN, _SINGLE = Look(QUIET, "o"), Look(QUIET, "D", "none", hollow=True)
_PRINTED = "Printed in the paper"
_GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
_REACHED = "round in which the accuracy is first reached, mean (lowest–highest seed); 2 of 3: so many runs got there"


@dataclass(frozen=True)
class _Ends:
    """The ends of the horizontal axis that measured and printed numbers share."""

    low: float
    high: float

    def set(self, axes: Axes) -> None:
        room = 0.08 * (self.high - self.low) or 1.0
        axes.set_xlim(self.low - room, self.high + room)
        axes.xaxis.set_major_locator(MaxNLocator(4, prune="both"))  # labels at the ends would meet the next panel's
        axes.axvline(0, color=QUIET, linestyle=REFERENCE.line, linewidth=0.8, zorder=1)  # the base row

    def arrow(self, axes: Axes, row: int, value: float, color: str) -> bool:
        """An arrow at the edge for a value below the axis; whether it is."""
        if value < self.low:
            axes.plot(0.025, row, "<", color=color, markersize=4.5, transform=axes.get_yaxis_transform())
        return value < self.low


def _ends(values: Iterable[float]) -> _Ends:
    known = np.sort([value for value in values if not np.isnan(value)])
    low, high = float(known[0]), float(known[-1])
    for place in range(1, min(4, len(known) - 1)):
        if known[place] - known[place - 1] > _FAR * (high - known[place]):
            low = float(known[place])
    return _Ends(low, high)


def table_dots(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, one panel per column with its numbers at the right; the printed ones on the same scale.

    The axis counts points above the row before training, or else the first of both, here each seed's above its own.
    """
    metric = item.metric
    lines, marks = lines[lines["metric"] == metric], metric_name(metric, item) if metric.startswith("accuracy_") else ""
    columns, paper = order(lines["column"]), same_printed(item, lines, metric)
    ours, theirs = _base(lines, paper)
    shown = lines.assign(shown=scale(metric) * _above(lines, ["column", "seed"], ours))
    rows = order_of_rows(shown.assign(value=shown["shown"]), metric)
    paper = paper.assign(shown=_above(paper, ["column"], theirs))
    if (average := paper["dataset"] == "Average").any():
        paper = paper[average if len(columns) <= _BESIDE_UP_TO else ~average]
    ends = _ends([*shown["shown"], *paper["shown"]])
    bars = shown.groupby(["series", "column"])["shown"].agg(["mean", "std"]).query("mean >= @ends.low")
    reach = [ends.low, ends.high, *(bars["mean"] - bars["std"]), *(bars["mean"] + bars["std"])]
    ends = _Ends(np.nanmin(reach), np.nanmax(reach))
    beside = len(columns) <= _BESIDE_UP_TO
    across = 2 if len(columns) == 4 else min(len(columns), _ACROSS)  # the last line is as full as can be
    narrow = sheet().inches < DOUBLE
    named = [fold(row_name(row), _NAME_WIDTH if narrow else 1.5 * _NAME_WIDTH) for row in rows]
    tall = _AROUND + (_ROW if not any("\n" in name for name in named) else 1.3 * _ROW) * max(len(rows), 4)
    looks, best = _row_looks(item, rows, profile), clear_best(lines, metric, item)
    paint = partial(_measured, rows=rows, looks=looks, ends=ends, best=best)
    panels = by_column(shown, paint, x=_axis(item, metric, ours), grid="x", rows=named)
    measured = Block(panels, tall, across, 1.3, legend=_legend(summary(lines, metric), ours), bold=not paper.empty,
                     head=headline(item, lines, profile, marks), sharex=True, sharey=True)  # fmt: skip
    if paper.empty:
        return compose([measured])
    rows = [theirs if row == ours else row for row in rows]
    return compose([measured, _printed(item, paper, rows, named, ends, _axis(item, metric, theirs), beside)],
                   (1.15 + 0.9 * len(columns), 1.2) if beside else ())  # fmt: skip


def _base(lines: pd.DataFrame, paper: pd.DataFrame) -> tuple[str, str]:
    """The row that gains are counted from, as it is called here and in the paper; empty where they share none."""
    here, there = (order(table.loc[table["role"] == "before training", "series"]) for table in (lines, paper))
    if here and (there or paper.empty):
        return here[0], "".join(there[:1])
    both = [row for row in order(lines["series"]) if paper.empty or row in set(paper["series"])]
    return (both[0], both[0]) if both else ("", "")


def _above(table: pd.DataFrame, by: list[str], base: str) -> pd.Series:
    """Values above the base row's at the same ``by``, NaN where that row has none; the values without a base row."""
    own = table[table["series"] == base].set_index(by)["value"]
    return table["value"] - table.join(own.rename("base"), on=by)["base"] if base else table["value"]


def _axis(item: Item, metric: str, base: str) -> str:
    what = "" if metric.startswith("accuracy") else f" of {metric_name(metric, item)}"
    return f"points{what} above {row_name(base)}" if base else axis_name(metric, item)


def _legend(cells: pd.DataFrame, base: str) -> dict[str, Look]:
    """Of the measured dots."""
    one = "difference at one seed" if base else "one seed"
    legend = {one: ONE_SEED, "mean ± std": _MEAN} if cells["n"].max() > 1 else {}
    return legend | ({"a single run (n = 1)": _SINGLE} if cells["n"].min() == 1 else {})


def _row_looks(item: Item, rows: Sequence[str], profile: str) -> dict[str, Look]:
    """The papers' own methods in their own colour, the others by their labels where these differ."""
    labeller_of = {cell.series: getattr(cell.config, "labeller", "") for cell in item.cells(profile)}
    differ = len({labeller_of.get(row) for row in rows}) > 1
    others = {row: _LABELLERS.get(labeller_of.get(row, ""), LOOKS[0]) for row in rows
              if differ and item.role(row) == "other"}  # fmt: skip
    return {row: OWN if item.role(row) == "own" else others.get(row, LOOKS[0]) for row in rows}


def _measured(
    axes: Axes, part: pd.DataFrame, rows: list[str], looks: Mapping[str, Look], ends: _Ends, best: set[tuple[str, str]]
) -> None:  # fmt: skip
    metric, column = part[["metric", "column"]].iloc[0].astype(str)
    found = summary(part, metric).set_index("series")
    ends.set(axes)
    for row, series in enumerate(rows):
        if series not in found.index:
            _right(axes, row, "–")
            continue
        _right(axes, row, mean_std(found["mean"][series], found["std"][series], metric), (series, column) in best)
        shown = part.loc[part["series"] == series, "shown"].dropna()
        at, half, look, alone = shown.mean(), shown.std(), looks[series], len(shown) == 1
        if shown.empty or ends.arrow(axes, row, at, look.color):
            continue
        if not alone:
            seed_dots(axes, shown, np.full(len(shown), row + 0.26), look.color)
            axes.plot([at - half, at + half], [row, row], "-", color=look.color, linewidth=1.4)
        axes.plot(at, row, "D" if alone else look.marker, color="white" if alone else look.color,
                  markersize=4.0 if alone else 4.8, markeredgecolor=look.color if alone else "white",
                  markeredgewidth=1.0 if alone else 0.6)  # fmt: skip


def _right(axes: Axes, row: int, text: str, bold: bool = False) -> None:
    """A row's number in the column at the right."""
    axes.annotate(text, (1, row), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", ha="left",
                  va="center", fontsize=6.5, fontweight="bold" if bold else "normal",
                  annotation_clip=False)  # fmt: skip


def _printed(
    item: Item, paper: pd.DataFrame, rows: Sequence[str], named: Sequence[str], ends: _Ends, axis: str, beside: bool
) -> Block:
    """The printed numbers: beside one or two measured columns in one panel, below more in one for each split."""
    settings, sets = order(paper["setting"]), order(paper["dataset"])
    if beside and len(sets) > 1:
        settings = settings[:1]
        paper = paper[paper["setting"] == settings[0]]
    by = "setting" if beside and len(sets) == 1 else "dataset"
    names = order(paper[by])
    chosen = PAIR if len(names) <= len(PAIR) else SETS
    looks = {name: replace(look, line="none") for name, look in zip(names, chosen, strict=False)}

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        ends.set(axes)
        for name, look in looks.items():
            values = part[part[by] == name].set_index("series")["shown"].reindex(list(rows))
            axes.plot(values, range(len(rows)), **look.style)
            for row, value in enumerate(values):
                ends.arrow(axes, row, value, look.color)
        for row, series in enumerate(rows):
            if series not in set(part["series"]):
                axes.text(0.5, row, "not printed", transform=axes.get_yaxis_transform(), ha="center", va="center",
                          color=QUIET, fontsize=6.5, style="italic")  # fmt: skip

    head = f"{_PRINTED} ({model})" if (model := backbone(item.id)) else _PRINTED
    legend = looks if len(looks) > 1 else {}
    row = (_ROW if beside else 0.8 * _ROW) * (1.3 if any("\n" in name for name in named) else 1.0)
    tall = _AROUND + row * max(len(rows), 4)
    if beside:
        what = "average of six sets" if sets == ["Average"] else sets[0] if len(sets) == 1 else ""
        title = ", ".join(filter(None, (what, settings[0] if len(settings) == 1 else "")))
        panel = Panel(partial(paint, part=paper), title, axis, grid="x",
                      rows=[""] * len(rows) if sheet().inches == DOUBLE else named)  # fmt: skip
        return Block([panel], tall, head=head, legend=legend, printed=True)
    one = f"{sets[0]}, " if len(sets) == 1 else ""
    panels = by_column(paper.assign(column=one + paper["setting"]), paint, grid="x", rows=named, x=axis)
    return Block(panels, tall, _ACROSS, 1.3, head=head, legend=legend, printed=True, sharex=True, sharey=True)


def statistics(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Classes, training and test images as a table; in bold with what is printed instead, where the two differ."""
    sets, rows, bold = order(lines["series"]), [], set()
    for row, name in enumerate(sets):
        cells = []
        for column, metric in enumerate(item.metrics):
            (ours,) = lines.loc[(lines["metric"] == metric) & (lines["series"] == name), "value"]
            theirs = printed(item.id, metric).set_index("series")["value"].get(name, ours)
            if ours != theirs:
                bold.add((row, column))
            cells.append(f"{ours:,.0f}" + (f" (printed {theirs:,.0f})" if ours != theirs else ""))
        rows.append((name, cells))
    words = "Counted in the manifests; the paper prints the same but for what is in bold"
    return typeset([Grid([metric_name(metric) for metric in item.metrics], rows, head=words, bold=frozenset(bold))])


def reached(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, a column for each target: mean round in which it was reached, and how many runs got there."""
    cells = reached_table(lines)
    level = dict(zip(lines["column"], lines["level"], strict=True))
    columns, names = order(lines["column"]), order(lines["series"])
    rows = [(row_name(name), [_rounds(cells[(cells["series"] == name) & (cells["column"] == column)])
                              for column in columns]) for name in names]  # fmt: skip
    grid = Grid([f"to {level[column]:g} %" for column in columns], rows, own=own_rows(item, names),
                head=headline(item, lines, profile, _REACHED))  # fmt: skip
    return typeset([grid, *printed_grid(item, "rounds_needed", lines)])


def _rounds(cells: pd.DataFrame) -> str:
    """Of one cell's runs; ``> 8`` where none got there in its 8 rounds."""
    rounds, there = cells["rounds"], ~cells["censored"]
    if cells.empty:
        return "–"
    if not there.all():
        return f"{there.sum()} of {len(cells)}" if there.any() else f"> {rounds.min() - 1}"
    low, high = rounds.min(), rounds.max()
    return f"{rounds.mean():.1f} ({low}–{high})" if low < high else f"{low}"


def spread(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel per column: a dot for each seed, the mean with its 95 % interval, and the line of no difference."""
    rows = order(lines["series"])
    own = next((name for name in rows if item.role(name) == "own"), rows[0])
    others = [name for name in rows if name != own]

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        for row, other in enumerate(others):
            if len((found := lead_over(part, part["column"].iloc[0], own, other)).points):  # not yet run
                _lead_row(axes, row, found)
        axes.margins(x=0.08)
        axes.xaxis.set_major_locator(MaxNLocator(6, prune="both"))  # labels at the ends would meet the next panel's

    panels = by_column(lines, paint, x=f"{own} minus the other row (points)", grid="x",
                       rows=[f"minus {other}" for other in others])  # fmt: skip
    legend = {"one seed": ONE_SEED, "mean, 95 % interval without 0": Look(BLUE, "D"),
              "interval with 0: within noise": Look(QUIET, "D", hollow=True)}  # fmt: skip
    return facets(panels, 0.75 + 0.42 * len(others), least=1.6, sharex=True, sharey=True, legend=legend,
                  head=headline(item, lines, profile, "paired by seed"))  # fmt: skip


def _lead_row(axes: Axes, row: int, found: Lead) -> None:
    color = BLUE if found.clear else QUIET
    seed_dots(axes, found.points, np.full(len(found.points), row + 0.24), color)
    text = f"{found.mean:+.1f}"
    if not np.isnan(found.low):
        axes.plot([found.low, found.high], [row, row], "-", color=color, linewidth=1.6, solid_capstyle="butt")
        text += f" [{found.low:.1f}, {found.high:.1f}]"
    axes.plot(found.mean, row, "D", color=color, markerfacecolor=color if found.clear else "white", markersize=5)
    axes.annotate(text.replace("-", "−"), (found.mean, row), (0, 5), textcoords="offset points", ha="center",
                  va="bottom", fontsize=6.5, bbox=_GROUND)  # fmt: skip
    axes.axhline(row + 0.5, color=FAINT, linewidth=0.4)
