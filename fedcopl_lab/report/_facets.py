"""How every picture of an item is put together: panels with shared axes, one legend, one line that says what it is."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedcopl_lab.paper import Item, NotRun
from fedcopl_lab.report._tables import seeds_text
from fedcopl_lab.report._words import order, setting_of
from fedcopl_lab.report.looks import (
    BLUE,
    DOUBLE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    OTHERS,
    OWN,
    PAPER_TINT,
    QUIET,
    Look,
    light_grid,
    new_figure,
)

Legend = Mapping[str, Look | Artist]
MEAN_AND_BAND = "line: mean, band: ± std"
_REASON_WIDTH = 125  # characters that stand side by side over both columns
_ROUNDS_NAMED = 8
_LINEAR_UP_TO = 10  # times the smallest level


@dataclass(frozen=True)
class Panel:
    """One small picture among several.

    Attributes:
        paint: draws it.
        title: over it; left out where the panel above has the same.
        x: name of its horizontal axis; left out where the panel below has the same.
        y: name of its vertical axis; left out where the panel to the left has the same.
        grid: across which axis of values there are light lines; None leaves ticks and lines to ``paint``.
        rounds: the rounds that its horizontal axis counts, if it does.
        levels: the values of a setting that its horizontal axis shows, if it does.
        rows: names of its rows, the first on top, if it has rows.
        ends: of its vertical axis, once all panels that share it are drawn; None as the values ask.
    """

    paint: Callable[[Axes], None]
    title: str = ""
    x: str = ""
    y: str = ""
    grid: Literal["x", "y", "both"] | None = "y"
    rounds: Iterable[float | int] = ()
    levels: Iterable[float | int] = ()
    rows: Sequence[str] = ()
    ends: tuple[float | None, float | None] = (None, None)


def facets(
    panels: Sequence[Panel],
    height: float = 0.0,
    *,
    across: int = 0,
    head: str = "",
    bold: bool = False,
    legend: Legend | None = None,
    ncols: int = 0,
    legend_lines: int = 1,
    on: Figure | SubFigure | None = None,
    printed: bool = False,
    sharex: bool = False,
    sharey: bool | Literal["row"] = "row",
    width_ratios: Sequence[float | int] | None = None,
    height_ratios: Sequence[float | int] | None = None,
) -> Figure:
    """Small pictures side by side, with one legend below and one line above them.

    Args:
        panels: from left to right and downwards.
        height: of a new figure in inches; it is as wide as both columns of a page.
        across: how many panels stand side by side; 0 puts all in one line.
        head: the line above them.
        bold: whether that line is a heading, as beside printed numbers.
        legend: name -> how its series is drawn; None takes what the panels have labelled.
        ncols: columns of the legend; 0 puts it into ``legend_lines`` lines.
        legend_lines: lines that the legend fills, so that panels of two halves stand at equal heights.
        on: the part of a figure to draw on; None makes a new figure.
        printed: on the tinted ground of numbers that a paper prints.
        sharex: whether panels share the horizontal axis.
        sharey: whether panels, or those of a line, share the vertical axis.
        width_ratios: of the panels of a line.
        height_ratios: of the lines.
    """
    part = on if on is not None else new_figure(DOUBLE, height)
    across = min(across or len(panels), len(panels))
    grid = part.subplots(-(-len(panels) // across), across, squeeze=False, sharex=sharex, sharey=sharey,
                         width_ratios=width_ratios, height_ratios=height_ratios)  # fmt: skip
    drawn = list(zip(grid.flat, panels, strict=False))
    for axes, panel in drawn:
        _paint(axes, panel)
    for place, (axes, panel) in enumerate(drawn):
        above, below = (
            panels[other] if 0 <= other < len(panels) else None for other in (place - across, place + across)
        )
        left = panels[place - 1] if place % across and sharey else None
        _name(axes, panel, above, below if sharex else None, left)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    if printed:
        part.set_facecolor(PAPER_TINT)
        for axes in grid.flat:
            axes.set_facecolor(PAPER_TINT)
            axes.grid(axis="x", color="white", linewidth=0.8)
    _legend(part, legend, ncols, legend_lines)
    if bold or printed:
        part.suptitle(head, color=INK, fontweight="bold")
    elif head:
        part.suptitle(head, fontsize=7, color=QUIET)
    return part if isinstance(part, Figure) else part.figure


def _paint(axes: Axes, panel: Panel) -> None:
    if panel.grid is not None:
        light_grid(axes, panel.grid)
    if panel.rows:
        row_axis(axes, panel.rows)
    panel.paint(axes)
    if rounds := sorted(set(panel.rounds)):
        round_axis(axes, rounds)
    if levels := sorted(set(panel.levels)):
        level_axis(axes, levels)


def _name(axes: Axes, panel: Panel, above: Panel | None, below: Panel | None, left: Panel | None) -> None:
    """Title and names of the axes, but for those that a neighbour has too; ends of the vertical axis."""
    if panel.title and (above is None or above.title != panel.title):
        axes.set_title(panel.title)
    if below is None or below.x != panel.x:
        axes.set_xlabel(panel.x)
        axes.tick_params(labelbottom=True)
    if left is None or left.y != panel.y:
        axes.set_ylabel(panel.y)
    if panel.ends != (None, None):
        axes.set_ylim(*panel.ends)


def _legend(part: Figure | SubFigure, legend: Legend | None, ncols: int, lines: int) -> None:
    if legend is None:
        drawn = [axes.get_legend_handles_labels() for axes in part.get_axes()]
        legend = {name: handle for handles, names in drawn for handle, name in zip(handles, names, strict=True)}
    if not legend:
        return
    handles = [look.handle(name) if isinstance(look, Look) else look for name, look in legend.items()]
    blank = [Look(INK, "", "none").handle(" ")] * (lines - len(handles))
    part.legend([*handles, *blank], [*legend, *" " * len(blank)], loc="outside lower center",
                ncols=ncols or -(-len(legend) // lines), columnspacing=1.0, handlelength=1.8)  # fmt: skip


def by_column(lines: pd.DataFrame, paint: Callable[..., None], **panel: Any) -> list[Panel]:
    """A panel for each column of the numbers: ``paint(axes, part=that column's lines)``."""
    parts = {column: lines[lines["column"] == column] for column in order(lines["column"])}
    return [Panel(partial(paint, part=part), column, **panel) for column, part in parts.items()]


def two_parts(figure: Figure, ratios: Sequence[float | int], beside: bool) -> tuple[SubFigure, SubFigure]:
    """A figure's two halves: side by side, or one above the other."""
    if beside:
        first, second = figure.subfigures(1, 2, width_ratios=ratios, wspace=0.02, squeeze=False).flat
    else:
        first, second = figure.subfigures(2, 1, height_ratios=ratios, hspace=0.0, squeeze=False).flat
    return first, second


def curves(
    axes: Axes, part: pd.DataFrame, looks: Mapping[str, Look], by: str = "series", factor: float = 1.0,
    steps: bool = False,
) -> None:  # fmt: skip
    """For each look, the mean over seeds against x with a band of one standard deviation.

    Args:
        axes: where.
        part: tidy numbers with one value per x and seed in each group.
        looks: the group's name -> its look.
        by: the column that has these names.
        factor: what values are multiplied with.
        steps: as steps, for what holds until the next x.
    """
    for name, look in looks.items():
        found = part[part[by] == name].groupby("x")["value"].agg(["mean", "std"])
        if found.empty:
            continue
        x, mean, std = found.index.to_numpy(), factor * found["mean"].to_numpy(), factor * found["std"].fillna(0)
        axes.fill_between(x, mean - std, mean + std, color=look.color, alpha=0.14, linewidth=0,
                          step="mid" if steps else None)  # fmt: skip
        axes.plot(x, mean, drawstyle="steps-mid" if steps else "default", **look.style)


def error_bars(axes: Axes, x: Any, found: pd.DataFrame, look: Look, factor: float = 1.0) -> None:
    """Means with bars of one standard deviation; ``found`` has the columns mean and std."""
    axes.errorbar(x, factor * found["mean"], factor * found["std"].fillna(0), elinewidth=0.8, **look.style)


def seed_dots(axes: Axes, x: Any, y: Any, color: str = QUIET) -> None:
    """One pale dot for each seed."""
    axes.plot(x, y, "o", color=color, alpha=0.4, markersize=2.8, markeredgewidth=0)


def aside(n: int, step: float) -> np.ndarray:
    """Small shifts around 0, so that ``n`` marks of one place stay apart."""
    return step * (np.arange(n) - (n - 1) / 2)


def looks_of(lines: pd.DataFrame) -> dict[str, Look]:
    """A look for each series, in their order; a paper's own method has the same in every picture."""
    own = set(lines.loc[lines["role"] == "own", "series"])
    names = order(lines["series"])
    others = [name for name in names if name not in own]
    chosen = {name: OTHERS[place % len(OTHERS)] for place, name in enumerate(others)}
    return {name: chosen.get(name, OWN) for name in names}


def headline(item: Item, lines: pd.DataFrame, profile: str, marks: str = "", missing: Sequence[NotRun] = ()) -> str:
    """What was measured here and with how many seeds, what the marks are and what is missing."""
    words = "; ".join(filter(None, (setting_of(item, profile, lines).short, seeds_text(lines), marks)))
    reasons = [textwrap.fill(f"{one.column} was not run: {one.reason}", _REASON_WIDTH) for one in missing]
    return "\n".join([f"Measured here ({words})", *reasons])


def round_axis(axes: Axes, rounds: Sequence[float | int]) -> None:
    """Whole rounds from the first to the last one, at most eight of them named."""
    whole = [round(number) for number in rounds]
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if len(whole) / step <= _ROUNDS_NAMED)
    axes.set_xticks([r for r in whole if r % step == 0 or (r == whole[0] and step <= 2)])
    around = 0.05 * (whole[-1] - whole[0]) or 0.5
    axes.set_xlim(whole[0] - around, whole[-1] + around)  # also where the first rounds have no value


