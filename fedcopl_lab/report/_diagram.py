"""The overview of FedCoPL in our own drawing: what stays on a client, what travels, and in which step."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from fedcopl_lab.paper import Item
from fedcopl_lab.report.looks import BLUE, DOUBLE, INK, QUIET, new_figure, sheet

_WIDTH, _HEIGHT = 13.5, 8.0  # drawing units; half an inch each
_COLUMNS = (1.6, 3.75, 5.5, 7.2, 9.1, 10.6, 12.0)  # centres of the seven steps
_SERVER, _CLIENT = 6.5, 3.2  # heights of the two rows of steps
_BOX = (1.9, 1.0)
_TALL = (6.5, 13.5)  # drawing units of the layout for one column
_SERVER_STEPS = {3: ("allocate", "same budget\nper class"), 6: ("aggregate", "weighted\naverage")}
_CLIENT_STEPS = {
    1: ("zero_shot", "score every\nown image"), 2: ("filter_confident", "keep the sure,\ncount classes"),
    4: ("select_top", "pseudo-labels\nup to the quota"), 5: ("train_round", "SGD on both\nprompts"),
    7: ("evaluate", "own test\nimages"),
}  # fmt: skip
_PHASES = ((1, 4, "label phase, every Q rounds"), (5, 7, "every round"))
_KEPT = ((1, 7, "frozen CLIP and the class names: the same on every client"),
         (1, 5, "unlabelled images: never leave the client"),
         (5, 7, "text prompt $P_k^t$: never leaves the client"))  # fmt: skip
"""First and last step that reads it, and what."""


def overview(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """The seven steps in two lanes, server and client, with all that crosses between them; downwards in one column."""
    tall = sheet().inches < DOUBLE
    width, height = _TALL if tall else (_WIDTH, _HEIGHT)
    figure = new_figure(sheet().inches, sheet().inches * height / width)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    for part in (_downwards,) if tall else (_lanes, _crossings, _steps, _phases, _kept):
        part(axes)
    return figure


def _downwards(axes: Axes) -> None:
    """One column: the server's lane at the left, the client's at the right, step below step."""
    server, client, half = 1.45, 4.85, _BOX[1] / 2
    heights = [11.6 - 1.35 * step for step in range(7)]
    one, two, three, four, five, six, seven = heights
    _panel(axes, 0.15, 2.75, 2.6, 10.6, "#eaf1f7", "none")
    _panel(axes, 3.05, 0.2, 3.3, 13.15, "#fbf7ef", "#d8cdb5")
    for x, name, what in ((0.3, "Server", "sees counts and\nvisual prompts only"), (3.2, "Client k", "one of K")):
        axes.text(x, 13.0, name, fontsize=9, fontweight="bold", va="center")
        axes.text(x, 12.75, what, fontsize=6.5, color=QUIET, va="top")
    left, right = client - 0.95, server + 0.75
    for above, below in ((one, two), (four, five)):
        _arrow(axes, [(client, above - half), (client, below + half)], QUIET)
    for start, across, end in ((two, three, four), (five, six, seven)):
        _arrow(axes, [(left, start), (server, start), (server, across + half)], BLUE)
        _arrow(axes, [(server, across - half), (server, end), (left, end)], BLUE)
    for y, text in (
        (two, "counts $u_k$"),
        (four, "quotas $\\tilde{u}_k$"),
        (five, "prompt $P_k^v$"),
        (seven, "average $P^v$"),
    ):
        axes.text(right, y + 0.12, text, fontsize=6.5, color=BLUE, ha="center", va="bottom")
    for steps, x in ((_SERVER_STEPS, server), (_CLIENT_STEPS, client)):
        for number, (name, what) in steps.items():
            _step(axes, x, heights[number - 1], number, name, what)
    for (first, last, text), y in zip(_KEPT, (1.6, 1.0, 0.4), strict=True):
        ground = "#e4e4e4" if first == 1 and last == 7 else "#f7d9c4"
        _panel(axes, 0.15, y, 6.2, 0.5, ground, "none")
        axes.text(3.25, y + 0.24, f"{first}–{last}: {text}", ha="center", va="center", fontsize=6)
    for first, last, text in _PHASES:
        top, bottom = heights[first - 1] + half, heights[last - 1] - half
        axes.plot([6.1, 6.2, 6.2, 6.1], [top, top, bottom, bottom], color=QUIET, linewidth=0.7)
        axes.text(6.2, (top + bottom) / 2, text, rotation=90, ha="center", va="center", fontsize=6.5, color=QUIET,
                  bbox={"facecolor": "#fbf7ef", "edgecolor": "none", "pad": 2})  # fmt: skip


def _lanes(axes: Axes) -> None:
    _panel(axes, 0.35, 5.7, 12.8, 2.0, "#eaf1f7", "none")
    for shift in (0.22, 0.11, 0.0):
        _panel(axes, 0.35 + shift, 0.25 + shift, 12.8 - 0.22, 4.3, "#fbf7ef", "#d8cdb5")
    for height, name, what in ((7.4, "Server", "sees counts and visual prompts, nothing else"),
                               (4.22, "Client k", "one of K")):  # fmt: skip
        axes.text(0.6, height, name, fontsize=9, fontweight="bold", va="center")
        axes.text(1.95, height, what, fontsize=7, color=QUIET, va="center")


def _steps(axes: Axes) -> None:
    for steps, height in ((_SERVER_STEPS, _SERVER), (_CLIENT_STEPS, _CLIENT)):
        for number, (name, what) in steps.items():
            _step(axes, _COLUMNS[number - 1], height, number, name, what)


def _step(axes: Axes, x: float, y: float, number: int, name: str, what: str) -> None:
    width, height = _BOX if len(name) > 12 else (1.5, _BOX[1])
    _panel(axes, x - width / 2, y - height / 2, width, height, "white", INK)
    axes.text(x, y + 0.22, name, ha="center", va="center", fontsize=5.8, family="DejaVu Sans Mono", fontweight="bold")
    axes.text(x, y - 0.17, what, ha="center", va="center", fontsize=5.8, color=QUIET, linespacing=1.1)
    badge = {"boxstyle": "circle,pad=0.22", "facecolor": INK, "edgecolor": "none"}
    corner = (x - width / 2 + 0.05, y + height / 2 - 0.02)
    axes.text(
        *corner, str(number), ha="center", va="center", fontsize=6.5, color="white", fontweight="bold", bbox=badge
    )


def _crossings(axes: Axes) -> None:
    one, two, three, four, five, six, seven = _COLUMNS
    half, top = 0.75, _CLIENT + _BOX[1] / 2
    _arrow(axes, [(one + half, _CLIENT), (two - _BOX[0] / 2, _CLIENT)], QUIET)
    _arrow(axes, [(four + half, _CLIENT), (five - half, _CLIENT)], QUIET)
    _arrow(axes, [(two, top), (two, _SERVER), (three - half, _SERVER)], BLUE)
    _arrow(axes, [(three + half, _SERVER), (four, _SERVER), (four, top)], BLUE)
    _arrow(axes, [(five, top), (five, _SERVER), (six - half, _SERVER)], BLUE)
    _arrow(axes, [(six + half, _SERVER), (seven, _SERVER), (seven, top)], BLUE)
    for x, text in ((two, "counts $u_k$\nC integers"), (four, "quotas $\\tilde{u}_k$\nC integers"),
                    (five, "visual prompt\n$P_k^v$"), (seven, "average $P^v$\nto all")):  # fmt: skip
        left = x == seven
        axes.text(x - 0.15 if left else x + 0.15, 5.12, text, fontsize=6.5, color=BLUE, va="center",
                  ha="right" if left else "left", linespacing=1.25)  # fmt: skip


def _phases(axes: Axes) -> None:
    for first, last, text in _PHASES:
        start, end, y = _COLUMNS[first - 1] - 0.75, _COLUMNS[last - 1] + 0.75, 2.42
        axes.plot([start, start, end, end], [y + 0.1, y, y, y + 0.1], color=QUIET, linewidth=0.7)
        axes.text((start + end) / 2, y, text, ha="center", va="center", fontsize=6.5, color=QUIET,
                  bbox={"facecolor": "#fbf7ef", "edgecolor": "none", "pad": 2})  # fmt: skip


def _kept(axes: Axes) -> None:
    colors = (("#e4e4e4", INK), ("#f7d9c4", "#7a3400"), ("#f7d9c4", "#7a3400"))
    for (first, last, text), y, (face, ink) in zip(_KEPT, (1.62, 1.04, 0.46), colors, strict=True):
        start, end = _COLUMNS[first - 1] - 0.75, _COLUMNS[last - 1] + 0.75
        _panel(axes, start, y, end - start, 0.44, face, "none")
        axes.text((start + end) / 2, y + 0.21, text, ha="center", va="center", fontsize=6.5, color=ink)


def _arrow(axes: Axes, points: list[tuple[float, float]], color: str) -> None:
    path = Path(points, [Path.MOVETO] + [Path.LINETO] * (len(points) - 1))
    axes.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=8, color=color, linewidth=1.3,
                                   shrinkA=0, shrinkB=0, joinstyle="round"))  # fmt: skip


def _panel(axes: Axes, x: float, y: float, width: float, height: float, face: str, edge: str) -> None:
    outline = "round,pad=0,rounding_size=0.12"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=outline, facecolor=face, edgecolor=edge, linewidth=0.7)
    )
