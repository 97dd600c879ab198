"""SAGE's measures over the rounds: counts, shares, accuracies, lambda, entropies, one small panel for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._curves import MEAN_AND_BAND, curve, headline, looks_of
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
)
from fedcopl_lab.report._words import order, scale

LOCAL, GLOBAL = Look(ORANGE, "s", "--"), Look(BLUE, "o")
"""The local and the global model look the same in every picture."""

CPG, ADDED = Look(GREEN, "^", "-."), Look(INK, "v", ":", hollow=True)
ALPHA_LOOKS = (Look(PURPLE, "o"), Look(SKY, "s", "--"), Look(INK, "^", ":"))
"""The three α, the most uneven split first."""


@dataclass(frozen=True)
class Panels:
    """One line of panels.

    Attributes:
        ylabel: what they measure.
        metrics: metric -> name of its curve; with ``by_alpha`` metric -> title of its panel.
        looks: a look for each metric; by α they are the same everywhere.
    """

    ylabel: str
    metrics: Mapping[str, str]
    looks: Sequence[Look] = (LOCAL, GLOBAL, CPG, ADDED)


_TWO = {"local": "local model", "global": "global model"}
_CPG = {**_TWO, "cpg": "either (CPG)", "added": "added by the global model"}
_COUNTS = (Panels("pseudo-labels in a round", {f"n_{key}": name for key, name in _TWO.items()}),)
_THREE = {key: _CPG[key] for key in ("local", "global", "cpg")}
_QUALITY = (
    Panels("views with a label (%)", {f"share_{key}": name for key, name in _CPG.items()}),
    Panels("of these labels\nright (%)", {f"label_accuracy_{key}": name for key, name in _CPG.items()}),
    Panels("minority classes:\nviews with a label (%)",
           {f"share_minority_{key}": name for key, name in _THREE.items()}),
    Panels("minority classes:\nof these right (%)",
           {f"label_accuracy_minority_{key}": name for key, name in _THREE.items()}),
)  # fmt: skip

_BY_ALPHA: dict[str, tuple[Panels, ...]] = {
    "sage_supp_fig10": (
        Panels("λ, mean", {"lambda": "all views", "lambda_sure": "views where the local\nmodel is confident"}),
    ),
    "sage_supp_fig12": (
        Panels("entropy of predictions\n(nats)",
               {"entropy_global": "(a) global model", "entropy_local": "(b) local model"}),
        Panels("entropy of the histogram\nof confidences (nats)",
               {"histogram_entropy_global": "", "histogram_entropy_local": ""}),
    ),
}  # fmt: skip
_BY_METRIC: dict[str, tuple[Panels, ...]] = {
    "sage_main_fig2b": _COUNTS,
    "sage_supp_fig11": _COUNTS,
    "sage_main_fig7": _QUALITY,
    "sage_supp_fig13": _QUALITY,
}
_GROUPS = Panels(
    "λ, mean",
    {"lambda_majority": "majority classes of the client", "lambda_minority": "minority classes of the client"},
    (Look(GREEN, "D"), Look(ORANGE, "v", "--", hollow=True)),
)


def rounds_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Curves over the rounds with bands over seeds; which panels there are depends on the item."""
    kinds = {"sage_main_fig8": _by_method, "sage_supp_fig10": _lambda, "sage_supp_fig12": _by_alpha}
    figure = kinds.get(item.id, _by_metric)(item, lines, profile)
    for axes in figure.axes:  # once all panels are drawn: those that share an axis share its end
        share = "right (%)" in axes.get_ylabel()
        axes.set_ylim(0, 104 if share else None)
    return figure


