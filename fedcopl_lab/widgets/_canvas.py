"""Pictures that are changed in place: a figure whose places are fixed by hand, and its pixels as PNG."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from fedcopl_lab.report.looks import QUIET, Picture, style

WIDTH = 8.6
"""Inches: fills the text column of a notebook."""
DPI = 110
DASHED = (0, (4, 3))
_NAMES_UP_TO = 12  # classes whose names fit under an axis


def fixed_figure(height: float) -> Picture:
    """An empty figure without layout engine, which would move everything at every change; to be called in ``style``."""
    figure = Picture(figsize=(WIDTH, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


class Painter:
    """The pixels of a figure, quickly: axes, titles and legends are drawn again only when they have changed.

    Args:
        figure: a figure without layout engine.
    """

    def __init__(self, figure: Picture) -> None:
        self._figure = figure
        self._canvas: Any = figure.canvas  # an Agg canvas, whose methods have no types
        self._ground: Any = None
        self._frames: list[Any] = []

    def png(self) -> bytes:
        """The figure as PNG, lightly compressed."""
        inside = [(axes, _inside(axes)) for axes in self._figure.axes if axes.get_visible()]
        with style():
            frames = [_frame(axes) for axes in self._figure.axes]
            if frames != self._frames:
                self._ground, self._frames = self._draw_ground([one for _, many in inside for one in many]), frames
            self._canvas.restore_region(self._ground)
            for axes, artists in inside:
                for artist in artists:
                    axes.draw_artist(artist)
        stream = io.BytesIO()
        Image.fromarray(np.asarray(self._canvas.buffer_rgba())[..., :3]).save(stream, "png", compress_level=1)
        return stream.getvalue()

    def _draw_ground(self, inside: Sequence[Artist]) -> Any:
        shown = [artist for artist in inside if artist.get_visible()]
        for artist in shown:
            artist.set_visible(False)
        self._canvas.draw()
        for artist in shown:
            artist.set_visible(True)
        return self._canvas.copy_from_bbox(self._figure.bbox)


def _inside(axes: Axes) -> list[Artist]:
    """What lies in the axes, from the back to the front."""
    artists = [*axes.lines, *axes.collections, *axes.patches, *axes.texts, *axes.images]
    return sorted(artists, key=lambda artist: artist.get_zorder())


def _frame(axes: Axes) -> tuple[Any, ...]:
    """All that the look of the axes' frame follows from."""
    ticks = [(tuple(one.get_majorticklocs()), getattr(one.get_major_formatter(), "seq", None))
             for one in (axes.xaxis, axes.yaxis)]  # fmt: skip
    return axes, axes.get_visible(), axes.get_xlim(), axes.get_ylim(), axes.get_title("left"), ticks


def to_png(figure: Picture) -> bytes:
    """The figure as PNG, all of it drawn anew."""
    return Painter(figure).png()


def panel(figure: Picture, box: tuple[float, float, float, float], title: str) -> Axes:
    """Axes at a fixed place (left, bottom, width, height; shares of the figure) with its title on the left."""
    axes = figure.add_axes(box)
    axes.set_title(title, loc="left", pad=5)
    return axes


def moving_title(axes: Axes) -> Text:
    """A title that changes at every move; it is drawn with what lies in the axes, not with their frame."""
    return axes.annotate(
        "", (0, 1), (0, 5), "axes fraction", "offset points", fontsize=mpl.rcParams["axes.titlesize"],
        annotation_clip=False,
    )  # fmt: skip


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


def every_few(count: int, at_most: int = 11) -> list[int]:
    """0, 1, 2, … or every second, fifth, … of them, so that their numbers do not meet."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if count / step <= at_most)
    return list(range(0, count, step))


def nice_top(value: float) -> float:
    """The end of an axis from 0: the next of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten, with room above."""
    if not value > 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(m for m in (1.2, 1.6, 2, 3, 4, 5, 6, 8, 10, 12) if m * power >= 1.04 * value) * power)


def note(axes: Axes, text: str) -> None:
    """Quiet words in the middle of a panel that has nothing to show."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=QUIET, fontsize=7.5)
