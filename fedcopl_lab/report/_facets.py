"""How every picture of an item is put together: panels with shared axes, one legend, one line that says what it is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedcopl_lab.paper import Item, NotRun
from fedcopl_lab.report._tables import seeds_text
from fedcopl_lab.report._words import order, setting_of
from fedcopl_lab.report.looks import (
    INK,
    OTHERS,
    OWN,
    PAPER_TINT,
    QUIET,
    SINGLE,
    Look,
    fold,
    light_grid,
    new_figure,
    sheet,
    text_width,
)

Legend = Mapping[str, Look | Artist]
_ROUNDS_NAMED = 8
LINEAR_UP_TO = 10  # times the smallest level


@dataclass(frozen=True)
class Panel:
    """One small picture among several."""

    paint: Callable[[Axes], None]
    title: str = ""  # left out where the panel above has the same
    x: str = ""  # name of the axis; left out where the panel below has the same
    y: str = ""  # left out where the panel to the left has the same
    grid: Literal["x", "y", "both"] | None = "y"  # axis of values with light lines; None leaves them to ``paint``
    rounds: Iterable[float | int] = ()  # that the horizontal axis counts, if it does
    levels: Iterable[float | int] = ()  # of a setting that the horizontal axis shows, if it does
    rows: Sequence[str] = ()  # their names, the first on top, if the panel has rows
    ends: tuple[float | None, float | None] = (None, None)  # of the vertical axis; None as the values ask


@dataclass(frozen=True)
class Block:
    """Small pictures with one legend below and one line above them: a picture, or one of its parts."""

    panels: Sequence[Panel]  # from left to right and downwards
    height: float  # of a line of panels in inches
    across: int = 0  # so many stand side by side where there is room; 0 puts all in one line
    least: float = 0.9  # inches that a panel needs beside another, without the names of its axis
    head: str = ""  # the line above them
    bold: bool = False  # whether that line is a heading, as beside printed numbers
    legend: Legend | None = None  # None takes what the panels have labelled
    printed: bool = False  # on the tinted ground of numbers that a paper prints; left out where these are not wanted
    sharex: bool = False
    sharey: bool | Literal["row"] = "row"
    width_ratios: Sequence[float | int] | None = None  # of a line's panels, where all wanted stand side by side
    height_ratios: Sequence[float | int] | None = None  # of the lines, likewise


def facets(panels: Sequence[Panel], height: float, *, width: float = 0.0, **block: Any) -> Figure:
    """A picture of one block; ``width`` in inches, 0 as wide as the sheet that is drawn on."""
    return compose([Block(panels, height, **block)], width=width)


def compose(blocks: Sequence[Block], ratios: Sequence[float | int] = (), width: float = 0.0) -> Figure:
    """Several blocks one above the other, or side by side where the ``ratios`` of their widths are given and fit.

    ``width`` in inches; 0 as wide as the sheet that is drawn on.
    """
    page, width = sheet(), width or sheet().inches
    shown = [block for block in blocks if page.paper or not block.printed]
    beside = bool(ratios) and len(shown) > 1 and width > SINGLE
    widths = [width * ratio / sum(ratios) for ratio in ratios] if beside else [width] * len(shown)
    plans = [_Plan(block, inches, page.heading) for block, inches in zip(shown, widths, strict=True)]
    heights = [plan.height for plan in plans]
    figure = new_figure(width, max(heights) if beside else sum(heights))
    figure.words = next((block.head for block in shown if not block.printed), "")
    # lines of legends, titles, names of axes, heads: as many on both sides, so that rows stand at equal heights
    lines = tuple(max(plan.word_lines[place] for plan in plans) if beside else 0 for place in range(4))
    if len(plans) == 1:
        parts: Sequence[Figure | SubFigure] = [figure]
    elif beside:
        parts = list(figure.subfigures(1, len(plans), width_ratios=ratios, wspace=0.02, squeeze=False).flat)
    else:
        parts = list(figure.subfigures(len(plans), 1, height_ratios=heights, hspace=0.0, squeeze=False).flat)
    for part, plan in zip(parts, plans, strict=True):
        plan.fill(part, lines)
    return figure


class _Plan:
    """How a block is laid out at a width: panels side by side, lines of its legend, words that fit."""

    def __init__(self, block: Block, width: float, heading: bool) -> None:
        self.block, self.width = block, width
        names = max((text_width(name) for panel in block.panels for name in panel.rows), default=0.4)
        count, wanted = len(block.panels), block.across or len(block.panels)
        room = int((width - names) / (block.least if block.sharey else block.least + 0.5))
        self.across = next(n for n in range(min(wanted, count), 0, -1) if (n <= room and wanted % n == 0) or n == 1)
        self.whole = self.across == min(wanted, count)
        self.lines = -(-count // self.across)
        self.panel_width = (width - names) / self.across
        bold = block.bold or block.printed
        self.head = fold(block.head if heading or block.printed else "", width - 0.1, 9.0 if bold else 7.0)
        self.legend_lines = _legend_lines(list(block.legend or ()), width - 0.1)
        self.titles = [fold(panel.title, 0.9 * self.panel_width, 8.0) for panel in block.panels]
        self.names = [fold(panel.x, 0.85 * self.panel_width, 8.0) for panel in block.panels]
        tallest = (1 + max(text.count("\n") for text in texts) for texts in (self.titles, self.names))
        self.word_lines = (self.legend_lines, *tallest, 1 + self.head.count("\n"))

    @property
    def height(self) -> float:
        """Inches that the block takes."""
        return self.block.height * self.lines + 0.15 * (self.legend_lines + (self.head.count("\n") + bool(self.head)))

    def fill(self, part: Figure | SubFigure, word_lines: tuple[int, ...]) -> None:
        """Draw the block; with so many lines in the legend, titles and names of axes at least."""
        block, across, panels = self.block, self.across, self.block.panels
        grid = part.subplots(self.lines, across, squeeze=False, sharex=block.sharex, sharey=block.sharey,
                             width_ratios=block.width_ratios if self.whole else None,
                             height_ratios=block.height_ratios if self.whole else None)  # fmt: skip
        drawn = list(zip(grid.flat, panels, strict=False))
        for axes, panel in drawn:
            _paint(axes, panel, self.panel_width)
        for place, (axes, _) in enumerate(drawn):
            self._name(axes, place, word_lines)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        if block.printed:
            part.set_facecolor(PAPER_TINT)
            for axes in grid.flat:
                axes.set_facecolor(PAPER_TINT)
                axes.grid(axis="x", color="white", linewidth=0.8)
        self._legend(part, word_lines[0])
        head = self.head + "\n" * (word_lines[3] - 1 - self.head.count("\n"))
        if block.bold or block.printed:
            part.suptitle(head, color=INK, fontweight="bold")
        elif self.head:
            part.suptitle(self.head, fontsize=7, color=QUIET)

    def _name(self, axes: Axes, place: int, word_lines: tuple[int, ...]) -> None:
        """Title and names of the axes, but for those that a neighbour has too; ends of the vertical axis."""
        block, panels, across = self.block, self.block.panels, self.across
        above = panels[place - across] if place >= across else None
        below = panels[place + across] if block.sharex and place + across < len(panels) else None
        left = panels[place - 1] if block.sharey and place % across else None
        panel, title, name = panels[place], self.titles[place], self.names[place]
        if panel.title and (above is None or above.title != panel.title):
            axes.set_title("\n" * (word_lines[1] - 1 - title.count("\n")) + title)
        if below is None or below.x != panel.x:
            axes.set_xlabel(name + "\n" * (word_lines[2] - 1 - name.count("\n")))
            axes.tick_params(labelbottom=True)
        if left is None or left.y != panel.y:
            axes.set_ylabel(fold(panel.y, block.height - 0.5, 8.0))
        if panel.ends != (None, None):
            axes.set_ylim(*panel.ends)

    def _legend(self, part: Figure | SubFigure, lines: int) -> None:
        legend = self.block.legend
        if legend is None:
            drawn = [axes.get_legend_handles_labels() for axes in part.get_axes()]
            legend = {name: handle for handles, names in drawn for handle, name in zip(handles, names, strict=True)}
        if not legend and not lines:
            return
        lines = lines or self.legend_lines or _legend_lines(list(legend), self.width - 0.1)
        across = max(1, -(-len(legend) // lines))
        entries = [(look.handle(name) if isinstance(look, Look) else look, name) for name, look in legend.items()]
        entries += [(Look(INK, "", "none").handle(" "), " ")] * (across * lines - len(entries))
        handles, names = zip(*(entry for place in range(across) for entry in entries[place::across]), strict=True)
        part.legend(handles, names, loc="outside lower center", ncols=across, columnspacing=1.0, handlelength=1.8)


def _legend_lines(names: Sequence[str], width: float) -> int:
    """The fewest lines of a legend that is no wider and is read from left to right; matplotlib fills it downwards."""
    wide = [text_width(name) + 0.4 for name in names]
    for lines in range(1, len(wide)):
        across = -(-len(wide) // lines)
        if sum(max(wide[place::across]) for place in range(across)) <= width:
            return lines
    return len(wide)


def _paint(axes: Axes, panel: Panel, width: float) -> None:
    if panel.grid is not None:
        light_grid(axes, panel.grid)
    if panel.rows:
        row_axis(axes, panel.rows)
    panel.paint(axes)
    if rounds := sorted(set(panel.rounds)):
        round_axis(axes, rounds, width)
    if levels := sorted(set(panel.levels)):
        level_axis(axes, levels)


def by_column(lines: pd.DataFrame, paint: Callable[..., None], **panel: Any) -> list[Panel]:
    """A panel for each column of the numbers: ``paint(axes, part=that column's lines)``."""
    parts = {column: lines[lines["column"] == column] for column in order(lines["column"])}
    return [Panel(partial(paint, part=part), column, **panel) for column, part in parts.items()]


def looks_of(lines: pd.DataFrame) -> dict[str, Look]:
    """A look for each series, in their order; a paper's own method has the same in every picture."""
    names, own = order(lines["series"]), set(lines.loc[lines["role"] == "own", "series"])
    others = [name for name in names if name not in own]
    chosen = {name: OTHERS[place % len(OTHERS)] for place, name in enumerate(others)}
    return {name: chosen.get(name, OWN) for name in names}


def headline(item: Item, lines: pd.DataFrame, profile: str, marks: str = "", missing: Sequence[NotRun] = ()) -> str:
    """What was measured here and with how many seeds, what the marks are and what is missing."""
    words = "; ".join(filter(None, (setting_of(item, profile, lines).short, seeds_text(lines), marks)))
    return "\n".join([f"Measured here ({words})", *(f"{one.column} was not run: {one.reason}" for one in missing)])


def round_axis(axes: Axes, rounds: Sequence[float | int], width: float) -> None:
    """Whole rounds from the first to the last one; at most eight of one digit or five of more, that fit, are named."""
    whole = [round(number) for number in rounds]
    most = max(1, min(_ROUNDS_NAMED if whole[-1] < 10 else 5, int(0.6 * width / text_width(f"{whole[-1]} "))))
    step = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200) if len(whole) / step <= most), 500)
    axes.set_xticks([r for r in whole if r % step == 0 or (r == whole[0] and step <= 2)])
    around = 0.05 * (whole[-1] - whole[0]) or 0.5
    axes.set_xlim(whole[0] - around, whole[-1] + around)  # also where the first rounds have no value


def level_axis(axes: Axes, levels: Sequence[float | int]) -> None:
    """Logarithmic where the largest level is many times the smallest; else linear, with labels that have room."""
    if levels[-1] / levels[0] > LINEAR_UP_TO:
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
