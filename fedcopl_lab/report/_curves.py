"""What several pictures share: a curve with its band over seeds, and the line that says what was measured."""

import textwrap
from collections.abc import Sequence
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedcopl_lab.paper import Item, NotRun
from fedcopl_lab.report._style import GREEN, INK, LOOKS, ORANGE, PURPLE, QUIET, SKY, Look
from fedcopl_lab.report._tables import seeds_text
from fedcopl_lab.report._words import is_own, setting_of

SERIES_LOOKS = (
    Look(ORANGE, "s", "--"), Look(PURPLE, "^", "-."), Look(GREEN, "v", ":"), Look(SKY, "P", (0.0, (5.0, 1.0))),
    Look(QUIET, "D"), Look(INK, "X", "--"),
)  # fmt: skip
"""Looks of curves in their order; that of the papers' own methods is in :func:`looks_of`."""


def looks_of(names: list[str]) -> dict[str, Look]:
    """A look for each name; the papers' own methods have the same in every picture."""
    others = [name for name in names if not is_own(name)]
    own = {name: LOOKS[3] for name in names if is_own(name)}
    cycle = [SERIES_LOOKS[place % len(SERIES_LOOKS)] for place in range(len(others))]
    chosen = own | dict(zip(others, cycle, strict=True))
    return {name: chosen[name] for name in names}


def curve(axes: Axes, part: pd.DataFrame, look: Look, factor: float, steps: bool = False) -> None:
    """Mean over seeds against x, with a band of one standard deviation."""
    by_x = part.groupby("x")["value"].agg(["mean", "std"])
    x, mean, std = by_x.index.to_numpy(), factor * by_x["mean"].to_numpy(), factor * by_x["std"].fillna(0).to_numpy()
    if not len(x):
        return
    band: Literal["mid"] | None = "mid" if steps else None
    axes.fill_between(x, mean - std, mean + std, color=look.color, alpha=0.14, linewidth=0, step=band)
    axes.plot(x, mean, linestyle=look.line, marker=look.marker, color=look.color, markerfacecolor=look.face,
              drawstyle="steps-mid" if steps else "default")  # fmt: skip


def headline(
    figure: Figure | SubFigure,
    item: Item,
    lines: pd.DataFrame,
    profile: str,
    metric: str,
    marks: str = "",
    missing: Sequence[NotRun] = (),
    beside_printed: bool = False,
) -> None:
    """Says above a picture what was measured here and with how many seeds, what its marks are and what is missing.

    Beside printed numbers it is as bold as their own heading.
    """
    words = "; ".join(filter(None, (setting_of(item, profile, lines).short, seeds_text(lines, metric), marks)))
    reasons = [textwrap.fill(f"{one.column} was not run: {one.reason}", _REASON_WIDTH) for one in missing]
    color, weight = (INK, "bold") if beside_printed else (QUIET, "normal")
    figure.suptitle("\n".join([f"Measured here ({words})", *reasons]), fontsize=7, color=color, fontweight=weight)


_REASON_WIDTH = 125  # characters that stand side by side over both columns
MEAN_AND_BAND = "line: mean, band: ± std"
