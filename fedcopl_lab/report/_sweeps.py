"""A setting turned from one end to the other: measured curves, and the paper's own in a panel apart."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from fedcopl_lab.config import configure
from fedcopl_lab.paper import Item, printed
from fedcopl_lab.report._curves import curve, headline, looks_of
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    INK,
    ORANGE,
    PAPER_TINT,
    PURPLE,
    QUIET,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
)
from fedcopl_lab.report._words import metric_name, order, scale, unit

_SWEPT = {"accuracy": Look(BLUE, "o"), "label_accuracy": Look(ORANGE, "s"), "loss_last_epoch": Look(PURPLE, "^")}
_PRINTED = (
    Look(INK, "o"), Look(QUIET, "s", "--"), Look(INK, "^", ":", hollow=True), Look(QUIET, "v", "-.", hollow=True),
)  # fmt: skip


def sweep(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel per measure over the swept setting; what the paper prints stands at the right, on its own ground."""
    metrics = [metric for metric in _SWEPT if metric in set(lines["metric"])]
    lines = lines.assign(x=lines["column"].astype(float))
    names, paper = order(lines["series"]), printed(item.id)
    figure = new_figure(DOUBLE, 2.5 if paper.empty else 2.8)
    left: Figure | SubFigure = figure
    if len(paper):
        left, right = figure.subfigures(1, 2, width_ratios=(len(metrics), 1), wspace=0.02, squeeze=False)[0]
        _printed_panel(right, paper, item)
    used = float(getattr(configure(profile, method=item.cells(profile)[0].config.method), item.field))
    for axes, metric in zip(left.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        part = lines[lines["metric"] == metric]
        for name, look in _looks(names, metric).items():
            own = part[part["series"] == name]
            curve(axes, own, look, scale(metric))
            axes.plot(own["x"], scale(metric) * own["value"], "o", color=look.color, alpha=0.3, markersize=2.5,
                      markeredgewidth=0)  # fmt: skip
        axes.axvline(used, color=QUIET, linewidth=0.8, linestyle=_DOTTED, zorder=0)
        axes.margins(y=0.18)
        axes.set_ylabel(metric_name(metric).replace(", ", ",\n") + unit(metric))
        _value_axis(axes, sorted(set(lines["x"])), item)
    named = _looks(names, metrics[0]) if len(names) > 1 else {"mean, band: ± std": Look(QUIET, "o")}
    handles = [legend_handle(name, look) for name, look in named.items()]
    handles += [
        legend_handle("one seed", Look(QUIET, "o", "none"), alpha=0.4, markersize=2.5),
        Line2D([], [], color=QUIET, linewidth=0.8, linestyle=_DOTTED, label=f"value in {profile}"),
    ]
    left.legend(handles=handles, loc="outside lower center", ncols=3 if paper.empty else 2, columnspacing=1.2)
    headline(left, item, lines, profile, metrics[0], beside_printed=len(paper) > 0)
    return figure


def _looks(names: list[str], metric: str) -> dict[str, Look]:
    return {names[0]: _SWEPT[metric]} if len(names) == 1 else looks_of(names)


def _printed_panel(part: SubFigure, paper: pd.DataFrame, item: Item) -> None:
    part.set_facecolor(PAPER_TINT)
    part.suptitle("Printed in the paper", fontsize=7, fontweight="bold")
    axes = part.subplots()
    axes.set_facecolor(PAPER_TINT)
    paper = paper.assign(x=paper["column"].astype(float))
    for look, (name, own) in zip(_PRINTED, paper.groupby("series", sort=False), strict=True):
        face = PAPER_TINT if look.hollow else look.color
        axes.plot(own["x"], own["value"], color=look.color, linestyle=look.line, marker=look.marker, markersize=3,
                  markerfacecolor=face, label=str(name).split(", ")[0])  # fmt: skip
    axes.margins(y=0.08)
    axes.set_ylabel("accuracy (%)")
    _value_axis(axes, sorted(set(paper["x"])), item)
    part.legend(loc="outside lower center", ncols=2, columnspacing=1.0, handlelength=1.8)


def _value_axis(axes: Axes, values: list[float], item: Item) -> None:
    """Logarithmic where each value is a multiple of the one before, else linear with labels that have room."""
    percent_axis(axes)
    symbol, _, words = item.axis.partition(", ")
    axes.set_xlabel(f"{symbol}\n{words}" if words else item.axis)
    if values[-1] / values[0] > _LINEAR_UP_TO:
        axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        axes.margins(x=0.08)
    else:
        labelled = [value for value in values if round(10 * value, 6) % 2 == 1] if len(values) > 8 else values
        axes.set_xticks(labelled, [f"{value:g}" for value in labelled])
        # No level in the very middle: a point midway between two written digits is rounded by its last bit's noise.
        span = values[-1] - values[0]
        axes.set_xlim(values[0] - span / 19, values[-1] + span / 17)


_DOTTED = (0, (1, 2))
_LINEAR_UP_TO = 10  # times the smallest value
