"""Accuracy against the number of clients and against the share that joins, one line for each method."""

import re
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._curves import headline, looks_of
from fedcopl_lab.report._style import DOUBLE, FAINT, QUIET, Look, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import axis_name, is_own, order

_AXES = {"K": "clients K", "R": "participation R, share of the clients in a round"}


def lines_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Left over K, right over R; a row for each data set; what could not be run is marked with its reason."""
    lines = lines[lines["metric"] == "accuracy"]
    lines = lines.join(pd.DataFrame([_parts(column) for column in lines["column"]], index=lines.index))
    missing = [(_parts(one.column), one) for one in item.not_run(profile)]
    sets, looks = order(lines["data"]), looks_of(order(lines["series"]))
    figure = new_figure(DOUBLE, 0.85 + 2.05 * len(sets) + 0.12 * len(missing))
    grid = figure.subplots(len(sets), len(_AXES), squeeze=False, sharey="row", width_ratios=(1.35, 1))
    for row, data in zip(grid, sets, strict=True):
        for axes, varied in zip(row, _AXES, strict=True):
            part = lines[(lines["data"] == data) & (lines["varied"] == varied)]
            gaps = [about["level"] for about, _ in missing if about["data"] == data and about["varied"] == varied]
            _panel(axes, part, looks, gaps)
            axes.set_xlabel(_AXES[varied])
            axes.set_title(data)
        row[0].set_ylabel(axis_name("accuracy"))
    handles = [legend_handle(name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
    headline(figure, item, lines, profile, "accuracy", "mean ± std", [one for _, one in missing])
    return figure


def _parts(column: str) -> dict[str, Any]:
    """``"DTD, K = 5"`` -> data set (empty where one stands for all), what is varied, and its level."""
    found = re.fullmatch(r"(?:(?P<data>.*), )?(?P<varied>[KR]) = (?P<level>[\d.]+)", column)
    assert found, column  # the item's own columns
    return {"data": found["data"] or "", "varied": found["varied"], "level": float(found["level"])}


def _panel(axes: Axes, part: pd.DataFrame, looks: dict[str, Look], not_run: list[float]) -> None:
    percent_axis(axes)
    levels = sorted({*part["level"], *not_run})
    axes.set_xscale("log")  # the levels are multiples of each other
    axes.minorticks_off()
    width = np.log(levels[-1] / levels[0]) or 1.0
    for place, (name, look) in enumerate(looks.items()):
        by_level = part[part["series"] == name].groupby("level")["value"].agg(["mean", "std"])
        # a step aside, so that the bars stay apart
        beside = np.exp(0.009 * width * (place - (len(looks) - 1) / 2))
        axes.errorbar(by_level.index.to_numpy() * beside, 100 * by_level["mean"], 100 * by_level["std"].fillna(0),
                      color=look.color, marker=look.marker, markerfacecolor=look.face, linestyle=look.line,
                      elinewidth=0.8, zorder=3 if is_own(name) else 2)  # fmt: skip
    edge = np.exp(0.05 * width)
    for level in not_run:
        axes.axvspan(level / edge, level * edge, facecolor="#f6f6f6", edgecolor=FAINT, hatch="////",
                     linewidth=0, zorder=0)  # fmt: skip
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(level, 0.5, "not run", rotation=90, transform=axes.get_xaxis_transform(), ha="center", va="center",
                  fontsize=7, color=QUIET, bbox=ground)  # fmt: skip
    axes.set_xlim(levels[0] / edge**1.3, levels[-1] * edge**1.3)
    axes.set_xticks(levels, [f"{level:g}" for level in levels])
