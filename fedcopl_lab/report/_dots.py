"""A table as a picture: measured rows as dots, and the printed numbers on a ground of their own."""

import textwrap
from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedcopl_lab.paper import Item, backbone, printed
from fedcopl_lab.report._style import (
    DOUBLE,
    GREEN,
    INK,
    LOOKS,
    ORANGE,
    PAPER_TINT,
    PURPLE,
    QUIET,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
)
from fedcopl_lab.report._tables import seeds_text, summary
from fedcopl_lab.report._words import UPPER_REFERENCE, is_own, mean_std, order, scale, setting_of, unit

_BESIDE_UP_TO = 2  # measured columns; more of them stand above the printed ones
_ACROSS = 3  # panels side by side when there are more
_ROW, _PRINTED_ROW = 0.36, 0.24  # inches
_ROWS_TALL = 10  # more rows share the height of so many: a page is no taller
_NAME_WIDTH = 22  # characters of a row's name before it breaks
_LABELLED = {"FPL": Look(ORANGE, "s"), "CPL": Look(PURPLE, "^"), "CoPL": Look(GREEN, "v")}
_SETS = (
    Look(INK, "o"), Look(QUIET, "s"), Look(INK, "^", hollow=True), Look(QUIET, "v", hollow=True),
    Look(INK, "D", hollow=True), Look(QUIET, "P"),
)  # fmt: skip
_DASHED = (0, (4, 3))
_MARGIN = {False: 0.12, True: 0.17}  # by narrow: half a value's text at either end


