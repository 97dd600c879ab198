"""Pictures with a row for each method or data set: tables as dots, counts, rounds to a target, leads over others."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from fedcopl_lab.paper import Item, backbone, printed, reached_table
from fedcopl_lab.report._facets import Legend, Panel, aside, by_column, facets, headline, looks_of, seed_dots, two_parts
from fedcopl_lab.report._tables import rivals, summary
from fedcopl_lab.report._words import axis_name, mean_std, metric_name, order, scale
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
    new_figure,
)

_BESIDE_UP_TO = 2  # measured columns; more of them stand above the printed ones
_ACROSS = 3  # panels side by side when there are more
_ROW, _PRINTED_ROW = 0.36, 0.24  # inches
_ROWS_TALL = 10  # more rows share the height of so many: a page is no taller
_NAME_WIDTH = 22  # characters of a row's name before it breaks
_LABELLERS = {"FPL": Look(ORANGE, "s"), "CPL": Look(PURPLE, "^"), "CoPL": Look(GREEN, "v")}
_MEAN, _SINGLE = Look(QUIET, "o"), Look(QUIET, "D", "none", hollow=True)
_PRINTED = "Printed in the paper"
_GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}


def table_dots(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, x = the item's first metric, one panel per column; the printed numbers beside or below."""
    metric = item.metrics[0]
    lines, paper = lines[lines["metric"] == metric], printed(item.id, metric)
    rows, columns = order(lines["series"]), order(lines["column"])
    measured = partial(_measured, item, lines, profile)
    tall = min(len(rows), _ROWS_TALL)
    across = 2 if len(columns) == 4 else min(len(columns), _ACROSS)  # the last line is as full as can be
    if len(columns) > _BESIDE_UP_TO:
        above = 0.6 + (0.65 + _ROW * tall) * -(-len(columns) // across)
        if paper.empty:
            return measured(new_figure(DOUBLE, above), across)
        below = 0.85 + (0.4 + _PRINTED_ROW * tall) * -(-paper["setting"].nunique() // _ACROSS)
        top, bottom = two_parts(new_figure(DOUBLE, above + below), (above, below), beside=False)
        _printed_below(item, paper, _printed_names(lines, paper, rows), bottom)
        return measured(top, across)
    figure = new_figure(DOUBLE, 1.2 + _ROW * max(len(rows), 3))
    if paper.empty:
        return measured(figure, across)
    left, right = two_parts(figure, (1.15 + len(columns), 1.5 if len(columns) > 1 else 1.3), beside=True)
    legend_lines = _printed_beside(item, paper, rows, right)
    return measured(left, across, legend_lines)  # legends of as many lines: rows of both stand at equal heights


def _measured(
    item: Item, lines: pd.DataFrame, profile: str, on: Figure | SubFigure, across: int, legend_lines: int = 1
) -> Figure:
    """The measured panels with their title and legend."""
    metric, rows, cells = item.metrics[0], order(lines["series"]), summary(lines, item.metrics[0])
    most = int(cells["n"].max())
    labeller_of = {cell.series: getattr(cell.config, "labeller", "") for cell in item.cells(profile)}
    looks = {row: _row_look(item, row, labeller_of) for row in rows}
    read_against = [row for row in rows if item.role(row) in ("reference", "before training")]

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        found = summary(part, metric)
        best = rivals(found, item)["mean"].max()
        cells_of_row = {
            str(cell["series"]): (cell["mean"], cell["std"], cell["n"]) for cell in found.to_dict("records")
        }
        axes.margins(x=0.17 if across > _BESIDE_UP_TO else 0.12)  # half a value's text at either end
        for row, series in enumerate(rows):
            if series not in cells_of_row:
                _say(axes, row, "not run")
                continue
            mean, std, n = cells_of_row[series]
            values = scale(metric) * part.loc[part["series"] == series, "value"].to_numpy()
            if series in read_against:
                axes.axvline(scale(metric) * mean, color=QUIET, linestyle=REFERENCE.line, linewidth=0.8, zorder=1)
            _dot(axes, row, values, scale(metric) * mean, scale(metric) * std, looks[series], alone=n == 1 < most)
            axes.annotate(mean_std(mean, std, metric), (scale(metric) * mean, row), (0, 6), ha="center", va="bottom",
                          textcoords="offset points", fontsize=6.5, bbox=_GROUND,
                          fontweight="bold" if mean == best else "normal")  # fmt: skip
        if across > 1:  # labels at the ends would meet the next panel's
            axes.xaxis.set_major_locator(MaxNLocator(5, prune="both"))

    panels = by_column(lines, paint, x=axis_name(metric, item), grid="x", rows=_broken(rows))
    legend: dict[str, Look] = {"one seed": ONE_SEED, "mean ± std": _MEAN}
    if cells["n"].min() == 1 < most:
        legend["a single run (n = 1)"] = _SINGLE
    if read_against:
        legend[read_against[0]] = REFERENCE
    return facets(panels, on=on, across=across, sharex=True, sharey=True, legend=legend, legend_lines=legend_lines,
                  head=headline(item, lines, profile), bold=True)  # fmt: skip


def _row_look(item: Item, row: str, labeller_of: Mapping[str, str]) -> Look:
    """The papers' own methods in their own colour, the others by their labels where these differ."""
    if item.role(row) == "own":
        return OWN
    differ = item.role(row) == "other" and len(set(labeller_of.values())) > 1
    return _LABELLERS.get(labeller_of.get(row, ""), LOOKS[0]) if differ else LOOKS[0]


def _dot(axes: Axes, row: int, values: np.ndarray, mean: float, std: float, look: Look, alone: bool) -> None:
    """One row: a dot for each seed, the mean and its spread; hollow for a single run among rows with several."""
    if not alone:
        seed_dots(axes, values, np.full(len(values), row + 0.22), look.color)
    if not np.isnan(std):
        axes.plot([mean - std, mean + std], [row, row], "-", color=look.color, linewidth=1.6)
    axes.plot(mean, row, look.marker, color="white" if alone else look.color, markersize=5.5,
              markeredgecolor=look.color if alone else "white", markeredgewidth=1.0 if alone else 0.6)  # fmt: skip


def _printed_beside(item: Item, paper: pd.DataFrame, rows: Sequence[str], on: SubFigure) -> int:
    """The printed averages, or else the sets of the first split, in one panel; gives the lines of its legend."""
    average = paper[paper["dataset"] == "Average"]
    by, part = (
        ("setting", average) if len(average) else ("dataset", paper[paper["setting"] == paper["setting"].iloc[0]])
    )
    what = "average of six data sets" if len(average) else part["setting"].iloc[0]
    names = order(part[by])
    looks = dict(zip(names, PAIR if len(names) <= len(PAIR) else SETS, strict=False))
    title = ", ".join(filter(None, (what, backbone(item.id))))
    paint = partial(_printed_dots, paper=part, rows=rows, looks=looks, by=by)
    facets([Panel(paint, title, axis_name("accuracy"), grid="x", rows=[""] * len(rows))], on=on, printed=True,
           head=_PRINTED, legend=_dots_only(looks), ncols=min(2, len(looks)))  # fmt: skip
    return -(-len(looks) // 2)


def _printed_below(item: Item, paper: pd.DataFrame, rows: Sequence[str], on: SubFigure) -> None:
    """One panel for each printed split, one mark for each data set."""
    paper = paper[paper["dataset"] != "Average"]
    names = order(paper["dataset"])
    looks = dict(zip(names, PAIR if len(names) <= len(PAIR) else SETS, strict=False))

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        _printed_dots(axes, part, rows, looks, "dataset")
        axes.xaxis.set_major_locator(MaxNLocator(5, prune="both"))

    metric = item.metrics[0]
    panels = by_column(paper.assign(column=paper["setting"]), paint, grid="x", rows=_broken(rows),
                       x=axis_name(metric))  # fmt: skip
    model = f" ({name})" if (name := backbone(item.id)) else ""
    facets(panels, on=on, across=_ACROSS, sharex=True, sharey=True, printed=True, head=f"{_PRINTED}{model}",
           legend=_dots_only(looks))  # fmt: skip


def _printed_names(lines: pd.DataFrame, paper: pd.DataFrame, rows: Sequence[str]) -> list[str]:
    """The rows as the paper names them: its row before training may have another name than ours."""
    (ours, theirs) = (order(table.loc[table["role"] == "before training", "series"]) for table in (lines, paper))
    return [theirs[0] if row in ours and theirs else row for row in rows]


def _printed_dots(axes: Axes, paper: pd.DataFrame, rows: Sequence[str], looks: Mapping[str, Look], by: str) -> None:
    for name, look in _dots_only(looks).items():
        values = paper[paper[by] == name].set_index("series")["value"].reindex(list(rows))
        axes.plot(values, range(len(rows)), **look.style)
    for row, series in enumerate(rows):
        if series not in set(paper["series"]):
            _say(axes, row, "not printed")
    axes.margins(x=0.1)


def _dots_only(looks: Mapping[str, Look]) -> dict[str, Look]:
    return {name: replace(look, line="none") for name, look in looks.items()}


def _say(axes: Axes, row: int, text: str) -> None:
    axes.text(0.5, row, text, transform=axes.get_yaxis_transform(), ha="center", va="center", color=QUIET,
              fontsize=6.5, style="italic")  # fmt: skip


def _broken(rows: Sequence[str]) -> list[str]:
    return [textwrap.fill(row, _NAME_WIDTH) for row in rows]


def statistics(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel for classes, training and test images; a filled dot is counted, a hollow square is printed."""
    sets = order(lines["series"])

    def paint(axes: Axes, metric: str) -> None:
        counted, paper = (table.set_index("series")["value"].reindex(sets) for table in
                          (lines[lines["metric"] == metric], printed(item.id, metric)))  # fmt: skip
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.margins(x=0.22)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        for row, (ours, theirs) in enumerate(zip(counted, paper, strict=True)):
            same = ours == theirs
            axes.plot(ours, row, "o", color=BLUE if same else ORANGE, zorder=3)
            axes.plot(theirs, row, "s", color=INK, markerfacecolor="none", markersize=7, markeredgewidth=0.8, zorder=2)
            axes.annotate(f"{ours:,.0f}" if same else f"{ours:,.0f} (printed {theirs:,.0f})", (theirs, row),
                          (0 if same else -10, 5), textcoords="offset points", ha="center" if same else "left",
                          va="bottom", fontsize=6.5, fontweight="normal" if same else "bold")  # fmt: skip

    panels = [Panel(partial(paint, metric=metric), metric_name(metric), grid="x", rows=sets) for metric in item.metrics]
    legend = {"counted in our manifests": replace(OWN, line="none"),
              "printed in the paper": Look(INK, "s", "none", hollow=True, size=7.0),
              "the two differ": Look(ORANGE, "o", "none")}  # fmt: skip
    return facets(panels, 0.9 + 0.3 * len(sets), sharey=True, legend=legend,
                  head="Counts of the paper's six data sets, logarithmic axes")  # fmt: skip


def reached(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, x = rounds, one panel for each target; an arrow marks a run that never got there."""
    rows, looks = order(lines["series"]), looks_of(lines)
    last = lines.loc[lines["metric"] == "rounds_needed", "value"].max()
    paper = printed(item.id, "rounds_needed")

    def measured(axes: Axes, part: pd.DataFrame) -> None:
        cells = reached_table(part)
        for row, name in enumerate(rows):
            own, look = cells[cells["series"] == name], looks[name]
            for shift, value, bound in zip(aside(len(own), 0.16), own["rounds"], own["censored"], strict=True):
                axes.plot(value, row + shift, ">" if bound else "o", color=look.color, markersize=5 if bound else 3.5,
                          markerfacecolor="white" if bound else look.color, alpha=0.8, markeredgewidth=0.8)  # fmt: skip
            if len(own) and not own["censored"].any():  # a mean with bounds in it would be one itself
                axes.plot(own["rounds"].mean(), row, "|", color=look.color, markersize=11, markeredgewidth=1.6)
        axes.set_xlim(0, 1.12 * last)

    def theirs(axes: Axes, part: pd.DataFrame) -> None:
        axes.plot(part.set_index("series")["value"].reindex(rows), range(len(rows)), "o", color=INK, markersize=4)
        axes.set_xlim(0, 1.08 * paper["value"].max())

    top, bottom = two_parts(new_figure(DOUBLE, 5.2), (1.25, 1), beside=False)
    legend: Legend = {
        "one seed": replace(ONE_SEED, size=3.5, alpha=0.6),
        "never got there: only a bound": Look(QUIET, ">", "none", hollow=True, size=5.0),
        "mean, where all got there": Look(QUIET, "|", "none", size=9.0),
    }
    facets(_by_target(paper, theirs, rows), on=bottom, sharey=True, printed=True, head=f"{_PRINTED} (CIFAR-100)")
    return facets(_by_target(lines, measured, rows), on=top, sharey=True, legend=legend, bold=True,
                  head=headline(item, lines, profile))  # fmt: skip


def _by_target(lines: pd.DataFrame, paint: Callable[..., None], rows: Sequence[str]) -> list[Panel]:
    """A panel for each target accuracy, whose level the column is."""
    lines = lines.assign(column=[f"to {level:g} %" for level in lines["level"]])
    return by_column(lines, paint, x="rounds", grid="x", rows=rows)


@dataclass(frozen=True)
class Lead:
    """Paired differences in points of accuracy: own row minus another, at equal seeds.

    Attributes:
        points: one difference per seed that both rows have.
        mean: their mean.
        half: half the width of the 95 % t-interval of the mean; NaN for fewer than two seeds.
    """

    points: np.ndarray
    mean: float
    half: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return bool(abs(self.mean) > self.half)

    def __repr__(self) -> str:
        return f"Lead({self.mean:+.2f} ± {self.half:.2f} points, {len(self.points)} seeds)"


def lead_over(lines: pd.DataFrame, column: str, own: str, other: str) -> Lead:
    """One row minus another in one column, in points of accuracy."""
    part = lines[(lines["metric"] == "accuracy") & (lines["column"] == column)]
    wide = part.pivot(index="seed", columns="series", values="value")[[own, other]].dropna()
    points = 100 * (wide[own] - wide[other]).to_numpy()
    n = len(points)
    half = float(stats.t.ppf(0.975, n - 1) * stats.sem(points)) if n > 1 else float("nan")
    return Lead(points, float(points.mean()), half)


def spread(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel per column: a dot for each seed, the mean with its 95 % interval, and the line of no difference."""
    own = next(name for name in order(lines["series"]) if item.role(name) == "own")
    others = [name for name in order(lines["series"]) if name != own]

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        for row, other in enumerate(others):
            _lead_row(axes, row, lead_over(part, part["column"].iloc[0], own, other))
        axes.margins(x=0.08)
        axes.xaxis.set_major_locator(MaxNLocator(6, prune="both"))  # labels at the ends would meet the next panel's

    panels = by_column(lines, paint, x=f"{own} minus the other row (points)", grid="x",
                       rows=[f"minus {other}" for other in others])  # fmt: skip
    legend = {"one seed": ONE_SEED, "mean, 95 % interval without 0": Look(BLUE, "D"),
              "interval with 0: within noise": Look(QUIET, "D", hollow=True)}  # fmt: skip
    return facets(panels, 1.15 + 0.42 * len(others), sharex=True, sharey=True, legend=legend,
                  head=headline(item, lines, profile, "paired by seed"))  # fmt: skip


def _lead_row(axes: Axes, row: int, found: Lead) -> None:
    color = BLUE if found.clear else QUIET
    seed_dots(axes, found.points, np.full(len(found.points), row + 0.24), color)
    text = f"{found.mean:+.1f}"
    if not np.isnan(found.half):
        low, high = found.mean - found.half, found.mean + found.half
        axes.plot([low, high], [row, row], "-", color=color, linewidth=1.6, solid_capstyle="butt")
        text += f" [{low:.1f}, {high:.1f}]"
    axes.plot(found.mean, row, "D", color=color, markerfacecolor=color if found.clear else "white", markersize=5)
    axes.annotate(text.replace("-", "−"), (found.mean, row), (0, 5), textcoords="offset points", ha="center",
                  va="bottom", fontsize=6.5, bbox=_GROUND)  # fmt: skip
    axes.axhline(row + 0.5, color=FAINT, linewidth=0.4)
