"""Labelled and unlabelled images of every class on every client, in one picture: two discs of one scale."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedcopl_lab.paper import Item
from fedcopl_lab.report._style import DOUBLE, ORANGE, QUIET, new_figure
from fedcopl_lab.report._words import order, setting_of

_POOL, _EDGE = "#a9cfe8", "#3d7ea6"
_CLIENT = 0.2  # inches that a client has
_FULL = 13.0  # points, diameter of the largest disc


def two_skews(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel for each α: area of the pale disc: unlabelled images; of the dark one on it: labelled images."""
    lines = lines[lines["seed"] == lines["seed"].min()]
    columns, top = order(lines["column"]), float(lines["value"].max())
    clients, classes = int(lines["y"].max()) + 1, int(lines["x"].max()) + 1
    figure = new_figure(DOUBLE, 1.1 + _CLIENT * clients)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    size = min(_FULL, 0.8 * 72 * DOUBLE / len(columns) / classes)
    for axes, column in zip(panels, columns, strict=True):
        for part, look in _DISCS.items():
            _discs(axes, lines[(lines["column"] == column) & (lines["metric"] == part)], size / np.sqrt(top), look)
        axes.set_xlim(-0.7, classes - 0.3)
        axes.set_ylim(clients - 0.3, -0.7)
        axes.set_xticks(range(0, classes, 1 if classes <= 12 else 10))
        axes.set_yticks(range(clients))
        axes.grid(True, color="#efefef")
        axes.tick_params(length=0)
        axes.set_title(column)
        axes.set_xlabel("class")
    panels[0].set_ylabel("client")
    shown = sorted({max(1, round(top / 4)), round(top)})
    handles = [
        Line2D([], [], linestyle="none", marker="o", markersize=size * np.sqrt(n / top), color=look["color"],
               markeredgecolor=look["edgecolor"], markeredgewidth=0.5, label=f"{n} {part}")
        for part, look in _DISCS.items() for n in (shown if part == "unlabelled" else shown[:1])
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    words = f"{setting_of(item, profile, lines).short}; area: images; seed {lines['seed'].min()}"
    figure.suptitle(words, fontsize=7, color=QUIET)
    return figure


def _discs(axes: Axes, part: pd.DataFrame, points: float, look: dict[str, str]) -> None:
    there = part[part["value"] > 0]
    sizes = (points * np.sqrt(there["value"])) ** 2
    axes.scatter(there["x"], there["y"], s=sizes, linewidth=0.5, zorder=2, color=look["color"],
                 edgecolor=look["edgecolor"])  # fmt: skip


_DISCS = {"unlabelled": {"color": _POOL, "edgecolor": _EDGE}, "labelled": {"color": ORANGE, "edgecolor": "white"}}