def table_dots(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, x = the item's first metric, one panel per column; the printed numbers beside or below."""
    metric = item.metrics[0]
    cells = summary(lines, metric)
    rows, columns = order(cells["series"]), order(cells["column"])
    paper = printed(item.id, metric)
    lines = lines[lines["metric"] == metric]
    if len(columns) > _BESIDE_UP_TO:
        return _stacked(item, lines, cells, paper, profile)
    figure = new_figure(DOUBLE, 1.2 + _ROW * max(len(rows), 3))
    if paper.empty:
        _measured(figure, item, lines, cells, profile, 1)
        return figure
    widths = [1.15 + len(columns), 1.5 if len(columns) > 1 else 1.3]
    left, right = figure.subfigures(1, 2, width_ratios=widths, wspace=0.02, squeeze=False)[0]
    groups = _averages(paper) or next(iter(_sets_by_split(paper).values()))
    looks = dict(zip(groups, _looks_of_groups(groups), strict=True))
    # legends of as many lines, so that the rows of both panels stand at equal heights
    legend_lines = -(-len(groups) // 2)
    _measured(left, item, lines, cells, profile, legend_lines)
    _printed_ground(right)
    axes = right.subplots()
    _printed_panel(axes, paper, groups, rows, looks)
    split = next(iter(_sets_by_split(paper)), "")
    here = split if columns[0].endswith(f", {split}") else columns[0]  # without the set that was measured
    what = "average of six data sets" if _averages(paper) else here
    axes.set_title(", ".join(filter(None, (what, backbone(item.id)))))
    axes.set_xlabel("accuracy (%)")
    right.legend(handles=_printed_handles(looks), loc="outside lower center", ncols=min(2, len(groups)),
                 handlelength=1.2, columnspacing=1.2)  # fmt: skip
    return figure


def _stacked(item: Item, lines: pd.DataFrame, cells: pd.DataFrame, paper: pd.DataFrame, profile: str) -> Figure:
    rows, columns = order(cells["series"]), order(cells["column"])
    groups = _sets_by_split(paper)
    tall = min(len(rows), _ROWS_TALL)
    above = 0.6 + (0.65 + _ROW * tall) * -(-len(columns) // _across(len(columns)))
    below = 0.85 + (0.4 + _PRINTED_ROW * tall) * -(-len(groups) // _ACROSS) if groups else 0.0
    figure = new_figure(DOUBLE, above + below)
    if not groups:
        _measured(figure, item, lines, cells, profile, 1)
        return figure
    top, bottom = figure.subfigures(2, 1, height_ratios=(above, below), hspace=0.0, squeeze=False)[:, 0]
    _measured(top, item, lines, cells, profile, 1)
    _printed_ground(bottom, backbone(item.id))
    panels = bottom.subplots(
        -(-len(groups) // _ACROSS), min(_ACROSS, len(groups)), sharex=True, sharey=True, squeeze=False
    )
    names = order(name for group in groups.values() for name in group)
    theirs = ["Zero-shot CLIP" if row == "Prompted, before training" else row for row in rows]
    looks = dict(zip(names, _looks_of_groups(names), strict=True))
    for axes, (title, group) in zip(panels.flat, groups.items(), strict=False):
        _printed_panel(axes, paper, group, theirs, looks)
        axes.set_title(title)
        axes.xaxis.set_major_locator(MaxNLocator(5, prune="both"))
    for axes in panels.flat[len(groups) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(rows)), _broken(theirs))
    for axes in panels[-1]:
        axes.set_xlabel("pseudo-label accuracy (%)" if item.metrics[0] == "label_accuracy" else "accuracy (%)")
    bottom.legend(handles=_printed_handles(looks), loc="outside lower center", ncols=len(names), handlelength=1.2)
    return figure


def _measured(
    part: Figure | SubFigure, item: Item, lines: pd.DataFrame, cells: pd.DataFrame, profile: str, legend_lines: int
) -> None:
    """The measured panels with their title and legend."""
    metric = item.metrics[0]
    rows, columns = order(cells["series"]), order(cells["column"])
    across = _across(len(columns))
    part.suptitle(
        f"Measured here ({setting_of(item, profile, lines).short}; {seeds_text(lines, metric)})", fontweight="bold"
    )
    grid = part.subplots(-(-len(columns) // across), across, sharex=True, sharey=True, squeeze=False)
    for axes, column in zip(grid.flat, columns, strict=False):
        _measured_panel(axes, lines[lines["column"] == column], cells[cells["column"] == column], rows, metric,
                        across > _BESIDE_UP_TO)  # fmt: skip
        axes.set_title(column)
        if across > 1:  # labels at the ends would meet the next panel's
            axes.xaxis.set_major_locator(MaxNLocator(5, prune="both"))
    for axes in grid.flat[len(columns) :]:
        axes.set_axis_off()
    for axes in grid.flat[max(0, len(columns) - across) : len(columns)]:  # the lowest of each column of panels
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(_measure(item) + unit(metric))
    handles = [legend_handle("one seed", Look(QUIET, "o", "none"), alpha=0.4, markersize=3),
               legend_handle("mean ± std", Look(QUIET, "o"))]  # fmt: skip
    if cells["n"].min() == 1 < cells["n"].max():
        handles.append(legend_handle("a single run (n = 1)", Look(QUIET, "D", "none", hollow=True)))
    reference = next((row for row in rows if _is_reference(row)), None)
    if reference:
        name = _SHORT.get(reference, reference)
        handles.append(Line2D([], [], color=QUIET, linestyle=_DASHED, linewidth=0.8, label=name))
    handles += [Line2D([], [], linestyle="none", label=" ")] * (legend_lines - len(handles))
    part.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // legend_lines))


def _measured_panel(
    axes: Axes, lines: pd.DataFrame, cells: pd.DataFrame, rows: list[str], metric: str, narrow: bool
) -> None:
    percent_axis(axes, "x")
    axes.set_yticks(range(len(rows)), _broken(rows))
    axes.set_ylim(len(rows) - 0.45, -0.75)
    axes.margins(x=_MARGIN[narrow])
    factor = scale(metric)
    rivals = cells.loc[cells["series"] != UPPER_REFERENCE, "mean"]
    for row, series in enumerate(rows):
        look = _row_look(series)
        values = factor * lines.loc[lines["series"] == series, "value"].to_numpy(dtype=float)
        found = cells[cells["series"] == series]
        if found.empty:
            _say(axes, row, "not run")
            continue
        mean, std = float(found["mean"].iloc[0]), float(found["std"].iloc[0])
        alone = int(found["n"].iloc[0]) == 1 < cells["n"].max()  # a single run among rows with several
        if _is_reference(series):
            axes.axvline(factor * mean, color=QUIET, linestyle=_DASHED, linewidth=0.8, zorder=1)
        if not alone:
            axes.plot(values, np.full(len(values), row + 0.22), "o", color=look.color, alpha=0.4, markersize=2.8,
                      markeredgewidth=0)  # fmt: skip
        if not np.isnan(std):
            axes.plot([factor * (mean - std), factor * (mean + std)], [row, row], "-", color=look.color, linewidth=1.6)
        axes.plot(factor * mean, row, look.marker, color="white" if alone else look.color, markersize=5.5,
                  markeredgecolor=look.color if alone else "white", markeredgewidth=1.0 if alone else 0.6)  # fmt: skip
        bold = "bold" if mean == rivals.max() else "normal"  # as the tables mark the best
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.annotate(mean_std(mean, std, metric), (factor * mean, row), (0, 6), textcoords="offset points",
                      ha="center", va="bottom", fontsize=6.5, fontweight=bold, bbox=ground)  # fmt: skip


def _measure(item: Item) -> str:
    """What the measured dots are, in few words."""
    if item.metrics[0] != "accuracy":
        return "pseudo-label accuracy"
    return "test accuracy" if item.id.startswith("sage_") else "client-mean accuracy"


def _averages(paper: pd.DataFrame) -> dict[str, str]:
    """Split -> the printed column with its average, where the paper prints one."""
    columns = [column for column in order(paper["column"]) if column.startswith("Average, ")]
    return {column.removeprefix("Average, "): column for column in columns}


def _sets_by_split(paper: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Split -> data set -> its printed column."""
    panels: dict[str, dict[str, str]] = {}
    for column in order(paper["column"]):
        name, _, split = column.partition(", ")
        if name != "Average":
            panels.setdefault(split, {})[name] = column
    return panels


def _looks_of_groups(names: Iterable[str]) -> list[Look]:
    names = list(names)
    # one or two averages: a hollow marker around a filled one, so that both stay visible
    return [Look(INK, "o"), Look(INK, "o", hollow=True)][: len(names)] if len(names) <= 2 else list(_SETS[: len(names)])


def _across(panels: int) -> int:
    """How many panels stand side by side, so that the last line is as full as can be."""
    return 2 if panels == 4 else min(panels, _ACROSS)


def _printed_ground(part: SubFigure, model: str = "") -> None:
    part.set_facecolor(PAPER_TINT)
    part.suptitle(f"Printed in the paper{f' ({model})' if model else ''}", fontweight="bold", color=INK)


def _printed_panel(
    axes: Axes, paper: pd.DataFrame, groups: dict[str, str], rows: list[str], looks: dict[str, Look]
) -> None:
    axes.set_facecolor(PAPER_TINT)
    axes.grid(True, axis="x", color="white", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [""] * len(rows))
    axes.tick_params(length=0, axis="y")
    axes.set_ylim(len(rows) - 0.45, -0.75)
    for name, column in groups.items():
        values = paper[paper["column"] == column].set_index("series")["value"].reindex(rows)
        look = looks[name]
        axes.plot(values, range(len(rows)), look.marker, color=look.color, markersize=_size(look),
                  markerfacecolor="none" if look.hollow else look.color, markeredgewidth=0.9)  # fmt: skip
    for row, series in enumerate(rows):
        if paper[(paper["series"] == series) & paper["column"].isin(groups.values())].empty:
            _say(axes, row, "not printed")
    axes.margins(x=0.1)


def _say(axes: Axes, row: int, text: str) -> None:
    axes.text(0.5, row, text, transform=axes.get_yaxis_transform(), ha="center", va="center", color=QUIET,
              fontsize=6.5, style="italic")  # fmt: skip


def _printed_handles(looks: dict[str, Look]) -> list[Line2D]:
    return [
        Line2D([], [], color=look.color, marker=look.marker, linestyle="none", markersize=_size(look), label=name,
               markerfacecolor="none" if look.hollow else look.color)
        for name, look in looks.items()
    ]  # fmt: skip


def _size(look: Look) -> float:
    return 6.0 if look.hollow else 4.0


def _broken(rows: list[str]) -> list[str]:
    return [textwrap.fill(row, _NAME_WIDTH) for row in rows]


_SHORT = {"Zero-shot CLIP": "zero-shot", "Prompted, before training": "before training"}


def _is_reference(series: str) -> bool:
    """Whether the row is what all others are read against."""
    return series.startswith(("Zero-shot", "Prompted, before", "paper mode")) or series == UPPER_REFERENCE


def _row_look(series: str) -> Look:
    """The papers' own methods in their own colour, the others by their labels."""
    return LOOKS[3] if is_own(series) else _LABELLED.get(series.rsplit("+ ", 1)[-1], LOOKS[0])
