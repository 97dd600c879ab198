"""Histograms of confidences over the first rounds, and what lies above a threshold in them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper._sage_rounds import Row

THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95)
"""Confidences from which images are counted in the pictures; all are edges of the 20 stored bins."""


def first_third(rows: Sequence[Row]) -> Sequence[Row]:
    """The first third of the rounds, one at least: what the papers call early in training.

    >>> [row["round"] for row in first_third([{"round": n} for n in range(1, 8)])]
    [1, 2]
    """
    return rows[: max(len(rows) // 3, 1)]


def last_third(rows: Sequence[Row]) -> Sequence[Row]:
    """The last third of the rounds, one at least."""
    return rows[-max(len(rows) // 3, 1) :]


def histogram(rows: Sequence[Row], model: str) -> np.ndarray:
    """Share of the weak views in each bin of confidence, over several rounds together, [bins].

    Args:
        rows: stored rounds.
        model: ``"local"`` or ``"global"``.
    """
    counts = np.sum([row[model]["counts"] for row in rows], axis=0, dtype=float)
    total = counts.sum()
    return counts / total if total else counts


def share_above(shares: np.ndarray, threshold: float | int) -> float:
    """Share of views whose confidence is at least a threshold, from a histogram over [0, 1].

    Raises:
        FedCoPLError: the threshold is no edge of the bins, so that the histogram cannot say.

    >>> share_above(np.array([0.5, 0.25, 0.125, 0.125]), 0.5)
    0.25
    """
    edge = threshold * len(shares)
    if not 0 <= threshold <= 1 or abs(edge - round(edge)) > 1e-9:
        raise FedCoPLError(f"threshold={threshold} is no edge of {len(shares)} equal bins; choose a multiple of their "
                           "width")  # fmt: skip
    return float(shares[round(edge) :].sum())


def confidence_lines(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The histograms of the first third of the rounds: metric is the model, x the lower edge of a bin."""
    for model in metrics:
        shares = histogram([row for row in first_third(rows) if model in row], model)
        for place, value in enumerate(shares):
            yield {"metric": model, "x": place / len(shares), "y": None, "value": float(value)}
