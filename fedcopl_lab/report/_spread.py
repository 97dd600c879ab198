"""How far FedCoPL is ahead, seed by seed, and whether that is more than the seeds' own spread."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from fedcopl_lab.paper import Item
from fedcopl_lab.report._curves import headline
from fedcopl_lab.report._style import BLUE, DOUBLE, FAINT, INK, QUIET, Look, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import order

_OWN = "FedCoPL"


@dataclass(frozen=True)
class Ahead:
    """Paired differences in points of accuracy: own row minus another, at equal seeds.

    Attributes:
        points: one difference per seed that both rows have.
        mean: their mean.
        half: half the width of the 95 % t-interval of the mean; NaN for fewer than two seeds.
    """

    points: np.ndarray
    mean: float
    half: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return bool(abs(self.mean) > self.half)

    def __repr__(self) -> str:
        return f"Ahead({self.mean:+.2f} ± {self.half:.2f} points, {len(self.points)} seeds)"


def ahead_of(lines: pd.DataFrame, column: str, other: str) -> Ahead:
    """FedCoPL minus another row in one column, in points of accuracy."""
    part = lines[(lines["metric"] == "accuracy") & (lines["column"] == column)]
    wide = part.pivot(index="seed", columns="series", values="value")[[_OWN, other]].dropna()
    points = 100 * (wide[_OWN] - wide[other]).to_numpy()
    n = len(points)
    half = float(stats.t.ppf(0.975, n - 1) * points.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return Ahead(points, float(points.mean()), half)


def spread(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel per column: a dot for each seed, the mean with its 95 % interval, and the line of no difference."""
    columns, others = order(lines["column"]), [name for name in order(lines["series"]) if name != _OWN]
    figure = new_figure(DOUBLE, 1.15 + 0.42 * len(others))
    panels = figure.subplots(1, len(columns), sharex=True, sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        percent_axis(axes, "x")
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        for row, other in enumerate(others):
            _row(axes, row, ahead_of(lines, column, other))
        axes.set_yticks(range(len(others)), [f"minus {other}" for other in others])
        axes.set_ylim(len(others) - 0.45, -0.7)
        axes.margins(x=0.08)
        axes.xaxis.set_major_locator(MaxNLocator(6, prune="both"))  # labels at the ends would meet the next panel's
        axes.set_title(column)
        axes.set_xlabel(f"{_OWN} minus the other row (points)")
    handles = [legend_handle("one seed", Look(QUIET, "o", "none"), alpha=0.5, markersize=3),
               legend_handle("mean, 95 % interval without 0", Look(BLUE, "D")),
               legend_handle("interval with 0: within noise", Look(QUIET, "D", hollow=True))]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    headline(figure, item, lines, profile, "accuracy", "paired by seed")
    return figure


def _row(axes: Axes, row: int, found: Ahead) -> None:
    color = BLUE if found.clear else QUIET
    axes.plot(found.points, np.full(len(found.points), row + 0.24), "o", color=color, alpha=0.45, markersize=3,
              markeredgewidth=0)  # fmt: skip
    text = f"{found.mean:+.1f}".replace("-", "−")
    if not np.isnan(found.half):
        low, high = found.mean - found.half, found.mean + found.half
        axes.plot([low, high], [row, row], "-", color=color, linewidth=1.6, solid_capstyle="butt")
        text += f" [{low:.1f}, {high:.1f}]".replace("-", "−")
    axes.plot(found.mean, row, "D", color=color, markerfacecolor=color if found.clear else "white", markersize=5)
    axes.annotate(text, (found.mean, row), (0, 5), textcoords="offset points", ha="center", va="bottom", fontsize=6.5,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})  # fmt: skip
    axes.axhline(row + 0.5, color=FAINT, linewidth=0.4)
