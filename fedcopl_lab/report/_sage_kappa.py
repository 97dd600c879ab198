"""What kappa does: lambda over the discrepancy (Eqs. 3, 18), and accuracy over kappa (supplement Fig. 14)."""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab.config import KAPPA_STAR
from fedcopl_lab.paper import NO_KAPPA, Item
from fedcopl_lab.report._curves import SERIES_LOOKS, headline
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    GREEN,
    INK,
    LOOKS,
    PURPLE,
    QUIET,
    SKY,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
)
from fedcopl_lab.report._words import order

HALVED_AT = 0.05
"""The discrepancy at which kappa* halves lambda: what is left between the threshold 0.95 and certainty."""

_DECAYS = (
    (2.0, Look(SKY, "", (0.0, (5.0, 1.0)))), (6.0, Look(PURPLE, "", "-.")), (KAPPA_STAR, Look(BLUE, "")),
    (20.0, Look(GREEN, "", ":")),
)  # fmt: skip


def decay_picture() -> Figure:
    """λ = exp(-κ |c_l - c_g|) for several κ; the point that defines κ*."""
    figure = new_figure(DOUBLE, 2.8)
    axes = figure.subplots()
    gaps = np.linspace(0, 0.5, 251)
    for kappa, look in _DECAYS:
        name = f"κ* = ln 2 / 0.05 ≈ {kappa:.2f}" if kappa == KAPPA_STAR else f"κ = {kappa:g}"
        axes.plot(gaps, np.exp(-kappa * gaps), color=look.color, linestyle=look.line, label=name,
                  linewidth=1.8 if kappa == KAPPA_STAR else 1.2)  # fmt: skip
    half = math.exp(-KAPPA_STAR * HALVED_AT)
    axes.plot([HALVED_AT, HALVED_AT, 0], [0, half, half], color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axes.plot(HALVED_AT, half, "o", color=BLUE, markersize=5)
    axes.annotate("λ = 1/2 at ΔC = 1 − 0.95", (HALVED_AT, half), (0.17, half), va="center", fontsize=7,
                  arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.6})  # fmt: skip
    axes.set_xlabel("discrepancy of the confidences, ΔC = $|c_l - c_g|$")
    axes.set_ylabel("λ, weight of the local label")
    axes.set_xlim(0, 0.5)
    axes.set_ylim(0, 1.02)
    axes.legend(loc="upper right")
    percent_axis(axes)
    figure.suptitle("Computed from the equation; no run is behind it", fontsize=7, color=QUIET)
    return figure


def kappa_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """SAGE's accuracy at each κ, every seed as a dot; the two one-model rows as lines to beat."""
    lines = lines[lines["metric"] == "accuracy"]
    swept = lines[lines["column"] != NO_KAPPA]
    swept = swept.assign(x=swept["column"].astype(float))
    others = lines[lines["column"] == NO_KAPPA]
    figure = new_figure(DOUBLE, 2.9)
    axes = figure.subplots()
    handles = []
    for look, name in zip(SERIES_LOOKS, order(others["series"]), strict=False):
        values = 100 * others.loc[others["series"] == name, "value"]
        spread = values.std() if len(values) > 1 else 0.0
        axes.axhspan(values.mean() - spread, values.mean() + spread, color=look.color, alpha=0.1, linewidth=0)
        axes.axhline(values.mean(), color=look.color, linestyle=look.line, linewidth=1.1)
        handles.append(legend_handle(f"{name} (no κ)", Look(look.color, "", look.line)))
    by_kappa = 100 * swept.groupby("x")["value"].agg(["mean", "std"])
    axes.errorbar(by_kappa.index, by_kappa["mean"], by_kappa["std"].fillna(0), color=LOOKS[3].color, marker="o",
                  linewidth=1.3, elinewidth=1.0, capsize=2, zorder=3)  # fmt: skip
    axes.plot(swept["x"] + 0.25, 100 * swept["value"], "o", color=LOOKS[3].color, alpha=0.45, markersize=2.8,
              markeredgewidth=0)  # fmt: skip
    axes.axvline(KAPPA_STAR, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axes.annotate("κ*", (KAPPA_STAR, 1), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
                  ha="center", fontsize=7)  # fmt: skip
    levels = [value for value in by_kappa.index if abs(value - KAPPA_STAR) > 0.01]
    axes.set_xticks(levels, [f"{value:g}" for value in levels])
    axes.set_xlabel(item.axis)
    axes.set_ylabel("test accuracy (%)")
    percent_axis(axes)
    handles = [legend_handle("SAGE, mean ± std", Look(LOOKS[3].color, "o")),
               legend_handle("SAGE, one seed", Look(LOOKS[3].color, "o", "none"), alpha=0.45, markersize=2.8),
               *handles]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    headline(figure, item, lines, profile, "accuracy")
    return figure
