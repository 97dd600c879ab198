"""Tables of measured numbers: mean, spread and number of seeds, for notebooks, LaTeX and CSV."""

import re

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import ITEMS, VALUE_COLUMNS, Item
from fedcopl_lab.report._words import in_item_order, last_round, mean_std, metric_name, order, shown


def summary(numbers: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Mean, standard deviation and number of seeds of one metric after the last round.

    Args:
        numbers: the lines of one item, as :func:`fedcopl_lab.paper.collect` gives them.
        metric: name of the value, such as ``"accuracy"`` or ``"label_accuracy"``.

    Returns:
        Columns series, column, mean, std (n - 1 in the denominator; NaN for one seed), n, in the item's
        own order. Accuracies stay shares in [0, 1].

    Raises:
        FedCoPLError: no line has that metric, the lines are of several items, or a seed comes twice.

    >>> list(summary(lab.paper.measured("smoke").query("item == 'fedcopl_main_table1'")).columns)
    ['series', 'column', 'mean', 'std', 'n']

    Shown in notebook ``fedcopl_main_table1``.
    """
    if numbers["item"].nunique() > 1:
        raise FedCoPLError(f"the numbers are of {numbers['item'].nunique()} items; choose one with .query('item == …')")
    lines = numbers[numbers["metric"] == metric]
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
    rows, columns = order(cells["series"]), order(cells["column"])
    texts = {
        (line["series"], line["column"]): mean_std(line["mean"], line["std"], metric)
        for line in cells.to_dict("records")
    }
    wide = [[texts.get((row, column), "–") for column in columns] for row in rows]
    return pd.DataFrame(wide, index=pd.Index(rows, name=metric_name(metric, item_in(numbers))), columns=columns)


def seeds_text(numbers: pd.DataFrame) -> str:
    """``5 seeds``, or ``3 to 5 seeds`` when the cells differ."""
    counts = sorted(set(numbers.groupby(["series", "column"])["seed"].nunique()))
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} seeds"
    return f"{counts[0]} seed{'s' if counts[0] > 1 else ''}"


def item_in(numbers: pd.DataFrame) -> Item | None:
    """The item that the lines are of; None for numbers of no item."""
    return next((item for item in ITEMS if item.id == numbers["item"].iloc[0]), None)


def rivals(cells: pd.DataFrame, item: Item | None) -> pd.DataFrame:
    """The rows that compete; what all others are read against does not."""
    return cells[[item is None or item.role(series) != "reference" for series in cells["series"]]]


def to_latex(
    numbers: pd.DataFrame,
    metric: str = "accuracy",
    caption: str = "",
    label: str = "",
    marked: bool = True,
    corner: str = "",
) -> str:
    r"""The table for a paper: booktabs, mean ± std, best of each column bold and second best underlined.

    Marks go by the means as they are printed, so that equal numbers are marked alike. A column is marked only where
    three rows or more compete in it; SAGE's fully labelled reference is no rival. A mark is no test: it does not say
    that a difference is larger than its spread. A single row with many columns is turned round.

    Args:
        numbers: the lines of one item.
        metric: name of the value; the largest is the best.
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
    texts = table(numbers, metric)
    marks = _marks(rivals(summary(numbers, metric), item_in(numbers)), metric) if marked else {}
    cells = pd.DataFrame(
        {column: {row: _marked(str(texts.loc[row, column]), marks.get((row, column))) for row in texts.index}
         for column in texts.columns}
    )  # fmt: skip
    if len(cells) == 1 and len(cells.columns) > _ACROSS_UP_TO:
        cells = cells.T
    else:
        corner = ""
    body = [" & ".join([escape_latex(str(row)), *line]) + r" \\"
            for row, line in zip(cells.index, cells.to_numpy().tolist(), strict=True)]  # fmt: skip
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape_latex(caption)}}}" if caption else "",
        rf"\label{{{label}}}" if label else "",
        rf"\begin{{tabular}}{{l{'c' * len(cells.columns)}}}",
        r"\toprule",
        " & ".join(escape_latex(str(column)) for column in (corner, *cells.columns)) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _marked(text: str, mark: str | None) -> str:
    return rf"\{mark}{{{escape_latex(text)}}}" if mark else escape_latex(text)


def _marks(cells: pd.DataFrame, metric: str) -> dict[tuple[str, str], str]:
    """(row, column) -> ``textbf`` or ``underline``, by the means as they are printed."""
    marks = {}
    for column, group in cells.groupby("column", sort=False):
        ranks = group["mean"].map(lambda mean: shown(mean, metric)).rank(method="min", ascending=False)
        if len(group) >= _RIVALS and ranks.max() > 1:  # where all are equal none is best
            for row, rank in zip(group["series"], ranks, strict=True):
                if rank <= len(_MARKS):
                    marks[row, str(column)] = _MARKS[int(rank) - 1]
    return marks


_MARKS = ("textbf", "underline")
_RIVALS = 3  # fewer rows are no competition
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
