"""Tables of measured numbers: mean, spread and number of seeds, for notebooks, LaTeX and CSV."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import ITEMS, VALUE_COLUMNS, Item, printed, t_interval
from fedcopl_lab.report._words import LESS_IS_BETTER, in_item_order, last_round, mean_std, metric_name, order, scale


def summary(numbers: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Mean, standard deviation and number of seeds of one metric after the last round.

    Args:
        numbers: the lines of one item, as :func:`fedcopl_lab.paper.collect` gives them.
        metric: name of the value, such as ``"accuracy"`` or ``"label_accuracy"``.

    Returns:
        Columns series, column, mean, std (n - 1 in the denominator; NaN for one seed), n, in the item's
        own order. Accuracies stay shares in [0, 1].

    Raises:
        FedCoPLError: no line has that metric, the lines are of several items or profiles, or a seed comes twice.

    >>> list(summary(lab.paper.measured("smoke").query("item == 'fedcopl_main_table1'")).columns)
    ['series', 'column', 'mean', 'std', 'n']

    Shown in notebook ``fedcopl_main_table1``.
    """
    if numbers["item"].nunique() > 1:
        raise FedCoPLError(f"the numbers are of {numbers['item'].nunique()} items; choose one with .query('item == …')")
    lines = numbers[numbers["metric"] == metric]
    if "profile" in lines and lines["profile"].nunique() > 1:
        raise FedCoPLError("the numbers are of several profiles; choose one with .query('profile == …')")
    if lines.empty:
        known = ", ".join(order(numbers["metric"])) or "none"
        raise FedCoPLError(f"no number has metric={metric!r}; these have: {known}")
    lines = in_item_order(last_round(lines))
    if lines.duplicated(["series", "column", "seed"]).any():
        raise FedCoPLError(f"{metric!r} has several values for one series, column and seed; it cannot be summarised")
    groups = lines.groupby(["series", "column"], sort=False)["value"]
    return groups.agg(mean="mean", std="std", n="count").reset_index()


def table(numbers: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """The summary as a wide table of text, such as ``78.6 ± 1.4``: one row per series, one column per column.

    >>> table(lab.paper.measured("smoke").query("item == 'fedcopl_main_table1'")).shape
    (10, 2)

    Shown in notebook ``fedcopl_main_table1``.
    """
    cells = summary(numbers, metric)
    texts = [mean_std(mean, std, metric) for mean, std in zip(cells["mean"], cells["std"], strict=True)]
    wide = cells.assign(text=texts).pivot(index="series", columns="column", values="text").fillna("–")
    wide = wide.reindex(index=order(cells["series"]), columns=order(cells["column"]))
    return wide.rename_axis(index=metric_name(metric, item_in(numbers)), columns=None)


def seeds_text(numbers: pd.DataFrame) -> str:
    """``5 seeds``, or ``3 to 5 seeds`` when the cells differ."""
    counts = sorted(set(numbers.groupby(["series", "column"])["seed"].nunique()))
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} seeds"
    return f"{counts[0]} seed{'s' if counts[0] > 1 else ''}"


def item_in(numbers: pd.DataFrame) -> Item | None:
    """The item that the lines are of; None for numbers of no item."""
    return next((item for item in ITEMS if item.id == numbers["item"].iloc[0]), None)


@dataclass(frozen=True)
class Lead:
    """Paired differences, own row minus another, at equal seeds; of shares in points."""

    pair: pd.DataFrame  # values of both rows at the seeds that both have
    points: np.ndarray  # one difference for each of these seeds
    mean: float
    low: float  # ends of the 95 % t-interval of the mean; NaN for fewer than two seeds
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def lead_over(lines: pd.DataFrame, column: str, own: str, other: str, metric: str = "accuracy") -> Lead:
    """One row minus another in one column after the last round, in points of accuracy."""
    part = last_round(lines[(lines["metric"] == metric) & (lines["column"] == column)])
    wide = part.pivot(index="seed", columns="series", values="value").reindex(columns=[own, other]).dropna()
    points = scale(metric) * (wide[own] - wide[other])
    interval = t_interval(points) if len(points) > 1 else (float(points.mean()), math.nan, math.nan)
    return Lead(wide, points.to_numpy(), *interval)


