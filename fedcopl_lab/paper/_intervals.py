"""Intervals over seeds and test images, their p-values, and the seeds that a width needs; no files, no drawing."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from fedcopl_lab._errors import FedCoPLError

LEVEL = 0.95
"""Confidence of every interval."""

MOST_SEEDS = 1000
"""More seeds than this are as good as none that would do."""

_NORMAL = 1.959963984540054
_ERROR = "image_error"


def with_image_error(values: pd.Series, error: float) -> pd.Series:
    """Numbers per seed that share their test images, with the standard error which that leaves in their mean.

    All seeds test on the same images, so that more seeds do not make this part smaller.
    """
    values.attrs[_ERROR] = error
    return values


def image_error(values: pd.Series | pd.DataFrame) -> float:
    """The standard error of :func:`with_image_error`; 0 where nothing is known."""
    return float(values.attrs.get(_ERROR, 0.0))


def minus(own: pd.Series, other: pd.Series) -> pd.Series:
    """A difference of two differences, whose test errors add up as if they were independent."""
    return with_image_error(own - other, math.hypot(image_error(own), image_error(other)))


def columns_of(cells: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Numbers per seed side by side, for seeds that have all; a mean's error is at most the mean of their errors."""
    table = pd.DataFrame(dict(cells)).dropna()
    table.attrs[_ERROR] = float(np.mean([image_error(values) for values in cells.values()]))
    return table


def t_interval(values: pd.Series) -> tuple[float, float, float]:
    """Mean of one number per seed and its 95 % interval.

    The half width of the t-interval over seeds and 1.96 standard errors of the test images, if known, are added in
    quadrature.
    """
    if len(values) < 2:
        raise FedCoPLError(f"an interval of {len(values)} value(s) does not exist; pass at least 2")
    numbers = values.to_numpy(dtype=float)
    mean = float(numbers.mean())
    spread = float(numbers.std(ddof=1)) if np.ptp(numbers) else 0.0  # the mean of equal floats may miss their last bit
    half = math.hypot(_quantile(len(numbers)) * spread / math.sqrt(len(numbers)), _NORMAL * image_error(values))
    return mean, mean - half, mean + half


def p_value(mean: float, low: float, high: float, n_seeds: int) -> float:
    """Two-sided p-value of a mean of 0, below 5 % exactly where the 95 % interval leaves out 0."""
    half = (high - low) / 2
    if not half:
        return float(mean == 0)
    return float(2 * stdtr(n_seeds - 1, -abs(mean) * _quantile(n_seeds) / half))


def survivors(p_values: Sequence[float], step: str) -> int:
    """How many of several tests stay significant at 5 % when all are counted.

    Args:
        p_values: of all tests made.
        step: ``"Holm"`` bounds the chance of one false finding, ``"Benjamini-Hochberg"`` the share of false ones.

    >>> survivors([0.001, 0.02, 0.04, 0.6], "Holm"), survivors([0.001, 0.02, 0.04, 0.6], "Benjamini-Hochberg")
    (1, 2)
    """
    ordered = sorted(p_values)
    n, alpha = len(ordered), 1 - LEVEL
    if step == "Holm":
        return next((i for i, p in enumerate(ordered) if p > alpha / (n - i)), n)
    return max((i for i, p in enumerate(ordered, start=1) if p <= alpha * i / n), default=0)


def seeds_for(spread: float, effect: float, error: float = 0.0) -> int | None:
    """The fewest seeds, 3 or more, whose 95 % interval has a half width below an effect.

    Args:
        spread: standard deviation of the paired difference over seeds.
        effect: half width wanted, above 0, in the same unit.
        error: standard error of the test images, which no seed makes smaller.

    Returns:
        None where the test images alone leave more than that, or more than a thousand seeds are needed.

    Raises:
        FedCoPLError: an effect that is not above 0.

    >>> seeds_for(spread=2.4, effect=2.4)
    7
    """
    if not effect > 0:
        raise FedCoPLError(f"effect={effect} is not valid; expected a half width above 0")
    for n in range(3, MOST_SEEDS + 1):
        if math.hypot(_quantile(n) * spread / math.sqrt(n), _NORMAL * error) < effect:
            return n
    return None


def _quantile(n_seeds: int) -> float:
    return float(stdtrit(n_seeds - 1, (1 + LEVEL) / 2))
