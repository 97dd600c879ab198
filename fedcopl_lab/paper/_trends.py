"""Trends over an ordered setting or over rounds, one number per seed; what never arrives is censored, not dropped."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedcopl_lab._errors import FedCoPLError


@dataclass(frozen=True)
class Reached:
    """When a curve first reached a target.

    Attributes:
        round: first round at or above the target; for a curve that never got there, one after its last.
        censored: whether it never got there, so that the true round is ``round`` or later.
    """

    round: int
    censored: bool


def slope(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Least-squares slope of y over x; NaN where y has a gap.

    Args:
        x: places of the setting, at least two different ones.
        y: one value each.

    >>> slope([0, 1, 2], [1.0, 3.0, 5.0])
    2.0
    """
    places, values = _pairs(x, y)
    centred = places - places.mean()
    return float(centred @ values / (centred @ centred))


def spearman(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; NaN where either side is constant.

    >>> spearman([1, 2, 3], [10.0, 20.0, 15.0])
    0.5
    """
    if len(x) != len(y) or len(x) < 2:
        raise FedCoPLError(f"{len(x)} and {len(y)} values cannot be ranked together; expected two or more pairs")
    first, second = (pd.Series(list(values), dtype=float).rank().to_numpy() for values in (x, y))
    if not np.ptp(first) or not np.ptp(second):
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


def slopes(settings: pd.DataFrame, places: Sequence[float | int]) -> pd.Series:
    """Per seed, the slope over the columns of a table, which stand at ``places``.

    >>> slopes(pd.DataFrame({"a": [1.0], "b": [3.0]}), [0, 1]).tolist()
    [2.0]
    """
    found = [slope(places, line) for line in settings.to_numpy(dtype=float).tolist()]
    return pd.Series(found, index=settings.index, dtype=float)


def mean_step(curve: Sequence[float | int]) -> float:
    """Mean absolute change from one value of a curve to the next; NaN for fewer than two.

    >>> mean_step([1.0, 3.0, 2.0])
    1.5
    """
    return float(np.abs(np.diff(np.asarray(curve, dtype=float))).mean()) if len(curve) > 1 else math.nan


def rounds_to(accuracies: Sequence[float | int], target: float | int, window: int = 1) -> Reached:
    """The first round whose accuracy, or its mean over the last ``window`` rounds, is at or above a target.

    Args:
        accuracies: one per round, the first of round 1.
        target: in the same unit.
        window: rounds averaged; a mean needs that many rounds, so it exists from round ``window`` on.

    >>> rounds_to([0.2, 0.5, 0.4], 0.5)
    Reached(round=2, censored=False)
    """
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

    >>> log_speed_up(Reached(40, False), Reached(20, False))
    1.0
    """
    return math.log2(other.round / own.round)


def _pairs(x: Sequence[float | int], y: Sequence[float | int]) -> tuple[np.ndarray, np.ndarray]:
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(places) != len(values) or len(places) < 2 or not np.ptp(places):
        raise FedCoPLError(f"no slope through {len(values)} values at {places.tolist()}; expected two different places")
    return places, values
