"""Pictures with a row for each method: tables as text that are figures themselves, and leads over others."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedcopl_lab.paper import Item, printed, reached_table
from fedcopl_lab.report._facets import by_column, facets, headline
from fedcopl_lab.report._marks import seed_dots
from fedcopl_lab.report._page_tables import printed_grid
from fedcopl_lab.report._tables import Lead, lead_over
from fedcopl_lab.report._typeset import Grid, typeset
from fedcopl_lab.report._words import metric_name, order, row_name
from fedcopl_lab.report.looks import BLUE, FAINT, INK, ONE_SEED, QUIET, Look

_GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
_REACHED = "round in which the accuracy is first reached, mean (lowest–highest seed); 2 of 3: so many runs got there"


def statistics(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Classes, training and test images as a table; in bold with what is printed instead, where the two differ."""
    sets, rows, bold = order(lines["series"]), [], set()
    for row, name in enumerate(sets):
        cells = []
        for column, metric in enumerate(item.metrics):
            (ours,) = lines.loc[(lines["metric"] == metric) & (lines["series"] == name), "value"]
            theirs = printed(item.id, metric).set_index("series")["value"].get(name, ours)
            if ours != theirs:
                bold.add((row, column))
            cells.append(f"{ours:,.0f}" + (f" (printed {theirs:,.0f})" if ours != theirs else ""))
        rows.append((name, cells))
    words = "Counted in the manifests; the paper prints the same but for what is in bold"
    return typeset([Grid([metric_name(metric) for metric in item.metrics], rows, head=words, bold=frozenset(bold))])


def reached(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, a column for each target: mean round in which it was reached, and how many runs got there."""
    cells = reached_table(lines)
    level = dict(zip(lines["column"], lines["level"], strict=True))
    columns, names = order(lines["column"]), order(lines["series"])
    rows = [(row_name(name), [_rounds(cells[(cells["series"] == name) & (cells["column"] == column)])
                              for column in columns]) for name in names]  # fmt: skip
    own = frozenset(row for row, name in enumerate(names) if item.role(name) == "own")
    grid = Grid([f"to {level[column]:g} %" for column in columns], rows, own=own,
                head=headline(item, lines, profile, _REACHED))  # fmt: skip
    return typeset([grid, *printed_grid(item, "rounds_needed", lines)])


def _rounds(cells: pd.DataFrame) -> str:
    """Of one cell's runs; ``> 8`` where none got there in its 8 rounds."""
    rounds, there = cells["rounds"], ~cells["censored"]
    if cells.empty:
        return "–"
    if not there.all():
        return f"{there.sum()} of {len(cells)}" if there.any() else f"> {rounds.min() - 1}"
    low, high = rounds.min(), rounds.max()
    return f"{rounds.mean():.1f} ({low}–{high})" if low < high else f"{low}"


def spread(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel per column: a dot for each seed, the mean with its 95 % interval, and the line of no difference."""
    own = next(name for name in order(lines["series"]) if item.role(name) == "own")
    others = [name for name in order(lines["series"]) if name != own]

    def paint(axes: Axes, part: pd.DataFrame) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        for row, other in enumerate(others):
            _lead_row(axes, row, lead_over(part, part["column"].iloc[0], own, other))
        axes.margins(x=0.08)
        axes.xaxis.set_major_locator(MaxNLocator(6, prune="both"))  # labels at the ends would meet the next panel's

    panels = by_column(lines, paint, x=f"{own} minus the other row (points)", grid="x",
                       rows=[f"minus {other}" for other in others])  # fmt: skip
    legend = {"one seed": ONE_SEED, "mean, 95 % interval without 0": Look(BLUE, "D"),
              "interval with 0: within noise": Look(QUIET, "D", hollow=True)}  # fmt: skip
    return facets(panels, 0.75 + 0.42 * len(others), least=1.6, sharex=True, sharey=True, legend=legend,
                  head=headline(item, lines, profile, "paired by seed"))  # fmt: skip


def _lead_row(axes: Axes, row: int, found: Lead) -> None:
    color = BLUE if found.clear else QUIET
    seed_dots(axes, found.points, np.full(len(found.points), row + 0.24), color)
    text = f"{found.mean:+.1f}"
    if not np.isnan(found.half):
        low, high = found.mean - found.half, found.mean + found.half
        axes.plot([low, high], [row, row], "-", color=color, linewidth=1.6, solid_capstyle="butt")
        text += f" [{low:.1f}, {high:.1f}]"
    axes.plot(found.mean, row, "D", color=color, markerfacecolor=color if found.clear else "white", markersize=5)
    axes.annotate(text.replace("-", "−"), (found.mean, row), (0, 5), textcoords="offset points", ha="center",
                  va="bottom", fontsize=6.5, bbox=_GROUND)  # fmt: skip
    axes.axhline(row + 0.5, color=FAINT, linewidth=0.4)