def clear_best(numbers: pd.DataFrame, metric: str, item: Item | None) -> set[tuple[str, str]]:
    """(row, column) of the rows that are ahead of every other row of their column beyond noise.

    Beyond noise: the 95 % interval of the difference, paired by seed, leaves out 0; a single run is never ahead.
    What all others are read against, as SAGE's fully labelled reference, does not compete; no row of a gate does.
    """
    found, rivals = set[tuple[str, str]](), summary(numbers, metric)
    if item is not None:
        rivals = rivals[[item.ranked and item.role(series) != "reference" for series in rivals["series"]]]
    less = metric in LESS_IS_BETTER
    for column, cells in rivals.groupby("column", sort=False):
        best = str(cells["series"].iloc[int(cells["mean"].argmin() if less else cells["mean"].argmax())])
        others = [name for name in cells["series"] if name != best]
        pairs = ((name, best) if less else (best, name) for name in others)
        ahead = (lead_over(numbers, str(column), more, fewer, metric) for more, fewer in pairs)
        if others and all(lead.low > 0 for lead in ahead):
            found.add((best, str(column)))
    return found


def order_of_rows(numbers: pd.DataFrame, metric: str) -> list[str]:
    """The rows in the item's own order; where many methods compete, the best on top."""
    rows = order(numbers["series"])
    if len(rows) < _SORTED_FROM:
        return rows
    wide = summary(numbers, metric).pivot(index="series", columns="column", values="mean")
    whole = wide.dropna()  # a column without the weak rows is not a harder one
    above = (wide - (whole if len(whole) else wide).mean()).mean(axis=1)
    return list(above.sort_values(ascending=metric in LESS_IS_BETTER, kind="stable").index)


def same_printed(item: Item, lines: pd.DataFrame, metric: str) -> pd.DataFrame:
    """What the paper prints in the columns that were measured, else at their settings, else all of it."""
    paper = printed(item.id, metric)
    for name in ("column", "setting"):
        if (same := paper[name].isin(lines["column"])).any():
            return paper[same]
    return paper


def to_latex(
    numbers: pd.DataFrame, metric: str = "accuracy", caption: str = "", label: str = "", marked: bool = True,
    corner: str = "",
) -> str:  # fmt: skip
    r"""The table for a paper: booktabs, mean ± std, bold where a row is clearly the best of its column.

    A row is in bold only where it is ahead of every other one beyond noise, as :func:`clear_best` says. A single row
    with many columns is turned round.

    Args:
        numbers: the lines of one item.
        metric: name of the value; the largest is the best, of rounds to an accuracy the smallest.
        caption: text of the caption; say profile, data set and seeds.
        label: LaTeX label.
        marked: whether to mark at all; rows that are settings, not methods, need none.
        corner: heading of the first column of a table that is turned round.

    Returns:
        A ``table`` environment that needs ``\usepackage{booktabs}``.

    >>> print(to_latex(lab.paper.measured("smoke").query("item == 'fedcopl_main_table1'")))
    \begin{table}[t]
    ...

    Shown in notebook ``fedcopl_main_table1``.
    """
    cells = table(numbers, metric).map(escape_latex)
    for row, column in clear_best(numbers, metric, item_in(numbers)) if marked else ():
        cells.at[row, column] = rf"\textbf{{{cells.at[row, column]!s}}}"
    if len(cells) == 1 and len(cells.columns) > _ACROSS_UP_TO:
        cells = cells.T.rename_axis(columns=escape_latex(corner))
    named = cells.rename_axis(index=None).rename(escape_latex).rename(escape_latex, axis=1)
    return named.style.to_latex(
        hrules=True, position="t", position_float="centering", column_format="l" + "c" * len(named.columns),
        caption=escape_latex(caption) or None, label=label or None,
    )  # fmt: skip


_SORTED_FROM = 8  # rows: so many are methods to rank, fewer have an order of their own
_ACROSS_UP_TO = 4  # columns of a single row that fit across a page


def to_csv(numbers: pd.DataFrame) -> str:
    """The tidy numbers as text, one line each, the same for every operating system and wherever they come from.

    Rows and columns stand in the item's order; in each, the lines are sorted.
    """
    lines = numbers.assign(x=_whole(numbers["x"]), y=_whole(numbers["y"]))
    lines = in_item_order(lines.sort_values(["metric", "x", "y", "seed"], kind="stable"))
    stored = [name for name in VALUE_COLUMNS if name in lines.columns]
    return lines[stored].to_csv(index=False, lineterminator="\n")


def _whole(values: pd.Series) -> pd.Series:
    counted = pd.to_numeric(values)
    return counted.astype("Int64") if (counted.dropna() % 1 == 0).all() else values


_GREEK = {"α": "alpha", "β": "beta", "ε": "epsilon", "κ": "kappa", "λ": "lambda", "μ": "mu", "ξ": "xi", "τ": "tau",
          "Δ": "Delta"}  # fmt: skip
_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
          "×": r"$\times$", "±": r"$\pm$", "–": "--", "−": r"$-$",
          **{letter: rf"$\{name}$" for letter, name in _GREEK.items()}}  # fmt: skip
_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))


def escape_latex(text: str) -> str:
    """Plain text as LaTeX that prints the same."""
    return _SPECIAL.sub(lambda found: _LATEX[found[0]], text)
