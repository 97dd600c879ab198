"""What the uploaded counts reveal and what noise on them costs."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedcopl_lab.paper import Item
from fedcopl_lab.report._curves import headline
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    GREEN,
    INK,
    ORANGE,
    QUIET,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
)
from fedcopl_lab.report._tables import summary
from fedcopl_lab.report._words import order, scale

_AS_IT_IS = "counts as they are"
_DISTANCE = {"upload_distance": (GREEN, "D")}
_ACCURACIES = {"accuracy": (BLUE, "o"), "label_accuracy": (ORANGE, "s")}
_NAMES = {"accuracy": "accuracy", "label_accuracy": "pseudo-label accuracy"}
_WITHOUT_UPLOAD, _PLAIN_LINE = (0, (4, 2)), (0, (1, 1.5))


def uploads(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Above over ε, below the uploads without ε; left what a server reads off, right what the noise costs."""
    plain = order(lines.loc[lines["column"] == "no ε", "series"])
    noisy = [name for name in order(lines["series"]) if name not in plain]
    figure = new_figure(DOUBLE, 4.35)
    grid = figure.subplots(2, 2, sharex="none", height_ratios=(2.1, 0.35 * len(plain)))
    sides = (_DISTANCE, _ACCURACIES)
    for column, metrics in enumerate(sides):
        above, below = grid[0, column], grid[1, column]
        for metric, (color, marker) in metrics.items():
            cells = summary(lines, metric)
            for name, look in _noise_looks(noisy, color, marker).items():
                _over_epsilon(above, cells[cells["series"] == name], look, scale(metric))
            _rows(below, cells, plain, Look(color, marker), scale(metric))
            asis = cells[(cells["series"] == _AS_IT_IS) & (cells["column"] == "no ε")]
            if len(asis):
                for axes in (above.axhline, below.axvline):
                    axes(scale(metric) * float(asis["mean"].iloc[0]), color=color, linewidth=1, linestyle=_PLAIN_LINE)
        _epsilon_axis(above, lines, item)
        below.set_ylim(len(plain) - 0.5, -0.5)
        below.set_yticks(range(len(plain)), plain if column == 0 else [""] * len(plain))
        percent_axis(below, "x")
        below.margins(x=0.1)
    guess = float(summary(lines, "upload_distance_global")["mean"].mean())
    for axes_line in (grid[0, 0].axhline, grid[1, 0].axvline):
        axes_line(guess, color=INK, linewidth=1, linestyle=_WITHOUT_UPLOAD)
    labels = ("total variation\nupload – true class shares", "share that is right (%)")
    for column, label in enumerate(labels):
        grid[0, column].set_ylabel(label)
        grid[1, column].set_xlabel(label.replace("\n", ", "))
    grid[0, 0].set_title("what the upload reveals (0: everything)")
    grid[0, 1].set_title("what noise costs")
    figure.legend(handles=_handles(noisy), loc="outside lower center", ncols=3, columnspacing=1.4)
    headline(figure, item, lines, profile, "upload_distance", "mean ± std")
    return figure


def _noise_looks(names: list[str], color: str, marker: str) -> dict[str, Look]:
    lines = (Look(color, marker), Look(color, marker, "--", hollow=True))
    return dict(zip(names, lines, strict=True))


def _over_epsilon(axes: Axes, cells: pd.DataFrame, look: Look, factor: float) -> None:
    epsilon = cells["column"].astype(float)
    aside = 0.96 if look.hollow else 1.04  # on a log axis, so that the bars of both kinds stay apart
    axes.errorbar(aside * epsilon, factor * cells["mean"], factor * cells["std"].fillna(0), color=look.color,
                  marker=look.marker, markerfacecolor=look.face, linestyle=look.line, elinewidth=0.8)  # fmt: skip


def _rows(axes: Axes, cells: pd.DataFrame, names: list[str], look: Look, factor: float) -> None:
    cells = cells[cells["column"] == "no ε"].set_index("series").reindex(names)
    axes.errorbar(factor * cells["mean"], np.arange(len(names)), xerr=factor * cells["std"].fillna(0), color=look.color,
                  marker=look.marker, linestyle="none", elinewidth=1.2)  # fmt: skip


def _epsilon_axis(axes: Axes, lines: pd.DataFrame, item: Item) -> None:
    values = sorted(float(column) for column in order(lines["column"]) if column != "no ε")
    percent_axis(axes)
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(f"{item.axis} (left: more noise)")


def _handles(noisy: list[str]) -> list[Line2D]:
    kinds = [legend_handle(name, look) for name, look in _noise_looks(noisy, QUIET, "o").items()]
    metrics = [legend_handle(_NAMES[metric], Look(*look, "none")) for metric, look in _ACCURACIES.items()]
    references = [
        Line2D([], [], color=QUIET, linewidth=1, linestyle=_PLAIN_LINE, label="upload without noise"),
        Line2D([], [], color=INK, linewidth=1, linestyle=_WITHOUT_UPLOAD, label="guess the global shares instead"),
    ]
    return [*kinds, *metrics, *references]
