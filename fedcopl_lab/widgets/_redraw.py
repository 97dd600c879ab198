"""How a picture is redrawn: a scene changes its artists in place, and only what has changed is painted again."""

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from fedcopl_lab.report.looks import Picture, style

WIDTH = 8.6
"""Inches: fills the text column of a notebook."""
DPI = 110

P = TypeVar("P")


@dataclass(frozen=True)
class Readout:
    """What a picture shows.

    Attributes:
        text: in words, for the line under the picture.
        numbers: the same as plain values.
        note: what a reader must know besides, such as a fallback that was used; empty without.
    """

    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


class Scene(ABC, Generic[P]):
    """A figure that follows its parameters; the same parameters give the same pixels, whatever was shown before."""

    height = 4.9  # inches

    def __init__(self) -> None:
        with style():
            self.figure = Picture(figsize=(WIDTH, self.height), dpi=DPI)  # a layout engine would move everything
            FigureCanvasAgg(self.figure)
        self._built_for: Any = None

    def show(self, params: P, previous: P | None = None) -> Readout:
        """Redraw for these parameters; bad ones are refused before any artist is touched."""
        values = self._compute(params, previous)
        with style():
            if values.built_for != self._built_for:
                self.figure.clear()
                self._build(values)
                self._built_for = values.built_for
            self._update(values)
        return self._describe(values)

    def draw(self, params: P) -> Picture:
        """The figure for these parameters."""
        self.show(params)
        return self.figure

    @abstractmethod
    def _compute(self, params: P, previous: P | None) -> SimpleNamespace:
        """All numbers of the picture; the panels are built again when ``built_for`` among them changes."""

    @abstractmethod
    def _build(self, values: SimpleNamespace) -> None:
        """Make the panels and their artists."""

    @abstractmethod
    def _update(self, values: SimpleNamespace) -> None:
        """Change the artists."""

    @abstractmethod
    def _describe(self, values: SimpleNamespace) -> Readout:
        """The same in words."""


class PngPainter:
    """The pixels of a figure without layout engine, quickly: frames of axes are drawn again only when they change."""

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
        """The figure without what is inside its axes."""
        shown = [artist for artist in inside if artist.get_visible()]
        for artist in shown:
            artist.set_visible(False)
        self._canvas.draw()
        for artist in shown:
            artist.set_visible(True)
        return self._canvas.copy_from_bbox(self._figure.bbox)


def _inside(axes: Axes) -> list[Artist]:
    """What is in the axes, from the back to the front."""
    artists = [*axes.lines, *axes.collections, *axes.patches, *axes.texts, *axes.images]
    return sorted(artists, key=lambda artist: artist.get_zorder())


def _frame(axes: Axes) -> tuple[Any, ...]:
    """All that decides the look of the axes' frame."""
    ticks = [
        (tuple(one.get_majorticklocs()), getattr(one.get_major_formatter(), "seq", None))
        for one in (axes.xaxis, axes.yaxis)
    ]
    return axes, axes.get_visible(), axes.get_xlim(), axes.get_ylim(), axes.get_title("left"), ticks
