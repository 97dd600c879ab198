"""How confident the local and the global model are: whole distributions, and shares above several thresholds."""

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedcopl_lab.paper import THRESHOLDS, Item, share_above
from fedcopl_lab.report._sage_rounds import GLOBAL, LOCAL
from fedcopl_lab.report._style import DOUBLE, QUIET, Look, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import order, setting_of

_LOOKS = {"local": LOCAL, "global": GLOBAL}
_NAMES = {"local": "local model", "global": "global model"}


def confidences_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Small multiples, one for each α: share of the views in each bin of confidence, as two outlines."""
    columns = order(lines["column"])
    figure = new_figure(DOUBLE, 2.6)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for model, look in _LOOKS.items():
            mean, std = _by_bin(lines[(lines["column"] == column) & (lines["metric"] == model)])
            edges = np.linspace(0, 1, len(mean) + 1)
            axes.stairs(100 * (mean + std), edges, baseline=100 * np.maximum(mean - std, 0), fill=True,
                        color=look.color, alpha=0.16, linewidth=0)  # fmt: skip
            axes.stairs(100 * mean, edges, baseline=None, color=look.color, linestyle=look.line, linewidth=1.3)
        axes.axvline(0.95, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        axes.set_title(column)
        axes.set_xlabel("confidence")
        axes.set_xlim(0, 1)
        percent_axis(axes)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("views in the bin (%)")
    handles = [legend_handle(_NAMES[model], Look(look.color, "", look.line)) for model, look in _LOOKS.items()]
    handles.append(legend_handle("threshold τ", Look(QUIET, "", (0.0, (1.0, 2.0))), linewidth=0.8))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    _headline(figure, item, lines, profile)
    return figure


def thresholds_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel for each threshold: share of the views above it, local and global side by side, by α."""
    columns = order(lines["column"])
    figure = new_figure(DOUBLE, 2.5)
    panels = figure.subplots(1, len(THRESHOLDS), sharey=True, squeeze=False)[0]
    for axes, threshold in zip(panels, THRESHOLDS, strict=True):
        for side, (model, look) in zip((-1, 1), _LOOKS.items(), strict=True):
            for place, column in enumerate(columns):
                part = lines[(lines["column"] == column) & (lines["metric"] == model)]
                _bar(axes, place + 0.2 * side, _above(part, threshold), look)
        axes.set_title(f"above {threshold:g}")
        axes.set_xticks(range(len(columns)), [column.removeprefix("α = ") for column in columns])
        axes.set_xlabel("α")
        percent_axis(axes)
    panels[0].set_ylabel("views above it (%)")
    handles: list[Artist] = [
        Patch(
            facecolor=(look.color, 0.45),
            edgecolor=look.color,
            label=_NAMES[model],
            hatch="" if look is GLOBAL else "////",
        )
        for model, look in _LOOKS.items()
    ]
    handles += [legend_handle("one seed", Look(QUIET, "o", "none"), markersize=2.5)]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    _headline(figure, item, lines, profile)
    return figure


def _bar(axes: Axes, x: float, values: np.ndarray, look: Look) -> None:
    hatch = "" if look is GLOBAL else "////"  # apart in grey, too
    axes.bar(x, values.mean(), 0.36, facecolor=(look.color, 0.45), edgecolor=look.color, hatch=hatch, linewidth=0.6)
    beside = x + 0.07 * (np.arange(len(values)) - (len(values) - 1) / 2)
    axes.plot(beside, values, "o", color=look.color, markersize=2.5, markeredgewidth=0.3, markeredgecolor="white")


def _by_bin(part: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    bins = part.groupby("x")["value"].agg(["mean", "std"])
    return bins["mean"].to_numpy(), bins["std"].fillna(0).to_numpy()


def _above(part: pd.DataFrame, threshold: float) -> np.ndarray:
    """Percent of the views above a threshold, one number per seed."""
    return np.array([100 * share_above(own.sort_values("x")["value"].to_numpy(), threshold)
                     for _, own in part.groupby("seed")])  # fmt: skip


def _headline(figure: Figure, item: Item, lines: pd.DataFrame, profile: str) -> None:
    seeds = lines["seed"].nunique()
    words = f"Measured here ({setting_of(item, profile, lines).short}; {seeds} seed{'s' if seeds > 1 else ''}; "
    figure.suptitle(f"{words}first third of the rounds)", fontsize=7, color=QUIET)
