"""Discs whose area is a number of images, one for each client and class, changed in place."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.text import Text

from fedcopl_lab.report._style import ORANGE
from fedcopl_lab.widgets._canvas import class_axis, every_few

_TINT, _EDGE = "#a9cfe8", "#3d7ea6"
_LOST = "#f0b48a"
_SMALLEST_CELL = 9.0  # points; numbers in narrower cells cannot be read


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
        cell = min(0.92 * box.height * height / clients, 0.96 * box.width * width / self.classes, 24.0)
        client, label = np.nonzero(counts)
        values = counts[client, label]
        widths = cell * np.sqrt(np.abs(values) / max(top, 1))
        self._discs.set_offsets(np.column_stack([label, client]) if len(values) else np.empty((0, 2)))
        self._discs.set_sizes(widths**2)
        self._discs.set_facecolor([_TINT if value > 0 else _LOST for value in values])
        self._discs.set_edgecolor([_EDGE if value > 0 else ORANGE for value in values])
        self._write(label, client, values if cell >= _SMALLEST_CELL else values[:0], min(6.5, 0.42 * cell))

    def _write(
        self, x: Int[np.ndarray, "_"], y: Int[np.ndarray, "_"], values: Int[np.ndarray, "_"], size: float
    ) -> None:
        while len(self._texts) < len(values):
            self._texts.append(self.axes.text(0, 0, "", ha="center", va="center_baseline", zorder=3))
        for place, text in enumerate(self._texts):
            text.set_visible(place < len(values))
            if place < len(values):
                text.set_position((x[place], y[place]))
                text.set_text(str(values[place]))
                text.set_fontsize(size)
