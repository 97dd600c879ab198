"""Discs whose area is a number of images, one for each client and class, changed in place."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from fedcopl_lab.report.looks import INK, ORANGE
from fedcopl_lab.widgets._canvas import class_axis, every_few, moving_title

_TINT, _EDGE = "#a9cfe8", "#3d7ea6"
_LOST = "#f0b48a"
_SMALLEST_CELL = 13.0  # points; numbers in narrower cells cannot be read
_LARGEST = 27.0
_MIDDLE = 0.365  # of the digits, in heights of the font


class Bubbles:
    """A panel of clients × classes.

    Args:
        axes: where to draw.
        names: class names.
    """

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
        """Show these counts; negative ones are losses and drawn in orange.

        Args:
            counts: a number for every client and class.
            top: the number that fills a cell.
        """
        clients, axes = len(counts), self.axes
        axes.set_ylim(clients - 0.4, -0.6)
        axes.set_yticks(every_few(clients, 20))
        box = axes.get_position()
        width, height = axes.figure.get_size_inches() * 72  # type: ignore[union-attr]
        cell = min(0.92 * box.height * height / clients, 0.96 * box.width * width / self.classes, _LARGEST)
        client, label = np.nonzero(counts)
        values = counts[client, label]
        widths = cell * np.sqrt(np.abs(values) / max(top, 1))
        self._discs.set_offsets(np.column_stack([label, client]) if len(values) else np.empty((0, 2)))
        self._discs.set_sizes(widths**2)
        self._discs.set_facecolor([_TINT if value > 0 else _LOST for value in values])
        self._discs.set_edgecolor([_EDGE if value > 0 else ORANGE for value in values])
        self._write(label, client, values, widths, 0.0 if cell < _SMALLEST_CELL else min(6.5, 0.42 * cell))

    def _write(
        self,
        x: Int[np.ndarray, "n"],
        y: Int[np.ndarray, "n"],
        values: Int[np.ndarray, "n"],
        widths: Float[np.ndarray, "n"],
        size: float,
    ) -> None:
        """Numbers in the discs, or on the right of those that are too small; as outlines, which are drawn at once."""
        self._numbers.set_visible(size > 0)
        if not size:
            return
        words = [str(value).replace("-", "−") for value in values]
        inside = [width > 0.68 * size * len(word) + 2.5 for width, word in zip(widths, words, strict=True)]
        self._numbers.set_paths([
            _outline(word, None if fits else round(float(0.5 * width / size), 2))
            for word, fits, width in zip(words, inside, widths, strict=True)
        ])  # fmt: skip
        self._numbers.set_offsets(np.column_stack([x, y]) if words else np.empty((0, 2)))
        self._numbers.set_sizes([size**2])


@cache
def _outline(word: str, right_of: float | None) -> Path:
    """The outline of a word of height 1, in the middle, or that far on the right of it."""
    path = TextPath((0, 0), word, size=1, prop=FontProperties("DejaVu Sans"))
    box = path.get_extents()
    left = -0.5 * (box.x0 + box.x1) if right_of is None else right_of + 0.25 - box.x0
    return Affine2D().translate(left, -_MIDDLE).transform_path(path)
