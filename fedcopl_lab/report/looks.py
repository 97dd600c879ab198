"""One look for every picture, and files that come out byte-identical each time."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Bbox
from PIL import Image

from fedcopl_lab._errors import check_choice

SINGLE, DOUBLE = 3.25, 6.75
"""Width in inches of one column and of both columns in the usual two-column templates."""
WIDTHS = {"single": SINGLE, "double": DOUBLE}
FONTS: dict[str, dict[str, Any]] = {  # both ship with matplotlib, so they are there on every machine
    "sans": {"font.family": ["DejaVu Sans"], "mathtext.fontset": "dejavusans"},
    "serif": {"font.family": ["STIXGeneral", "DejaVu Serif", "DejaVu Sans"], "mathtext.fontset": "stix"},
}


@dataclass(frozen=True)
class Sheet:
    """What a picture is drawn for.

    Attributes:
        width: ``"single"`` (one column of a page) or ``"double"`` (both).
        font: ``"sans"`` or ``"serif"``.
        heading: whether a line in the picture says what was measured; else its caption does.
        paper: whether what the paper prints stands beside what was measured.
    """

    width: str = "double"
    font: str = "sans"
    heading: bool = True
    paper: bool = True

    def __post_init__(self) -> None:
        check_choice("width", self.width, WIDTHS)
        check_choice("font", self.font, FONTS)

    @property
    def inches(self) -> float:
        """Its width."""
        return WIDTHS[self.width]


_WHOLE = Sheet()
_SHEET: ContextVar[Sheet] = ContextVar("sheet", default=_WHOLE)


def sheet() -> Sheet:
    """What is being drawn for; :func:`style` sets it."""
    return _SHEET.get()


INK, QUIET, FAINT, PAPER_TINT = "#1b1b1b", "#6a6a6a", "#d9d9d9", "#f4f1ea"
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2", "#d55e00", "#007a5a", "#8a4f7d", "#56b4e9"

_TICKS = {"labelsize": 7, "color": QUIET, "labelcolor": INK, "major.width": 0.6, "major.size": 2.5}
_RC: dict[str, Any] = {
    "figure.dpi": 110, "figure.facecolor": "white", "savefig.facecolor": "white",
    "font.size": 8, "figure.titlesize": 8, "axes.titlesize": 8, "axes.titleweight": "regular", "axes.labelsize": 8,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": QUIET, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.unicode_minus": True,
    "grid.color": "#e6e6e6", "grid.linewidth": 0.5, "lines.linewidth": 1.3, "lines.markersize": 4.2,
    "legend.fontsize": 7, "legend.frameon": False, "legend.handlelength": 2.2,
    "pdf.fonttype": 42, "ps.fonttype": 42,  # embed TrueType, as conference checkers ask
    "svg.fonttype": "path",  # letters as outlines: the same where DejaVu Sans is not installed
    "svg.hashsalt": "fedcopl_lab",
    **{f"{axis}tick.{name}": value for axis in "xy" for name, value in _TICKS.items()},
}  # fmt: skip
_MACHINE_SETTINGS = ("backend", "interactive", "toolbar", "timezone", "date.epoch", "tk.", "webagg.", "keymap.",
                     "savefig.directory", "docstring", "figure.max_open_warning", "mpl_toolkits.")  # fmt: skip


LineStyle = Literal["-", "--", "-.", ":", "none"] | tuple[float, Sequence[float]]
DASHED, DOTTED = (0.0, (4.0, 3.0)), (0.0, (1.0, 2.0))


@dataclass(frozen=True)
class Look:
    """How one series is drawn: colour, marker and line differ together, so that it also prints in grey."""

    color: str  # of line and marker
    marker: str = ""  # matplotlib's sign; empty for none
    line: LineStyle = "-"
    hollow: bool = False  # whether the marker has no filling
    size: float = 4.2  # of the marker in points
    width: float = 1.3  # of the line in points
    alpha: float = 1.0  # 1 is opaque; a paler marker has no edge

    @property
    def face(self) -> str:
        """Filling of the marker; a lone hollow one lets others show through."""
        return self.color if not self.hollow else "none" if self.line == "none" else "white"

    @property
    def style(self) -> dict[str, Any]:
        """Keyword arguments of ``Axes.plot`` and ``Line2D``."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.line, "linewidth": self.width,
                "markersize": self.size, "markerfacecolor": self.face,
                "markeredgewidth": 0.0 if self.alpha < 1 else 1.0, "alpha": self.alpha}  # fmt: skip

    def handle(self, label: str) -> Line2D:
        """An entry of a legend that looks like the series."""
        return Line2D([], [], label=label, **self.style)

    def __repr__(self) -> str:
        return f"Look({self.color}, {self.marker}, {self.line}{', hollow' if self.hollow else ''})"


