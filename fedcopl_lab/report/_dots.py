"""A table as a picture: measured rows as dots, and the printed numbers in a panel of their own."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from fedcopl_lab.paper.items import Item
from fedcopl_lab.paper.printed import printed
from fedcopl_lab.report._style import (
    DOUBLE,
    INK,
    LOOKS,
    PAPER_TINT,
    QUIET,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
)
from fedcopl_lab.report._tables import seeds_text, summary
from fedcopl_lab.report._words import mean_std, order, setting_of


def table_dots(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, x = client-mean accuracy, one panel per column; the printed numbers at the right."""
    cells = summary(lines)
    rows, columns = order(cells["series"]), order(cells["column"])
    figure = new_figure(DOUBLE, 1.1 + 0.36 * len(rows))
    widths = [1.15 + len(columns), 1.5 if len(columns) > 1 else 1.3]
    left, right = figure.subfigures(1, 2, width_ratios=widths, wspace=0.02, squeeze=False)[0]
    left.suptitle(f"Measured here ({setting_of(item, profile).short}; {seeds_text(lines)})", fontweight="bold")
    panels = left.subplots(1, len(columns), sharex=True, sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        _measured_panel(axes, lines[lines["column"] == column], cells[cells["column"] == column], rows)
        axes.set_title(column)
        axes.set_xlabel("client-mean accuracy (%)")
    right.set_facecolor(PAPER_TINT)
    _printed_panel(right, item, rows)
    zero_shot = any(series.startswith("Zero-shot") for series in rows)
    handles = [legend_handle("one seed", Look(QUIET, "o", "none"), alpha=0.4, markersize=3),
               legend_handle("mean ± std", Look(QUIET, "o"))]  # fmt: skip
    handles += (
        [Line2D([], [], color=QUIET, linestyle=(0, (4, 3)), linewidth=0.8, label="zero-shot")] if zero_shot else []
    )
    # as many lines as the printed panel's legend, so that the rows of both panels stand at equal heights
    left.legend(handles=handles, loc="outside lower center", ncols=3 if zero_shot else 1)
    return figure


def _measured_panel(axes: Axes, lines: pd.DataFrame, cells: pd.DataFrame, rows: list[str]) -> None:
    percent_axis(axes, "x")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.45, -0.75)
    axes.margins(x=0.12)
    means = lines[lines["metric"] == "accuracy"]
    for row, series in enumerate(rows):
        look = _row_look(series, row)
        values = 100 * means.loc[means["series"] == series, "value"].to_numpy(dtype=float)
        found = cells[cells["series"] == series]
        if found.empty:
            continue
        mean, std = float(found["mean"].iloc[0]), float(found["std"].iloc[0])
        if series.startswith("Zero-shot"):
            axes.axvline(100 * mean, color=QUIET, linestyle=(0, (4, 3)), linewidth=0.8, zorder=1)
        axes.plot(
            values,
            np.full(len(values), row + 0.22),
            "o",
            color=look.color,
            alpha=0.4,
            markersize=2.8,
            markeredgewidth=0,
        )
        if not np.isnan(std):
            axes.plot([100 * (mean - std), 100 * (mean + std)], [row, row], "-", color=look.color, linewidth=1.6)
        axes.plot(
            100 * mean, row, look.marker, color=look.color, markersize=5.5, markeredgecolor="white", markeredgewidth=0.6
        )
        bold = "bold" if mean == cells["mean"].max() else "normal"  # as the tables mark the best
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.annotate(mean_std(mean, std), (100 * mean, row), (0, 6), textcoords="offset points", ha="center",
                      va="bottom", fontsize=6.5, fontweight=bold, bbox=ground)  # fmt: skip


def _printed_panel(part: SubFigure, item: Item, rows: list[str]) -> None:
    part.suptitle("Printed in the paper", fontweight="bold", color=INK)
    axes = part.subplots()
    axes.set_facecolor(PAPER_TINT)
    axes.grid(True, axis="x", color="white", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [""] * len(rows))
    axes.tick_params(length=0, axis="y")
    axes.set_ylim(len(rows) - 0.45, -0.75)
    table = printed(item.id)
    if item.id == "fedcopl_main_table1":
        axes.set_title("average of six data sets, ViT-B/32")
        groups = {"β = 0.1": "Average, β = 0.1", "β = 0.05": "Average, β = 0.05"}
        looks = {"β = 0.1": Look(INK, "o"), "β = 0.05": Look(INK, "o", hollow=True)}
    else:
        axes.set_title("β = 0.1, ViT-B/32")
        groups = {name: f"{name}, β = 0.1" for name in ("DTD", "RESISC45", "CUB", "UCF101")}
        looks = {
            "DTD": Look(INK, "o"),
            "RESISC45": Look(QUIET, "s"),
            "CUB": Look(INK, "^", hollow=True),
            "UCF101": Look(QUIET, "v", hollow=True),
        }
    for name, column in groups.items():
        values = table[table["column"] == column].set_index("series")["value"].reindex(rows)
        look = looks[name]
        size = 6.5 if look.hollow else 4  # a hollow marker around a filled one: both stay visible
        face = "none" if look.hollow else look.color
        axes.plot(
            values, range(len(rows)), look.marker, color=look.color, markerfacecolor=face, markersize=size, label=name
        )
    for row, series in enumerate(rows):
        if table[(table["series"] == series) & table["column"].isin(groups.values())].empty:
            axes.text(0.5, row, "not printed for all six sets", transform=axes.get_yaxis_transform(), ha="center",
                      va="center", color=QUIET, fontsize=6.5, style="italic")  # fmt: skip
    axes.margins(x=0.1)
    axes.set_xlabel("accuracy (%)")
    part.legend(
        loc="outside lower center", ncols=2 if len(groups) > 2 else len(groups), handlelength=1.2, columnspacing=1.2
    )


def _row_look(series: str, row: int) -> Look:
    return LOOKS[3] if "FedCoPL" in series else LOOKS[row % 3]
