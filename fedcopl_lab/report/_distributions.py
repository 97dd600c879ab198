"""Bubbles and histograms: who holds how many images of which class, and how sure a model is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import THRESHOLDS, Item, share_above
from fedcopl_lab.report._facets import LINEAR_UP_TO, Panel, by_column, facets, headline
from fedcopl_lab.report._heat_maps import heat_map
from fedcopl_lab.report._marks import MEAN_AND_BAND, curves
from fedcopl_lab.report._words import order, setting_of
from fedcopl_lab.report.looks import (
    BY_LEVEL,
    DOTTED,
    DOUBLE,
    GLOBAL,
    LEVEL,
    LOCAL,
    ORANGE,
    QUIET,
    SINGLE,
    Look,
    every_few,
    sheet,
    style,
)

Counts = Int[np.ndarray, "n_clients n_classes"]
_BUBBLES_UP_TO = 20  # clients
_SMALLEST_CELL = 11.0  # points; in narrower cells the numbers cannot be read
_TINT, _EDGE = "#a9cfe8", "#3d7ea6"
_MODELS: dict[Any, tuple[str, Look]] = {"local": ("local model", LOCAL), "global": ("global model", GLOBAL)}


def label_skew(counts: Counts | Mapping[str, Counts], class_names: Sequence[str] | None = None) -> Figure:
    """Images of every class on every client (as in supplement Fig. 3).

    Bubbles, area proportional to the number of images, as long as their numbers can be read (up to 20 clients
    and, in one panel, 20 classes); a heat map beyond.

    Args:
        counts: images of class c on client k, [n_clients, n_classes], or several such arrays by panel title.
        class_names: names for the class axis; None numbers the classes.

    Raises:
        FedCoPLError: no counts, negative counts, or names that do not fit.

    >>> label_skew(np.array([[40, 0, 3], [1, 25, 8]]))
    <Picture size ...>

    Shown in notebook ``fedcopl_supp_fig3``.
    """
    with style():
        return _label_skew(dict(counts) if isinstance(counts, Mapping) else {"": counts}, class_names, "")


def _label_skew(counts: Mapping[str, Counts], class_names: Sequence[str] | None, head: str) -> Figure:
    arrays = {title: np.asarray(array) for title, array in counts.items()}
    if not arrays or any(array.size == 0 for array in arrays.values()):
        raise FedCoPLError("there are no counts to draw; pass an array of clients × classes")
    for title, array in arrays.items():
        if array.min() < 0:
            raise FedCoPLError(f"counts {title!r} hold {array.min()}; a number of images is 0 or more")
        if class_names is not None and len(class_names) != array.shape[1]:
            raise FedCoPLError(f"{len(class_names)} class names for {array.shape[1]} classes; pass one for each class")
    clients, classes = (max(array.shape[axis] for array in arrays.values()) for axis in (0, 1))
    page = sheet().inches
    across = 1 if page < DOUBLE else len(arrays) if len(arrays) <= 3 else 2
    width = min(page, SINGLE + 0.6) if len(arrays) == 1 else page
    cell = min(0.85 * 72 * width / across / classes, 18.0)  # points that one class has
    crowded = cell < _SMALLEST_CELL or clients > _BUBBLES_UP_TO
    height = 2.9 if crowded else 0.75 + 0.27 * clients + (0.5 if class_names is not None else 0)
    top = max(1, *(int(array.max()) for array in arrays.values()))
    names = None if crowded else class_names
    paint = partial(_many_counts, top=top) if crowded else partial(_bubbles, top=top, cell=cell, names=names)
    panels = [Panel(partial(paint, counts=array), title, "class", "client", None) for title, array in arrays.items()]
    same_clients = len(set(map(len, arrays.values()))) == 1
    figure = facets(panels, height, width=width, across=across, sharey=same_clients, head=head)
    if crowded:
        shown = next(axes.collections[0] for axes in figure.axes if axes.collections)
        bar = figure.colorbar(shown, ax=figure.axes, fraction=0.04, pad=0.02)
        bar.set_label("images (white: none)")
        bar.outline.set_visible(False)
    return figure


def _bubbles(axes: Axes, counts: Counts, top: int, cell: float, names: Sequence[str] | None) -> None:
    clients, classes = counts.shape
    _class_axes(axes, clients, classes)
    if names is not None:
        axes.set_xticks(range(classes), names, rotation=90 if max(map(len, names)) > 2 else 0)
    client, label = np.nonzero(counts)
    values = counts[client, label]
    widths = cell * np.sqrt(values / top)  # diameter in points: area proportional to the count
    axes.scatter(label, client, s=widths**2, color=_TINT, edgecolor=_EDGE, linewidth=0.5, zorder=2)
    size = min(5.4, 0.36 * cell)
    for row, column, value, width in zip(client, label, values, widths, strict=True):
        above = width < 0.72 * size * len(str(value)) + 2.2
        axes.annotate(str(value), (column, row), (0, width / 2 + 0.8 if above else 0), textcoords="offset points",
                      ha="center", va="bottom" if above else "center_baseline", fontsize=size, zorder=3)  # fmt: skip


def _class_axes(axes: Axes, clients: int, classes: int) -> None:
    axes.set_xlim(-0.6, classes - 0.4)
    axes.set_ylim(clients - 0.4, -0.6)
    axes.set_xticks(range(0, classes, 1 if classes <= 12 else 2 if classes <= 20 else 10))
    axes.set_yticks(range(clients))
    axes.grid(True, color="#efefef")
    axes.tick_params(length=0)


def _many_counts(axes: Axes, counts: Counts, top: int) -> None:
    clients, classes = counts.shape
    heat_map(axes, counts, mask=counts == 0, cmap="viridis_r", norm=LogNorm(1, max(top, 2)), vmin=1, vmax=top)
    for set_ticks, count in ((axes.set_xticks, classes), (axes.set_yticks, clients)):
        named = every_few(count)
        set_ticks([place + 0.5 for place in named], [str(place) for place in named])
    axes.spines[:].set_visible(True)


def skew(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Images of every class on every client in one panel per column, of the first seed."""
    first = lines[lines["seed"] == lines["seed"].min()]
    panels = {}
    for column in order(first["column"]):
        wide = first[first["column"] == column].pivot_table(index="y", columns="x", values="value", fill_value=0)
        panels[column] = wide.to_numpy().round().astype(int)
    return _label_skew(panels, None, _split_head(item, first, profile, "number and area: training images"))


