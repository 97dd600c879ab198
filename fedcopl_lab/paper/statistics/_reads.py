"""What statistics read from a run's stored rows: accuracies in percent, counts of label phases, curves."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcopl_lab.paper._evidence import Read, Rows, Settings
from fedcopl_lab.paper.items._columns import BASELINES, with_labels

TRAINERS = BASELINES
"""The trainers that FedCoPL is compared with."""

EQUAL_SHARE = "20%"
"""Share of a client's images at which labels are compared at equal numbers."""

LABELLERS: Mapping[str, Settings] = {
    "FPL": {"method": "PromptFL", "labeller": "FPL"},
    "CPL": {"method": "PromptFL", "labeller": "CPL"},
    "CoPL": {"method": "FedCoPL"},
}
"""Runs whose first label phase shows a labeller's labels; before training the trainer does not matter."""


def baselines(*labellers: str, trainers: tuple[str, ...] = TRAINERS) -> dict[str, Settings]:
    """Row name -> settings for each trainer with each labeller.

    >>> list(baselines("FPL", trainers=("PromptFL",)))
    ['PromptFL + FPL']
    """
    return {**with_labels(trainers, labellers)}


def accuracy(rows: Rows) -> float:
    """Client-mean test accuracy after the last round, percent."""
    return 100 * float(rows[-1]["accuracy"])


def accuracy_global(rows: Rows) -> float:
    """Accuracy of the clients' models on all test images after the last round, percent."""
    return 100 * float(rows[-1]["accuracy_global"])


def accuracy_curve(rows: Rows) -> list[float]:
    """Client-mean test accuracy of every round, percent."""
    return [100 * float(row["accuracy"]) for row in rows]


def client_accuracies(rows: Rows) -> np.ndarray:
    """Each client's test accuracy after the last round, percent; NaN for a client without test images, [K]."""
    return 100 * as_floats(rows[-1]["clients"]["accuracy"])


def as_floats(values: Any) -> np.ndarray:
    """Nested lists with None for a gap -> an array with NaN."""
    return np.array(values, dtype=float)


def phases(rows: Rows) -> list[dict[str, Any]]:
    """The label phases in order: lists over clients and classes, [K][C]."""
    found = [row["labels"] for row in rows if "labels" in row]
    if not found:
        raise KeyError("labels")
    return found


def counts(phase: dict[str, Any], name: str) -> np.ndarray:
    """Counts of a label phase, [K, C]."""
    return as_floats(phase[name])


def label_accuracy(phase: dict[str, Any], name: str = "selected") -> float:
    """Client-mean share of right labels among the filtered or selected ones, percent; empty clients are skipped."""
    sizes, right = counts(phase, name).sum(axis=1), counts(phase, f"{name}_correct").sum(axis=1)
    there = sizes > 0
    return 100 * float((right[there] / sizes[there]).mean()) if there.any() else math.nan


def first_labels(rows: Rows) -> float:
    """Label accuracy of the first label phase, percent."""
    return label_accuracy(phases(rows)[0])


def last_labels(rows: Rows) -> float:
    """Label accuracy of the last label phase, percent."""
    return label_accuracy(phases(rows)[-1])


def equal_numbers(rows: Rows) -> float:
    """Label accuracy over the phases of each client's most confident labels, a fifth of its images, percent."""
    return 100 * mean([mean(phase["accuracy_at"][EQUAL_SHARE]) for phase in phases(rows)])


def mean_over_phases(name: str) -> Read:
    """Reader of the label accuracy averaged over the label phases, percent."""
    return lambda rows: float(np.mean([label_accuracy(phase, name) for phase in phases(rows)]))


def shares(values: np.ndarray) -> np.ndarray:
    """Counts -> shares along the last axis; NaN where there is nothing to share out."""
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.full(values.shape, math.nan), where=total > 0)


def distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Total variation between class shares, half the sum of absolute differences, over the last axis; in [0, 1]."""
    return np.asarray(np.abs(shares(first) - shares(second)).sum(axis=-1) / 2)


def sampling_distance(true: np.ndarray, draws: Any) -> np.ndarray:
    """Total variation to be expected between class shares and ``draws`` images drawn from them.

    Each class share of n draws is about normal with variance p(1 - p) / n, whose mean absolute deviation is
    sqrt(2 p(1 - p) / (pi n)).

    Args:
        true: class counts, [..., C].
        draws: number of images drawn, above 0, [...].
    """
    p = shares(true)
    deviation = np.sqrt(2 * p * (1 - p) / (math.pi * np.asarray(draws, dtype=float)[..., None]))
    return np.asarray(deviation.sum(axis=-1) / 2)


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity over the last axis; NaN for an empty side."""
    lengths = np.asarray(np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1))
    products = np.asarray((first * second).sum(axis=-1))
    return np.divide(products, lengths, out=np.full(products.shape, math.nan), where=lengths > 0)


def mean(values: Any) -> float:
    """Mean of what is there; NaN where nothing is."""
    there = as_floats(values)[~np.isnan(as_floats(values))]
    return float(there.mean()) if there.size else math.nan
