"""Parts that the pictures share: panels at fixed places, axes, bars, and bubbles for clients × classes."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from fedcopl_lab.report.looks import INK, ORANGE, QUIET, Picture, every_few, light_grid

_NAMES_UP_TO = 12  # classes whose names fit under an axis
_TINT, _EDGE, _LOST = "#a9cfe8", "#3d7ea6", "#f0b48a"
_SMALLEST_CELL, _LARGEST_CELL = 13.0, 27.0  # points; numbers in narrower cells cannot be read
_MIDDLE = 0.365  # of the digits, in heights of the font


def panel(
    figure: Picture,
    box: tuple[float, float, float, float],
    title: str = "",
    grid: Literal["x", "y", "both", ""] = "y",
    **settings: Any,
) -> Axes:
    """Axes at a fixed place (left, bottom, width, height; shares of the figure) with its title on the left."""
    axes = figure.add_axes(box)
    axes.set_title(title, loc="left", pad=5)
    if grid:
        light_grid(axes, grid)
    axes.set(**settings)
    return axes


def moving_title(axes: Axes) -> Text:
    """A title that changes at every move: drawn with what is in the axes, not with their frame."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    return axes.annotate("", (0, 1), (0, 5), fontsize=mpl.rcParams["axes.titlesize"], **place)


def class_axis(axes: Axes, names: Sequence[str], label: bool = True) -> None:
    """Names under the classes as long as they fit, numbers beyond."""
    classes = len(names)
    axes.set_xlim(-0.6, classes - 0.4)
    if classes <= _NAMES_UP_TO and max(map(len, names)) * classes <= 7 * _NAMES_UP_TO:
        axes.set_xticks(range(classes), list(names))
    else:
        axes.set_xticks(every_few(classes))
    axes.tick_params(axis="x", length=0)
    if label:
        axes.set_xlabel("class")


def nice_top(value: float) -> float:
    """The end of an axis from 0: the next of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten, with room above."""
    if not value > 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(m for m in (1.2, 1.6, 2, 3, 4, 5, 6, 8, 10, 12) if m * power >= 1.04 * value) * power)


def note(axes: Axes, text: str) -> None:
    """Quiet words in the middle of a panel that has nothing to show."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=QUIET, fontsize=7.5)


def set_heights(bars: Any, heights: Any, bottoms: Any = None) -> None:
    """Change the bars' heights, and where they stand."""
    for number, bar in enumerate(bars):
        bar.set_height(float(heights[number]))
        if bottoms is not None:
            bar.set_y(float(bottoms[number]))


class Bubbles:
    """A panel of clients × classes: discs whose area is a number of images, changed in place."""

    def __init__(self, axes: Axes, names: Sequence[str]) -> None:
        self.axes, self.classes = axes, len(names)
        class_axis(axes, names)
        axes.set_ylabel("client")
        self.title = moving_title(axes)
        axes.grid(True, color="#efefef")
        axes.tick_params(length=0)
        self._discs = axes.scatter([], [], s=[], linewidth=0.5, zorder=2)
        self._numbers = axes.scatter([], [], s=[], color=INK, linewidth=0, zorder=3)
        self._numbers.set_snap(False)

    def show(self, counts: Int[np.ndarray, "k c"], top: float) -> None:
        """Show these counts, ``top`` of which fill a cell; negative ones are losses and drawn in orange."""
        clients, axes = len(counts), self.axes
        axes.set_ylim(clients - 0.4, -0.6)
        axes.set_yticks(every_few(clients, 20))
        box = axes.get_position()
        width, height = axes.figure.get_size_inches() * 72  # type: ignore[union-attr]
        cell = min(0.92 * box.height * height / clients, 0.96 * box.width * width / self.classes, _LARGEST_CELL)
        client, label = np.nonzero(counts)
        values = counts[client, label]
        widths = cell * np.sqrt(np.abs(values) / max(top, 1))
        places = np.column_stack([label, client])
        self._discs.set_offsets(places)
        self._discs.set_sizes(widths**2)
        self._discs.set_facecolor([_TINT if value > 0 else _LOST for value in values])
        self._discs.set_edgecolor([_EDGE if value > 0 else ORANGE for value in values])
        self._write(places, values, widths, 0.0 if cell < _SMALLEST_CELL else min(6.5, 0.42 * cell))

    def _write(
        self, places: Int[np.ndarray, "n 2"], values: Int[np.ndarray, "n"], widths: Float[np.ndarray, "n"], size: float
    ) -> None:
        """Numbers in the discs, or on the right of those that are too small; as outlines, which are drawn at once."""
        self._numbers.set_visible(size > 0)
        if not size:
            return
        words = [str(value).replace("-", "−") for value in values]
        outlines = []
        for word, width in zip(words, widths, strict=True):
            fits = width > 0.68 * size * len(word) + 2.5
            outlines.append(_outline(word, None if fits else round(float(0.5 * width / size), 2)))
        self._numbers.set_paths(outlines)
        self._numbers.set_offsets(places)
        self._numbers.set_sizes([size**2])


@cache
def _outline(word: str, right_of: float | None) -> Path:
    """The outline of a word of height 1, in the middle, or that far on the right of it."""
    path = TextPath((0, 0), word, size=1, prop=FontProperties("DejaVu Sans"))
    box = path.get_extents()
    left = -0.5 * (box.x0 + box.x1) if right_of is None else right_of + 0.25 - box.x0
    return Affine2D().translate(left, -_MIDDLE).transform_path(path)
