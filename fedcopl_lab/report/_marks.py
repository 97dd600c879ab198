"""Marks that several kinds of picture share: curves, bars of error, dots of seeds, names at the ends of curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedcopl_lab.report.looks import BLUE, FAINT, GREEN, ORANGE, QUIET, Look

MEAN_AND_BAND = "line: mean, band: lowest to highest seed"


def curves(
    axes: Axes, part: pd.DataFrame, looks: Mapping[str, Look], by: str = "series", factor: float = 1.0,
    steps: bool = False, seeds: bool = False,
) -> None:  # fmt: skip
    """For each look, the mean over seeds against x with a band from the lowest to the highest seed.

    ``part`` has one value per x and seed for each name of ``looks`` in its column ``by``. ``steps`` is for what holds
    until the next x; ``seeds`` draws a thin line for each seed instead of the band.
    """
    for name, look in looks.items():
        own = part[part[by] == name]
        if own.empty:
            continue
        found = factor * own.groupby("x")["value"].agg(["mean", "min", "max"])
        every, drawstyle = max(1, len(found) // 12), "steps-mid" if steps else "default"
        if seeds:
            for _, one in own.sort_values("x").groupby("seed"):
                axes.plot(one["x"], factor * one["value"], color=look.color, linewidth=0.5, alpha=0.35)
        else:
            axes.fill_between(found.index, found["min"], found["max"], color=look.color, alpha=0.14, linewidth=0,
                              step="mid" if steps else None)  # fmt: skip
        axes.plot(found.index, found["mean"], drawstyle=drawstyle, markevery=every, **look.style)


def end_labels(axes: Axes, ends: Sequence[tuple[str, float, str]], inches: float) -> None:
    """Texts at the right ends of curves, apart from each other; ``ends``: text, last value and colour of each."""
    low, high = axes.get_ylim()
    apart = 9.0 / (72 * inches) * (high - low)
    height = low - apart
    ranked = sorted(ends, key=lambda end: end[1])
    for place, (text, value, color) in enumerate(ranked):
        left_above = apart * (len(ranked) - 1 - place)  # what the others still need
        height = max(height + apart, min(value, high - left_above))
        axes.annotate(text, (1, height), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                      color=color, fontsize=6.5, va="center", annotation_clip=False)  # fmt: skip


def error_bars(axes: Axes, x: Any, found: pd.DataFrame, look: Look, factor: float = 1.0) -> None:
    """Means with bars of one standard deviation; ``found`` has the columns mean and std."""
    axes.errorbar(x, factor * found["mean"], factor * found["std"].fillna(0), elinewidth=0.8, **look.style)


def seed_dots(axes: Axes, x: Any, y: Any, color: str = QUIET) -> None:
    """One pale dot for each seed."""
    axes.plot(x, y, "o", color=color, alpha=0.4, markersize=2.8, markeredgewidth=0)


def aside(n: int, step: float) -> np.ndarray:
    """Small shifts around 0, so that ``n`` marks of one place stay apart."""
    return step * (np.arange(n) - (n - 1) / 2)


_FILLS = ((FAINT, QUIET, ""), (BLUE, BLUE, ""), ("white", ORANGE, "////"), ("white", GREEN, "...."))


def draw_bars(
    axes: Axes, values: Mapping[str, np.ndarray], names: Sequence[str],
    fills: Sequence[tuple[str, str, str]] = _FILLS, upright: bool = False,
) -> None:  # fmt: skip
    """A group of bars for each name; long names of groups stand upright."""
    width = 0.8 / len(values)
    for place, (shift, (name, heights)) in enumerate(zip(aside(len(values), width), values.items(), strict=True)):
        face, edge, hatch = fills[place % len(fills)]
        axes.bar(np.arange(len(heights)) + shift, heights, 0.9 * width, facecolor=face, edgecolor=edge, hatch=hatch,
                 linewidth=0.7, label=name)  # fmt: skip
    turned = upright or max(map(len, names)) > 12
    axes.set_xticks(range(len(names)), names, rotation=90 if turned else 0)
