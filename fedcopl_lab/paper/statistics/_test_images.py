"""What the test images, the same at every seed, leave open in an accuracy: standard errors from the stored results."""

import math
from collections.abc import Callable

import numpy as np

from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.paper._evidence import Read, Rows
from fedcopl_lab.paper.statistics._readers import accuracy, as_floats, last_five

Results = list[np.ndarray]
"""Per client, or once for all: whether each test image is right, or the share of rounds in which it is."""


def image_error(read: Read, own: Rows, other: Rows | None = None) -> float | None:
    """Standard error, in points, of an accuracy or of the gap between two, over draws of the test images.

    Two runs with one split are compared image by image. Without another run, the accuracy counts as one of a pair
    that are right independently of each other. Where rows have no results per image, the clients' accuracies are
    taken as binomial shares, independent in both runs, which is too much where both err on the same images.

    Args:
        read: what is read of the rows; only accuracies of the last rounds have such an error.
        own: stored rounds of a run.
        other: of the run that it is compared with, at the same seed.

    Returns:
        None where nothing is known, or nothing of the kind is read.
    """
    if read not in ACCURACIES:
        return None
    sides = [own] if other is None else [own, other]
    found = [ACCURACIES[read](rows) for rows in sides]
    if None not in found:
        known = [results for results in found if results is not None]
        if len(known) == 2 and [len(group) for group in known[0]] == [len(group) for group in known[1]]:
            return _error([first - second for first, second in zip(*known, strict=True)])
        return math.hypot(*(_error(results) for results in (known * 2)[:2]))
    if any("n_test" not in rows[-1].get("clients", {}) for rows in sides):
        return None
    return math.hypot(*(_binomial(rows) for rows in (sides * 2)[:2]))


def _last(rows: Rows) -> Results | None:
    row = rows[-1]
    texts = [row["right"]] if "right" in row else row.get("clients", {}).get("right")
    return None if texts is None else [_as_array(text) for text in texts if text]


def _last_rounds(rows: Rows) -> Results | None:
    late = rows[-LAST_ROUNDS:]
    if any("right" not in row for row in late):
        return None
    return [np.mean([_as_array(row["right"]) for row in late], axis=0)]


ACCURACIES: dict[Read, Callable[[Rows], Results | None]] = {accuracy: _last, last_five: _last_rounds}
"""Readers of accuracies on the shared test images -> the results behind them."""


def _as_array(text: str) -> np.ndarray:
    return np.array(list(text), dtype=float)


def _error(results: Results) -> float:
    """Of the mean over clients of each client's mean, in points."""
    variances = [group.var(ddof=int(len(group) > 1)) / len(group) for group in results]
    return 100 * math.sqrt(sum(variances)) / len(results)


def _binomial(rows: Rows) -> float:
    clients = rows[-1]["clients"]
    shares, sizes = as_floats(clients["accuracy"]), as_floats(clients["n_test"])
    there = sizes > 0
    variances = shares[there] * (1 - shares[there]) / sizes[there]
    return 100 * math.sqrt(float(variances.sum())) / int(there.sum())