def _by_metric(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    columns, rows = order(lines["column"]), _BY_METRIC[item.id]
    if len(columns) == 1 and len(rows) > 1:  # the measures side by side, two and two
        figure = new_figure(DOUBLE, 4.1)
        grid = figure.subplots(2, 2, squeeze=False)
        for axes, row in zip(grid.flat, rows, strict=True):
            _metric_panel(axes, lines, row)
    else:
        figure = new_figure(DOUBLE, 0.75 + 1.6 * len(rows))
        grid = figure.subplots(len(rows), len(columns), squeeze=False, sharey="row", sharex=True)
        for panels, row in zip(grid, rows, strict=True):
            for axes, column in zip(panels, columns, strict=True):
                _metric_panel(axes, lines[lines["column"] == column], row)
            for axes in panels[1:]:
                axes.set_ylabel("")
        for axes, column in zip(grid[0], columns, strict=True):
            axes.set_title(column)
        for panels in grid[:-1]:
            for axes in panels:
                axes.set_xlabel("")
    handles = [legend_handle(name, look) for name, look in zip(rows[0].metrics.values(), rows[0].looks, strict=False)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
    headline(figure, item, lines, profile, item.metrics[0], MEAN_AND_BAND)
    return figure


def _metric_panel(axes: Axes, lines: pd.DataFrame, row: Panels) -> None:
    for metric, look in zip(row.metrics, row.looks, strict=False):
        curve(axes, lines[lines["metric"] == metric], look, scale(metric))
    _finish(axes, lines, row.ylabel)


def _by_alpha(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    rows = _BY_ALPHA[item.id]
    figure = new_figure(DOUBLE, 0.75 + 1.75 * len(rows))
    grid = figure.subplots(len(rows), len(rows[0].metrics), squeeze=False, sharex=True, sharey="row")
    for panels, row in zip(grid, rows, strict=True):
        for axes, (metric, title) in zip(panels, row.metrics.items(), strict=True):
            _alpha_panel(axes, lines[lines["metric"] == metric], row.ylabel if axes is panels[0] else "")
            axes.set_title(title)
            if panels is not grid[-1]:
                axes.set_xlabel("")
    _alpha_legend(figure, lines)
    headline(figure, item, lines, profile, item.metrics[0], MEAN_AND_BAND)
    return figure


def _lambda(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    columns = order(lines["column"])
    figure = new_figure(DOUBLE, 5.0)
    upper, lower = figure.subfigures(2, 1, hspace=0.02, squeeze=False)[:, 0]
    (row,) = _BY_ALPHA[item.id]
    panels = upper.subplots(1, len(row.metrics), sharey=True, squeeze=False)[0]
    for axes, (metric, title) in zip(panels, row.metrics.items(), strict=True):
        _alpha_panel(axes, lines[lines["metric"] == metric], row.ylabel if axes is panels[0] else "")
        axes.set_title(f"(a) {title}".replace("\n", " "))
    _alpha_legend(upper, lines)
    panels = lower.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        _metric_panel(axes, lines[lines["column"] == column], _GROUPS)
        axes.set_title(f"(b) {column}")
        axes.set_ylabel(_GROUPS.ylabel if axes is panels[0] else "")
    handles = [legend_handle(name, look) for name, look in zip(_GROUPS.metrics.values(), _GROUPS.looks, strict=True)]
    lower.legend(handles=handles, loc="outside lower center", ncols=2)
    headline(figure, item, lines, profile, item.metrics[0], MEAN_AND_BAND)
    return figure


def _by_method(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    (metric,) = item.metrics
    columns, looks = order(lines["column"]), looks_of(order(lines["series"]))
    figure = new_figure(DOUBLE, 2.6)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for name, look in looks.items():
            part = lines[(lines["column"] == column) & (lines["series"] == name)]
            curve(axes, part, look, scale(metric))
        axes.set_title(column)
        _finish(axes, lines, "views on which both\nmodels agree (%)" if axes is panels[0] else "")
    handles = [legend_handle(name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    headline(figure, item, lines, profile, metric, MEAN_AND_BAND)
    return figure


def _alpha_panel(axes: Axes, lines: pd.DataFrame, ylabel: str) -> None:
    for column, look in zip(order(lines["column"]), ALPHA_LOOKS, strict=False):
        curve(axes, lines[lines["column"] == column], look, 1.0)
    _finish(axes, lines, ylabel)


def _alpha_legend(figure: Figure | SubFigure, lines: pd.DataFrame) -> None:
    handles = [legend_handle(name, look) for name, look in zip(order(lines["column"]), ALPHA_LOOKS, strict=False)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _finish(axes: Axes, lines: pd.DataFrame, ylabel: str) -> None:
    round_axis(axes, lines)
    axes.set_ylabel(ylabel)


def round_axis(axes: Axes, lines: pd.DataFrame) -> None:
    """Whole rounds from 1, at most eight of them named."""
    rounds = sorted({round(x) for x in lines["x"]})
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if len(rounds) / step <= 8)
    axes.set_xticks([r for r in rounds if r % step == 0 or (r == rounds[0] and step <= 2)])
    around = 0.05 * (rounds[-1] - rounds[0]) or 0.5
    axes.set_xlim(rounds[0] - around, rounds[-1] + around)  # also where the first rounds have no value
    axes.set_xlabel("round")
    percent_axis(axes)
