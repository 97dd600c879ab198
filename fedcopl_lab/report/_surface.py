"""Two settings turned together: a field of values with the paper's two cuts through it."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedcopl_lab.config import configure
from fedcopl_lab.paper import Item
from fedcopl_lab.report._curves import headline
from fedcopl_lab.report._style import DOUBLE, ORANGE, new_figure
from fedcopl_lab.report._tables import summary
from fedcopl_lab.report._words import mean_std, metric_name, order, scale, unit

_METRICS = ("accuracy", "label_accuracy")
_COLOURS = "cividis"  # the same order of lightness for every kind of colour vision, and in grey


def surface(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Means over seeds with their values; boxed: the paper's two cuts; in bold with a mark: the best cell."""
    figure = new_figure(DOUBLE, 4.0)
    metrics = [metric for metric in _METRICS if metric in set(lines["metric"])]
    for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0], metrics, strict=True):
        _panel(axes, summary(lines, metric), metric, profile)
        axes.set_xlabel(item.axis.replace(", ", "\n"))
    figure.axes[0].set_ylabel("τ2\nlevel of the entropy filter")
    marks = "means; white lines: the paper's cuts; orange box: best cell"
    headline(figure, item, lines, profile, metrics[0], marks)
    return figure


def _panel(axes: Axes, cells: pd.DataFrame, metric: str, profile: str) -> None:
    columns = order(cells["column"])
    rows = order(cells["series"])
    wide = scale(metric) * cells.pivot(index="series", columns="column", values="mean").loc[rows, columns].to_numpy()
    axes.pcolormesh(np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, wide, cmap=_COLOURS)
    low, high = float(np.nanmin(wide)), float(np.nanmax(wide))
    best = np.unravel_index(int(np.nanargmax(wide)), wide.shape)
    for (row, column), value in np.ndenumerate(wide):
        dark = (value - low) <= 0.55 * (high - low)
        weight = "bold" if (row, column) == best else "normal"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=6.5, fontweight=weight,
                  color="white" if dark else "black")  # fmt: skip
    levels = [float(row.split("= ")[1]) for row in rows]
    used = configure(profile, method="FedCoPL")
    for level, among, upright in ((used.q_conf, [float(c) for c in columns], True), (used.q_ent, levels, False)):
        if level in among:
            _cut(axes, among.index(level), wide.shape, upright)
    axes.add_patch(Rectangle((best[1] - 0.46, best[0] - 0.46), 0.92, 0.92, fill=False, edgecolor=ORANGE, linewidth=2))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), [f"{level:g}" for level in levels])
    axes.tick_params(length=0)
    axes.set_aspect("equal")
    top = cells[(cells["series"] == rows[best[0]]) & (cells["column"] == columns[best[1]])].iloc[0]
    name = metric_name(metric) + unit(metric)
    where = f"τ1 = {columns[best[1]]}, {rows[best[0]]}"
    axes.set_title(f"{name}\nbest: {mean_std(top['mean'], top['std'], metric)} at {where}", fontsize=7.5)


def _cut(axes: Axes, place: int, shape: tuple[int, ...], upright: bool) -> None:
    corner, width, height = ((place - 0.5, -0.5), 1, shape[0]) if upright else ((-0.5, place - 0.5), shape[1], 1)
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor="white", linewidth=1.6))