LONG_DASHES = (0.0, (5.0, 1.0))
OWN = Look(BLUE, "o")
"""The papers' own methods, the same in every picture."""
OTHERS = (
    Look(ORANGE, "s", "--"), Look(PURPLE, "^", "-."), Look(GREEN, "v", ":"), Look(SKY, "P", LONG_DASHES),
    Look(QUIET, "D"), Look(INK, "X", "--"),
)  # fmt: skip
"""All other series, in their order."""
LOOKS = (Look(QUIET, "D"), OWN, OTHERS[0], OTHERS[2], OTHERS[1], OTHERS[3], OTHERS[5])
"""Series of arrays that a notebook passes, in their order."""
LOCAL, GLOBAL, EITHER, ADDED = OTHERS[0], OWN, Look(GREEN, "^", "-."), Look(INK, "v", ":", hollow=True)
"""SAGE's local and global model, the labels of either and those that the global one adds."""
BY_LEVEL = (Look(PURPLE, "o"), Look(SKY, "s", "--"), Look(INK, "^", ":"))
"""Splits of one table, the most uneven one first."""
SETS = (
    Look(INK, "o"), Look(QUIET, "s", "--"), Look(INK, "^", ":", hollow=True, size=6.0),
    Look(QUIET, "v", "-.", hollow=True, size=6.0), Look(INK, "D", hollow=True, size=6.0), Look(QUIET, "P"),
)  # fmt: skip
"""Data sets in panels of printed numbers."""
PAIR = (Look(INK, "o", "none"), Look(INK, "o", "none", hollow=True, size=6.0))
"""Two printed averages: a hollow marker around a filled one, so that both stay visible."""
ONE_SEED = Look(QUIET, "o", "none", size=2.8, alpha=0.4)
REFERENCE, LEVEL = Look(QUIET, line=DASHED, width=0.8), Look(QUIET, line=DOTTED, width=0.8)
"""Lines that a picture is read against: a row's value, and a value that was chosen."""


class SteadyLayout(ConstrainedLayoutEngine):
    """Constrained layout whose places are the same in every process.

    The solver underneath goes through its unknowns in the order of their memory addresses, so that its answers
    differ in the last bits; an edge that falls on half a pixel then lands on either side of it.
    """

    def execute(self, fig: Figure) -> None:
        """Lay the figure out, then round every place to a billionth of the figure."""
        super().execute(fig)
        for part in _subfigures(fig):
            part._redo_transform_rel_fig(bbox=_rounded(part.bbox_relative))
        for axes in fig.axes:
            if axes.get_in_layout():
                axes.set_position(_rounded(axes.get_position(original=True)))
                axes.set_in_layout(True)  # set_position takes the axes out of the layout


def _subfigures(figure: Any) -> Iterator[Any]:
    for part in figure.subfigs:
        yield part
        yield from _subfigures(part)


def _rounded(box: Any) -> Bbox:
    return Bbox(box.get_points().round(9))


class Picture(Figure):
    """A matplotlib figure that a notebook shows as it is, with no pyplot and no backend set up.

    Attributes:
        sheet: what it was drawn for.
        words: what was measured and what the marks are, for its caption.
    """

    sheet = Sheet()
    words = ""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = self.get_size_inches()
        return file_bytes(self, "png"), {"width": round(width * 110), "height": round(height * 110)}


@contextmanager
def style(drawn_for: Sheet | None = None) -> Iterator[None]:
    """Draw with the project's style, whatever the user's matplotlib settings are.

    Args:
        drawn_for: the width, font and parts wanted; None keeps what is set, at first both columns and everything.

    >>> with style():
    ...     figure = Figure(figsize=(3.25, 2.0))

    Shown in notebook ``00_quickstart``.
    """
    default: dict[Any, Any] = dict(mpl.rcParamsDefault.items())
    plain = {name: value for name, value in default.items() if not name.startswith(_MACHINE_SETTINGS)}
    now = drawn_for or sheet()
    token = _SHEET.set(now)
    try:
        with mpl.rc_context(plain | _RC | FONTS[now.font]):
            yield
    finally:
        _SHEET.reset(token)


def new_figure(width: float, height: float) -> Picture:
    """An empty figure with constrained layout, in inches; to be called inside :func:`style`."""
    figure = Picture(figsize=(width, height), layout=SteadyLayout())
    figure.sheet = sheet()
    FigureCanvasAgg(figure)
    return figure


def file_bytes(figure: Figure, kind: str, dpi: int = 200) -> bytes:
    """The picture as PDF, PNG or SVG without dates or versions: the same numbers give the same bytes."""
    left_out = {"pdf": ("CreationDate", "Producer", "Creator"), "png": ("Software",), "svg": ("Date", "Creator")}
    stream = io.BytesIO()
    with style(getattr(figure, "sheet", None)):
        figure.savefig(stream, format=kind, dpi=dpi, metadata=dict.fromkeys(left_out[kind]))
    return stream.getvalue()


def light_png(figure: Figure, dpi: int) -> bytes:
    """The picture as PNG with a palette of 256 colours: a third of the bytes, for a page that holds many."""
    picture = Image.open(io.BytesIO(file_bytes(figure, "png", dpi))).convert("RGB")
    stream = io.BytesIO()
    palette = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette.save(stream, "png", optimize=True)
    return stream.getvalue()


def text_width(text: str, size: float = 7.0, weight: str = "normal") -> float:
    """Inches that a text takes in the fonts that are set; its longest line, if it has several."""
    font = FontProperties(size=size, weight=weight)
    lines = filter(None, text.split("\n"))
    sizes = [text_to_path.get_text_width_height_descent(line, font, bool(is_math_text(line))) for line in lines]
    return max((width for width, _, _ in sizes), default=0.0) / 72


def fold(text: str, inches: float, size: float = 7.0) -> str:
    """A text broken between words so that it is no wider than so many inches, its own line breaks kept."""
    letters = max(4, int(inches * 72 / (0.6 * size)))
    return "\n".join(
        line if text_width(line, size) <= inches else textwrap.fill(line, letters, break_long_words=False)
        for line in text.split("\n")
    )


def every_few(count: int, at_most: int = 11) -> list[int]:
    """0, 1, 2, … or every second, fifth, … of them, so that their numbers do not meet."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if count / step <= at_most)
    return list(range(0, count, step))


def light_grid(axes: Axes, along: Literal["x", "y", "both"] = "y") -> None:
    """A light grid across the axis of values and no ticks on the other one."""
    axes.grid(True, axis=along)
    axes.tick_params(length=0, axis="y" if along == "x" else "x")