def _split_head(item: Item, lines: pd.DataFrame, profile: str, marks: str) -> str:
    return f"{setting_of(item, profile, lines).short}; {marks}; seed {lines['seed'].min()}"


_DISCS: dict[str, dict[str, Any]] = {
    "unlabelled": {"color": _TINT, "edgecolor": _EDGE},
    "labelled": {"color": ORANGE, "edgecolor": "none"},
}


def two_skews(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel for each α: area of the pale disc: unlabelled images; of the dark one on it: labelled images."""
    lines = lines[lines["seed"] == lines["seed"].min()]
    top, clients, classes = float(lines["value"].max()), int(lines["y"].max()) + 1, int(lines["x"].max()) + 1
    size = min(13.0, 0.8 * 72 * sheet().inches / lines["column"].nunique() / classes)  # points, of the largest disc

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        _class_axes(axes, clients, classes)
        for kind, look in _DISCS.items():
            there = part[(part["metric"] == kind) & (part["value"] > 0)]
            axes.scatter(there["x"], there["y"], s=size**2 * there["value"] / top, linewidth=0.5, zorder=2, **look)

    shown = sorted({max(1, round(top / 4)), round(top)})
    legend: dict[str, Artist] = {}
    for kind, look in _DISCS.items():
        for n in shown if kind == "unlabelled" else shown[:1]:
            disc = Look(look["color"], "o", "none", size=size * np.sqrt(n / top)).handle("")
            disc.set_markeredgecolor(look["edgecolor"])
            legend[f"{n} {kind}"] = disc
    return facets(by_column(lines, paint, x="class", y="client", grid=None), 0.7 + 0.014 * size * clients, least=0.5,
                  legend=legend, sharey=True, head=_split_head(item, lines, profile, "area: images"))  # fmt: skip


_FIRST_THIRD = "first third of the rounds"


def confidences(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Small multiples, one for each α: share of the views in each bin of confidence, as two outlines."""

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        for model, (_, look) in _MODELS.items():
            bins = 100 * part[part["metric"] == model].groupby("x")["value"].agg(["mean", "std"]).fillna(0)
            mean, std, edges = bins["mean"].to_numpy(), bins["std"].to_numpy(), np.linspace(0, 1, len(bins) + 1)
            axes.stairs(mean + std, edges, baseline=np.maximum(mean - std, 0), fill=True, color=look.color, alpha=0.16,
                        linewidth=0)  # fmt: skip
            axes.stairs(mean, edges, baseline=None, color=look.color, linestyle=look.line, linewidth=1.3)
        axes.axvline(0.95, color=QUIET, linewidth=0.8, linestyle=DOTTED, zorder=0)
        axes.set_xlim(0, 1)

    legend = {name: replace(look, marker="") for name, look in _MODELS.values()} | {"threshold τ": LEVEL}
    panels = by_column(lines, paint, x="confidence", y="views in the bin (%)", ends=(0.0, None))
    return facets(panels, 2.1, legend=legend, head=headline(item, lines, profile, _FIRST_THIRD))


def thresholds(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Share of the views above each threshold, a curve for each model and column; logarithmic where far apart."""
    above = pd.DataFrame(
        {"series": f"{_MODELS[model][0]}, {column}", "seed": seed, "x": threshold,
         "value": share_above(own.sort_values("x")["value"].to_numpy(), threshold)}
        for (model, column, seed), own in lines.groupby(["metric", "column", "seed"], sort=False)
        for threshold in THRESHOLDS
    )  # fmt: skip
    by_level = dict(zip(order(lines["column"]), cycle(BY_LEVEL), strict=False))
    looks = {f"{name}, {column}": replace(by_level[column], color=look.color)
             for name, look in _MODELS.values() for column in by_level}  # fmt: skip
    # what is above in no seed has no place on a logarithmic axis
    above = above[above.groupby(["series", "x"])["value"].transform("max") > 0]
    none = ", ".join(name for name in looks if name not in set(above["series"]))

    def paint(axes: Axes) -> None:
        curves(axes, above, looks, factor=100.0)
        if above["value"].max() > LINEAR_UP_TO * above.loc[above["value"] > 0, "value"].min():
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
        axes.set_xticks(THRESHOLDS)

    marks = f"{_FIRST_THIRD}; {MEAN_AND_BAND}"
    panel = Panel(paint, f"never above: {none}" if none else "", "threshold of the confidence", "views above it (%)")
    drawn = {name: look for name, look in looks.items() if name in set(above["series"])}
    return facets([panel], 2.4, legend=drawn, head=headline(item, lines, profile, marks))
