"""Tables as an author prints them: typeset text between three rules, as wide as a column or a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedcopl_lab.report.looks import INK, PAPER_TINT, QUIET, SINGLE, fold, new_figure, sheet, text_width

_LINE, _GAP, _APART = 0.135, 0.1, 0.14  # inches: a line of text, between parts, between columns
_CELL_WIDTH = 1.1  # inches of a heading before it breaks
_SPARE = 0.7  # inches that a column is wider than its texts at most


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]  # name and cells of each
    groups: Sequence[tuple[str, int]] = ()  # headings over so many columns each
    bold: frozenset[tuple[int, int]] = frozenset()  # (row, column) numbers of cells
    own: frozenset[int] = frozenset()  # numbers of the rows whose names are in bold
    head: str = ""  # the line above it
    corner: str = ""  # heading of the names
    printed: bool = False  # on the tinted ground of numbers that a paper prints; left out where these are not wanted
    status: Sequence[tuple[str, int]] = ()  # what of so many columns was run; on the report's page only
    refs: Sequence[Sequence[str]] = ()  # of each cell, where its number comes from; on the page only


def typeset(grids: Sequence[Grid]) -> Figure:
    """The tables one below the other; one that is too wide goes on below, with the names of its rows again."""
    page = sheet()
    shown = [grid for grid in grids if page.paper or not grid.printed]
    parts = [part for grid in shown for part in _parts(grid, page.inches - 0.1, page.heading)]
    figure = new_figure(page.inches, sum(part.height for part in parts) + 0.1)
    figure.words = shown[0].head
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, page.inches)
    axes.set_ylim(sum(part.height for part in parts) + 0.1, 0)
    top = 0.05
    for part in parts:
        part.draw(axes, top, page.inches)
        top += part.height
    return figure


def _parts(grid: Grid, width: float, heading: bool) -> list["_Part"]:
    """As few parts as are no wider than the page, with as equal numbers of columns as can be."""
    names = [fold(name, 1.2 if width < SINGLE else 2.2) for name, _ in grid.rows]
    heads = [fold(column, _CELL_WIDTH) for column in grid.columns]
    cells = [[row[1][place] for row in grid.rows] for place in range(len(heads))]
    bold = [max(map(text_width, [head, *texts])) * 1.06 + _APART for head, texts in zip(heads, cells, strict=True)]
    first = max(map(text_width, [*names, grid.corner])) + _APART
    for count in range(1, len(heads) + 1):
        size = -(-len(heads) // count)
        pieces = [range(start, min(start + size, len(heads))) for start in range(0, len(heads), size)]
        if all(first + sum(bold[place] for place in piece) <= width for piece in pieces):
            break
    head = grid.head if heading or grid.printed else ""
    return [
        _Part(grid, names, heads, piece, [first, *(bold[place] for place in piece)], "" if place else fold(head, width))
        for place, piece in enumerate(pieces)
    ]


@dataclass(frozen=True)
class _Part:
    """Some columns of a grid, with the names of its rows."""

    grid: Grid
    names: Sequence[str]
    heads: Sequence[str]
    columns: range
    widths: Sequence[float]
    head: str

    @property
    def _groups(self) -> list[tuple[str, int, int]]:
        """(heading, first, last) of the groups that reach into these columns, counted from the first of them."""
        start, found = 0, []
        for name, span in self.grid.groups:
            inside = [place for place in self.columns if start <= place < start + span]
            if inside and name:
                found.append((name, inside[0] - self.columns[0], inside[-1] - self.columns[0]))
            start += span
        return found

    @property
    def _head_lines(self) -> int:
        return max([1, *(self.heads[place].count("\n") + 1 for place in self.columns)])

    @property
    def height(self) -> float:
        lines = self._head_lines + bool(self._groups) + sum(name.count("\n") + 1 for name in self.names)
        return (lines + (self.head.count("\n") + 1 if self.head else 0)) * _LINE + 3 * _GAP

    def draw(self, axes: Axes, top: float, width: float) -> None:
        """At so many inches from the top of a page of that width."""
        if self.grid.printed:
            axes.add_patch(Rectangle((0, top), width, self.height, color=PAPER_TINT, linewidth=0, zorder=0))
        if self.head:
            axes.text(0.05, top + 0.02, self.head, va="top", fontsize=7, linespacing=1.15, color=QUIET)
            top += (self.head.count("\n") + 1) * _LINE
        spare = min(_SPARE, (width - 0.1 - sum(self.widths)) / len(self.widths))
        ends, at = [], 0.05
        for wide in self.widths:
            at += wide + spare
            ends.append(at)
        top = self._headings(axes, top + _GAP / 2, ends)
        for row, (name, (_, cells)) in enumerate(zip(self.names, self.grid.rows, strict=True)):
            lines = name.count("\n") + 1
            middle = top + 0.5 * lines * _LINE
            _text(axes, 0.05, middle, name, row in self.grid.own)
            for place, end in zip(self.columns, ends[1:], strict=True):
                _text(axes, end - _APART / 2, middle, cells[place], (row, place) in self.grid.bold, ha="right")
            top += lines * _LINE
        _rule(axes, 0.05, ends[-1], top + 0.3 * _GAP, 0.9)

    def _headings(self, axes: Axes, top: float, ends: Sequence[float]) -> float:
        """Headings between the first and the second rule; where the rows begin."""
        _rule(axes, 0.05, ends[-1], top, 0.9)
        top += 0.3 * _GAP
        for name, first, last in self._groups:
            left, right = ends[first] + _APART / 2, ends[last + 1] - _APART / 2
            room = fold(name, right - left)
            axes.text((left + right) / 2, top + _LINE / 2, room, ha="center", va="center", fontsize=7)
            _rule(axes, left, right, top + _LINE, 0.4)
        top += _LINE * bool(self._groups)
        axes.text(0.05, top + _LINE * self._head_lines, self.grid.corner, va="bottom", fontsize=7, color=QUIET)
        for place, end in zip(self.columns, ends[1:], strict=True):
            axes.text(end - _APART / 2, top + _LINE * self._head_lines, self.heads[place], ha="right", va="bottom",
                      fontsize=7, linespacing=1.1)  # fmt: skip
        top += _LINE * self._head_lines + 0.2 * _GAP
        _rule(axes, 0.05, ends[-1], top, 0.6)
        return top + 0.2 * _GAP


def _text(axes: Axes, x: float, y: float, text: str, bold: bool, ha: Literal["left", "right"] = "left") -> None:
    axes.text(x, y, text, ha=ha, va="center", fontsize=7, fontweight="bold" if bold else "normal")


def _rule(axes: Axes, left: float, right: float, height: float, width: float) -> None:
    axes.plot([left, right], [height, height], color=INK, linewidth=width, solid_capstyle="butt")
