"""Pictures of what changes from round to round: drift, labels, accuracy, and the measures of SAGE's runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._facets import Block, Panel, by_column, compose, facets, headline, looks_of
from fedcopl_lab.report._marks import MEAN_AND_BAND, curves, end_labels
from fedcopl_lab.report._words import axis_name, order, scale, setting_of
from fedcopl_lab.report.looks import (
    ADDED,
    BLUE,
    BY_LEVEL,
    EITHER,
    GLOBAL,
    GREEN,
    LEVEL,
    LOCAL,
    ORANGE,
    OTHERS,
    OWN,
    QUIET,
    Look,
)

_PROMPTS = {"text": Look(ORANGE, "s"), "visual": Look(BLUE, "o")}
_KIB = 1024
_HEIGHT = 1.7  # inches of a line of panels
_QUARTERS, _FEW = 4, 20  # parts of the rounds; labels that a share needs


def drift(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Drift diversity and cosine distance of both prompts, with visual prompts averaged and with both averaged."""
    clients = setting_of(item, profile).clients
    kinds = {series: "FedCoPL" if item.role(series) == "own" else series for series in order(lines["series"])}
    looks = {
        f"{prompt} prompt, {name}": look if item.role(series) == "own" else replace(look, line="--", hollow=True)
        for series, name in kinds.items()
        for prompt, look in _PROMPTS.items()
    }
    lines = lines.assign(curve=lines["metric"].str.rpartition("_")[2] + " prompt, " + lines["series"].map(kinds))
    named = {"drift diversity ξ": ["drift_text", "drift_visual"], "cosine distance": ["cosine_text", "cosine_visual"]}
    panels = [
        Panel(partial(curves, part=lines[lines["metric"].isin(metrics)], looks=looks, by="curve"), y=name, x="round",
              rounds=lines["x"], ends=(0.0, None))
        for name, metrics in named.items()
    ]  # fmt: skip
    figure = facets(panels, 2.2, sharey=False, legend=looks, head=headline(item, lines, profile, MEAN_AND_BAND))
    axes = figure.axes[0]
    for height, text in {1 / clients: f"all equal\n(1/K = {1 / clients:g})", 1.0: "orthogonal\n(ξ = 1)"}.items():
        axes.axhline(height, color=QUIET, linewidth=0.8, linestyle=LEVEL.line, zorder=0)
        axes.annotate(text, (1, height), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                      fontsize=6.5, color=QUIET, va="center")  # fmt: skip
    return figure