def level_axis(axes: Axes, levels: Sequence[float | int]) -> None:
    """Logarithmic where the largest level is many times the smallest; else linear, with labels that have room."""
    if levels[-1] / levels[0] > _LINEAR_UP_TO:
        axes.set_xscale("log")
        axes.set_xticks(levels, [f"{level:g}" for level in levels])
        axes.minorticks_off()
        return
    named = [level for level in levels if round(10 * level, 6) % 2 == 1] if len(levels) > _ROUNDS_NAMED else levels
    axes.set_xticks(named, [f"{level:g}" for level in named])
    # No level in the very middle: a point midway between two written digits is rounded by its last bit's noise.
    span = levels[-1] - levels[0]
    axes.set_xlim(levels[0] - span / 19, levels[-1] + span / 17)


def row_axis(axes: Axes, names: Sequence[str]) -> None:
    """Names down the vertical axis, the first on top, with room for a value above each row."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.75)


_FILLS = ((FAINT, QUIET, ""), (BLUE, BLUE, ""), ("white", ORANGE, "////"), ("white", GREEN, "...."))


def draw_bars(
    axes: Axes,
    values: Mapping[str, np.ndarray],
    names: Sequence[str],
    fills: Sequence[tuple[str, str, str]] = _FILLS,
    upright: bool = False,
) -> None:
    """A group of bars for each name; long names of groups stand upright."""
    width = 0.8 / len(values)
    for place, (shift, (name, heights)) in enumerate(zip(aside(len(values), width), values.items(), strict=True)):
        face, edge, hatch = fills[place % len(fills)]
        axes.bar(np.arange(len(heights)) + shift, heights, 0.9 * width, facecolor=face, edgecolor=edge, hatch=hatch,
                 linewidth=0.7, label=name)  # fmt: skip
    turned = upright or max(map(len, names)) > 12
    axes.set_xticks(range(len(names)), names, rotation=90 if turned else 0)
