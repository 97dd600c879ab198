"""Rounds to an accuracy, for the tables of rounds: a run that does not get there is censored, not dropped."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper._sage_rounds import Row

WINDOW = 5
"""Rounds of the running mean beside the raw curve."""

BASE = "FixMatch-LPL"
"""The row that the paper's speed-ups are measured against."""


@dataclass(frozen=True)
class Reached:
    """When a curve first reached a target."""

    round: int  # the first at or above the target; for a curve that never got there, one after its last
    censored: bool  # it never got there, so that the true round is ``round`` or later


def rounds_to(accuracies: Sequence[float | int], target: float | int, window: int = 1) -> Reached:
    """The first round whose accuracy, or its mean over the last ``window`` rounds, is at or above a target."""
    if window < 1 or not len(accuracies):
        raise FedCoPLError(f"window={window} over {len(accuracies)} rounds is not valid; expected both at least 1")
    values = np.asarray(accuracies, dtype=float)
    means = [values[i + 1 - window : i + 1].mean() for i in range(window - 1, len(values))]
    there = [i for i, mean in enumerate(means) if mean >= target]
    return Reached(there[0] + window, censored=False) if there else Reached(len(values) + 1, censored=True)


def log_speed_up(other: Reached, own: Reached) -> float:
    """log2 of how many times more rounds the other needed; a censored curve counts with its bound.

    A bound for the other understates the lead and one for the claimed winner overstates it; when both never
    arrive they are even. Callers say in how many seeds a bound was used.
    """
    return math.log2(other.round / own.round)


def reached_lines(rows: Sequence[Row], column: str) -> Iterator[dict[str, Any]]:
    """When a run reached a column's accuracy, such as ``"CIFAR-100, 30 %"``; x is the target.

    Lines of the metrics ``rounds_needed`` and ``rounds_needed_smoothed`` (for a run that never got there the round
    after its last), ``censored`` and ``censored_smoothed`` (1 for such a run).
    """
    target = float(column.rpartition(", ")[2].split()[0])
    accuracies = [100 * float(row["accuracy"]) for row in rows]
    for ending, window in (("", 1), ("_smoothed", min(WINDOW, len(rows)))):
        found = rounds_to(accuracies, target, window)
        for metric, value in (("rounds_needed", found.round), ("censored", found.censored)):
            yield {"metric": metric + ending, "x": target, "y": None, "value": float(value)}


def with_speed_ups(numbers: pd.DataFrame) -> pd.DataFrame:
    """The numbers with how many times more rounds FixMatch-LPL needed at the same seed, in place of those they have.

    A run that never got there counts with its bound; the metric ``censored`` says which.
    """
    cell, needed = ["item", "column", "seed"], numbers[numbers["metric"] == "rounds_needed"]
    base = needed.loc[needed["series"] == BASE, [*cell, "value"]]
    both = needed.merge(base, on=cell, suffixes=("", "_base"))
    made = both.assign(metric="speed_up", value=both["value_base"] / both["value"])[numbers.columns]
    rest = numbers[numbers["metric"] != "speed_up"]
    return pd.concat([rest, made], ignore_index=True) if len(made) else rest


def speed_ups(numbers: pd.DataFrame, smoothed: bool = False) -> pd.DataFrame:
    """How many times more rounds FixMatch-LPL needs than each row, as a geometric mean over the seeds both have.

    Args:
        numbers: the lines of one table of rounds.
        smoothed: count rounds to the running mean instead.

    Returns:
        Columns series, column, speed_up, n (seeds of both), bounds (how many of them hold only as a bound).

    >>> speed_ups(lab.paper.measured("smoke").query("item == 'sage_supp_table6'")).columns.tolist()
    ['series', 'column', 'speed_up', 'n', 'bounds']

    Shown in notebook ``sage_convergence``.
    """
    wide = reached_table(numbers, smoothed)
    found = []
    for (series, column), own in wide.groupby(["series", "column"], sort=False):
        base = wide[(wide["series"] == BASE) & (wide["column"] == column)]
        both = own.merge(base, on="seed", suffixes=("", "_other"))
        logs = [math.log2(other / own) for other, own in zip(both["rounds_other"], both["rounds"], strict=True)]
        bounds = int((both["censored"] | both["censored_other"]).sum())
        found.append((series, column, 2 ** float(np.mean(logs)) if logs else np.nan, len(both), bounds))
    return pd.DataFrame(found, columns=["series", "column", "speed_up", "n", "bounds"])


def reached_table(numbers: pd.DataFrame, smoothed: bool = False) -> pd.DataFrame:
    """One line per series, column and seed: rounds, and whether they are only a bound."""
    cell, ending = ["series", "column", "seed"], "_smoothed" if smoothed else ""
    rounds, censored = (
        numbers[numbers["metric"] == name + ending][[*cell, "value"]] for name in ("rounds_needed", "censored")
    )
    both = rounds.merge(censored, on=cell, suffixes=("", "_censored"))
    both = both.assign(rounds=both["value"].astype(int), censored=both["value_censored"] > 0)
    return both[[*cell, "rounds", "censored"]]
