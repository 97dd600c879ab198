"""How far a client's upload is from its true classes: what a server could read off the counts."""

from typing import Any

import numpy as np


def upload_distances(labels: dict[str, Any]) -> dict[str, float]:
    """Total variation between each client's true class shares and what the server may guess them to be.

    Args:
        labels: the counts of a label phase, [K][C] lists: ``true``, and ``uploaded`` or ``filtered``.

    Returns:
        Means over the clients: ``upload_distance`` of the normalised upload, ``upload_distance_global`` of the
        global shares, the guess that needs no upload, and ``upload_distance_uniform`` of equal shares.

    >>> upload_distances({"true": [[2, 0], [0, 2]], "uploaded": [[1, 1], [0, 3]]})["upload_distance"]
    0.25
    """
    true = shares(np.asarray(labels["true"], dtype=float))
    uploaded = np.asarray(labels.get("uploaded", labels.get("filtered", labels["selected"])), dtype=float)
    guesses = {
        "upload_distance": shares(uploaded),
        "upload_distance_global": shares(np.asarray(labels["true"], dtype=float).sum(axis=0, keepdims=True)),
        "upload_distance_uniform": np.full((1, true.shape[1]), 1 / true.shape[1]),
    }
    return {name: float(total_variation(true, guess).mean()) for name, guess in guesses.items()}


def shares(counts: np.ndarray) -> np.ndarray:
    """Rows scaled to sum to 1; a row of zeros says nothing and becomes equal shares."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1), 1 / counts.shape[1])


def total_variation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Half the absolute difference of shares, per row: 0 for equal rows, 1 for disjoint ones."""
    return np.abs(a - b).sum(axis=1) / 2