def labels(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """How right the pseudo-labels are, as steps from one label phase to the next; a panel for each column."""
    lines = lines[lines["metric"] == "label_accuracy"]
    looks = dict(zip(order(lines["series"]), (OWN, replace(OTHERS[0], hollow=True)), strict=False))
    panels = by_column(lines, partial(curves, looks=looks, factor=100.0, steps=True), x="round", rounds=lines["x"],
                       y=axis_name("label_accuracy"))  # fmt: skip
    return facets(panels, 2.1, legend=looks, head=headline(item, lines, profile, MEAN_AND_BAND))


def accuracy_curves(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Accuracy over the rounds, one panel for each column: a thin line for each seed, the name at its mean's end."""
    lines, looks, height = lines[lines["metric"] == "accuracy"], looks_of(lines), 2.4

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        curves(axes, part, looks, factor=100.0, seeds=True)
        last = part[part["x"] == part["x"].max()].groupby("series")["value"].mean()
        end_labels(axes, [(name, 100 * last[name], looks[name].color) for name in last.index], height - 0.7)

    panels = by_column(lines, paint, x="round", y=axis_name("accuracy", item), rounds=lines["x"])
    head = headline(item, lines, profile, "thin: one seed, thick: mean")
    return facets(panels, height, least=1.9, head=head, legend={})


def traffic(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel a split, one line a method, a mark for each round; up is good, left is cheap."""
    looks, clients = looks_of(lines), setting_of(item, profile).clients
    behind_first = {name: looks[name] for name in sorted(looks, key=lambda name: item.role(name) == "own")}

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        for name, look in behind_first.items():
            curves(axes, accuracy_by_bytes(part[part["series"] == name], clients), {name: look}, factor=100.0)
        axes.set_xlim(left=0)

    panels = by_column(lines, paint, x="sent by a client so far (KiB)", y=axis_name("accuracy", item))
    marks = f"{MEAN_AND_BAND}, a mark: a round"
    return facets(panels, 2.3, least=1.4, legend=looks, head=headline(item, lines, profile, marks))


def accuracy_by_bytes(lines: pd.DataFrame, clients: int) -> pd.DataFrame:
    """Of one method and split, the lines of the accuracy with x = KiB that a client has sent until the round's end."""
    sent = lines[lines["metric"] == "bytes_up"].groupby("x")["value"].mean().cumsum() / clients / _KIB
    accuracy = lines[lines["metric"] == "accuracy"]
    return accuracy.assign(x=accuracy["x"].map(sent))


@dataclass(frozen=True)
class Measures:
    """Measures that stand in one line of panels."""

    y: str  # what they measure
    names: Mapping[str, str]  # metric -> name of its curve, or the title of its panel where curves are splits
    curves: Literal["metric", "column", "series"] = "metric"  # the panels are the columns, else the metrics
    looks: tuple[Look, ...] = (LOCAL, GLOBAL, EITHER, ADDED)  # one for each metric
    share_of_few: bool = False  # of so few labels that the rounds are pooled
    ends: tuple[float | None, float | None] = (0.0, None)  # of the vertical axis


_MODELS = {"local": "local model", "global": "global model", "cpg": "either (CPG)",
           "added": "added by the global model"}  # fmt: skip


def _models(start: str, *kinds: str) -> dict[str, str]:
    return {f"{start}_{kind}": _MODELS[kind] for kind in kinds}


_EACH = tuple(_MODELS)
_MAJORITY = (Look(GREEN, "D"), Look(ORANGE, "v", "--", hollow=True))
_MEASURES = (
    Measures("pseudo-labels in a round", _models("n", "local", "global")),
    Measures("views with a label (%)", _models("share", *_EACH)),
    Measures("of these labels\nright (%)", _models("label_accuracy", *_EACH), share_of_few=True),
    Measures("minority classes:\nviews with a label (%)", _models("share_minority", *_EACH[:3])),
    Measures("minority classes:\nof these right (%)", _models("label_accuracy_minority", *_EACH[:3]),
             share_of_few=True),
    Measures("λ, mean", {"lambda": "all views", "lambda_sure": "views where the local model is confident"}, "column"),
    Measures("λ, mean", {"lambda_majority": "majority classes of the client",
                         "lambda_minority": "minority classes of the client"}, looks=_MAJORITY),
    Measures("entropy of predictions\n(nats)", _models("entropy", "global", "local"), "column", ends=(None, None)),
    Measures("entropy of the histogram\nof confidences (nats)", _models("histogram_entropy", "global", "local"),
             "column", ends=(None, None)),
    Measures("views on which both\nmodels agree (%)", {"share_agreeing": ""}, "series"),
)  # fmt: skip
"""What SAGE's runs tell of each round, in the order in which an item shows what it has of it."""


def measures(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """The item's measures over the rounds: a line of panels for each, and a legend for those with the same curves."""
    parts: list[tuple[list[Panel], int, dict[str, Look]]] = []
    for one in (one for one in _MEASURES if set(one.names) & set(item.metrics)):
        panels, looks = _panels(one, lines)
        if parts and set(looks) <= set(parts[-1][2]):
            parts[-1][0].extend(panels)
        else:
            parts.append((panels, len(panels), looks))
    blocks: list[Block] = []
    for panels, across, looks in parts:
        apart = across == 1 < len(panels)  # measures of a single column stand side by side
        head = headline(item, lines, profile, MEAN_AND_BAND) if not blocks else ""
        blocks.append(Block(panels, _HEIGHT, 2 if apart else across, 1.2 if apart else 0.9, head=head, legend=looks,
                            sharex=True, sharey=not apart and "row"))  # fmt: skip
    return compose(blocks)


def _panels(one: Measures, lines: pd.DataFrame) -> tuple[list[Panel], dict[str, Look]]:
    """The panels of one line and how their curves look."""
    more = {"x": "round", "y": one.y, "rounds": lines["x"], "ends": (0.0, 104.0) if one.share_of_few else one.ends}
    lines = pooled(lines) if one.share_of_few else lines
    lines = lines[lines["metric"].isin(one.names)]
    factor = scale(next(iter(one.names)))
    if one.curves == "series":
        looks = looks_of(lines)
        return by_column(lines, partial(curves, looks=looks, factor=factor), **more), looks
    if one.curves == "column":
        looks = dict(zip(order(lines["column"]), cycle(BY_LEVEL), strict=False))
        lines = lines.assign(curve=lines["column"], column=lines["metric"].map(one.names))
    else:
        looks = dict(zip(one.names.values(), one.looks, strict=False))
        lines = lines.assign(curve=lines["metric"].map(one.names))

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        curves(axes, part, looks, by="curve", factor=factor)
        if one.share_of_few:
            last = part[part["x"] == part["x"].max()].groupby("curve")[["value", "labels"]].mean().dropna()
            axes.set_ylim(0.0, 104.0)
            end_labels(axes, [(f"n = {n:,.0f}", 100 * value, looks[str(name)].color)
                              for name, value, n in last.itertuples(name=None)], _HEIGHT - 0.6)  # fmt: skip

    return by_column(lines, paint, **more), looks


def pooled(lines: pd.DataFrame) -> pd.DataFrame:
    """Shares of labels that are right (``label_accuracy_*``), over quarters of the rounds together.

    The new column labels says how many labels a seed has in a quarter, from ``share_*`` and the views that these are
    shares of, ``n_views`` and ``n_minority``. Quarters with fewer than 20 are left out; where the views were not
    stored, none is, and labels is NaN.
    """
    cell = ["item", "series", "column", "seed"]
    right = lines[lines["metric"].str.startswith("label_accuracy")]
    ending = right["metric"].str.removeprefix("label_accuracy_")
    views = ending.str.startswith("minority").map({True: "n_minority", False: "n_views"})
    of_metric = lines.set_index([*cell, "metric", "x"])["value"]
    found = [of_metric.reindex(pd.MultiIndex.from_frame(right.assign(metric=name)[[*cell, "metric", "x"]])).to_numpy()
             for name in ("share_" + ending, views)]  # fmt: skip
    share, n = found[0], found[0] * found[1]
    weight = np.where(np.isnan(n), share, n)
    quarter = pd.cut(right["x"], min(_QUARTERS, right["x"].nunique()), labels=False)
    table = right.assign(part=quarter, weighted=weight * right["value"], weight=weight, labels=n)
    groups = table.groupby([*cell, "metric", "part"], sort=False)
    sums = groups[["weighted", "weight"]].sum()
    made = sums.assign(value=sums["weighted"] / sums["weight"], labels=groups["labels"].sum(min_count=1)).reset_index()
    middle = right["x"].groupby(quarter).agg(lambda rounds: (rounds.min() + rounds.max()) / 2)
    return made.assign(x=made["part"].map(middle))[~(made["labels"] < _FEW)]
