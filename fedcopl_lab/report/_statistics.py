"""Counts of the paper's data sets: what our manifests hold beside what the paper prints."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item, printed
from fedcopl_lab.report._style import BLUE, DOUBLE, INK, ORANGE, QUIET, Look, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import metric_name, order

_COUNTED, _PRINTED = Look(BLUE, "o", "none"), Look(INK, "s", "none", hollow=True)


def statistics(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel for classes, training and test images; a filled dot is counted, a hollow square is printed."""
    sets = order(lines["series"])
    figure = new_figure(DOUBLE, 0.9 + 0.3 * len(sets))
    for axes, metric in zip(figure.subplots(1, len(item.metrics), sharey=True), item.metrics, strict=True):
        counted = lines[lines["metric"] == metric].set_index("series")["value"].reindex(sets)
        paper = printed(item.id, metric).set_index("series")["value"].reindex(sets)
        _panel(axes, counted, paper)
        axes.set_title(metric_name(metric))
        axes.set_yticks(range(len(sets)), sets)
        axes.set_ylim(len(sets) - 0.4, -0.7)
    handles = [legend_handle("counted in our manifests", _COUNTED),
               legend_handle("printed in the paper", _PRINTED, markersize=7),
               legend_handle("the two differ", Look(ORANGE, "o", "none"))]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=1.2)
    figure.suptitle("Counts of the paper's six data sets, logarithmic axes", fontsize=7, color=QUIET)
    return figure


def _panel(axes: Axes, counted: pd.Series, paper: pd.Series) -> None:
    percent_axis(axes, "x")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.margins(x=0.22)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for row, (ours, theirs) in enumerate(zip(counted, paper, strict=True)):
        same = ours == theirs
        axes.plot(ours, row, "o", color=BLUE if same else ORANGE, zorder=3)
        axes.plot(theirs, row, "s", color=INK, markerfacecolor="none", markersize=7, markeredgewidth=0.8, zorder=2)
        text = f"{ours:,.0f}" if same else f"{ours:,.0f} (printed {theirs:,.0f})"
        aside, anchor = (0, "center") if same else (-10, "left")
        axes.annotate(text, (theirs, row), (aside, 5), textcoords="offset points", ha=anchor, va="bottom",
                      fontsize=6.5, fontweight="normal" if same else "bold")  # fmt: skip
