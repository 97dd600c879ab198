"""Discs whose area is a number of images, one for each client and class, changed in place."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.axes import Axes
from matplotlib.text import Text

from fedcopl_lab.report._style import ORANGE
from fedcopl_lab.widgets._canvas import class_axis, every_few

_TINT, _EDGE = "#a9cfe8", "#3d7ea6"
_LOST = "#f0b48a"
_SMALLEST_CELL = 13.0  # points; numbers in narrower cells cannot be read
_LARGEST = 27.0


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
        axes.grid(True, color="#efefef")
        axes.tick_params(length=0)
        self._discs = axes.scatter([], [], s=[], linewidth=0.5, zorder=2)
        self._texts: list[Text] = []

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
        if cell < _SMALLEST_CELL:
            label, client, values, widths = label[:0], client[:0], values[:0], widths[:0]
        size = min(6.5, 0.42 * cell)
        written = [str(value).replace("-", "−") for value in values]
        beside = np.array([width < 0.68 * size * len(word) + 2.5 for width, word in zip(widths, written, strict=True)])
        points = (self.classes + 0.2) / (box.width * width)  # of the class axis, in one point of paper
        self._write(label + points * beside * (widths / 2 + 1.5), client, written, beside, size)

    def _write(
        self,
        x: Float[np.ndarray, "_"],
        y: Int[np.ndarray, "_"],
        written: Sequence[str],
        beside: Shaped[np.ndarray, "_"],
        size: float,
    ) -> None:
        while len(self._texts) < len(written):
            self._texts.append(self.axes.text(0, 0, "", ha="center", va="center", zorder=3))
        for place, text in enumerate(self._texts):
            text.set_visible(place < len(written))
            if place < len(written):
                text.set_position((x[place], y[place]))
                text.set_text(written[place])
                text.set_horizontalalignment("left" if beside[place] else "center")
                text.set_fontsize(size)
