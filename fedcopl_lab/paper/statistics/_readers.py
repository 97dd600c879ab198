"""What claims read from a run's stored rows: accuracies in percent, and FedCoPL's labels, class counts and uploads.

Below them what the test images, the same at every seed, leave open in an accuracy.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.paper._evidence import Read, Rows
from fedcopl_lab.paper._judge import mean_step, spearman

EQUAL_SHARE = "20%"
"""Share of a client's images at which labels are compared at equal numbers."""


def mean(values: Any) -> float:
    """Mean of what is there; NaN where nothing is."""
    there = as_floats(values)[~np.isnan(as_floats(values))]
    return float(there.mean()) if there.size else math.nan


def as_floats(values: Any) -> np.ndarray:
    """Nested lists with None for a gap -> an array with NaN."""
    return np.array(values, dtype=float)


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's, of the places where neither has a gap; NaN for fewer than two."""
    there = ~np.isnan(first) & ~np.isnan(second)
    return spearman(list(first[there]), list(second[there])) if there.sum() > 1 else math.nan


def accuracy(rows: Rows) -> float:
    """Client-mean test accuracy after the last round, percent."""
    return 100 * float(rows[-1]["accuracy"])


def accuracy_curve(rows: Rows) -> list[float]:
    """Client-mean test accuracy of every round, percent."""
    return [100 * float(row["accuracy"]) for row in rows]


def last_five(rows: Rows) -> float:
    """Mean accuracy of the last five rounds, percent: the last round alone is noisy."""
    return float(np.mean(accuracy_curve(rows[-LAST_ROUNDS:])))


def client_accuracies(rows: Rows) -> np.ndarray:
    """Each client's test accuracy after the last round, percent; NaN for a client without test images, [K]."""
    return 100 * as_floats(rows[-1]["clients"]["accuracy"])


def over_others(rows: Rows) -> float:
    """Accuracy with a client's own text prompt minus the mean with another client's, points."""
    table = as_floats(rows[-1]["exchange"])  # [client whose images, client whose prompt]
    own = np.diag(table)
    others = (table.sum(axis=1) - own) / (len(table) - 1)
    return 100 * mean(own - others)


def over_average(rows: Rows) -> float:
    """Accuracy with a client's own text prompt minus with the averaged one, points."""
    return 100 * mean(np.diag(as_floats(rows[-1]["exchange"])) - as_floats(rows[-1]["exchange_mean"]))


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


def label_curve(rows: Rows, name: str = "selected") -> list[float]:
    """Label accuracy of every label phase, percent."""
    return [label_accuracy(phase, name) for phase in phases(rows)]


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
    sqrt(2 p(1 - p) / (pi n)). ``true`` are class counts, [..., C], ``draws`` numbers above 0, [...].
    """
    p = shares(true)
    deviation = np.sqrt(2 * p * (1 - p) / (math.pi * np.asarray(draws, dtype=float)[..., None]))
    return np.asarray(deviation.sum(axis=-1) / 2)


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity over the last axis; NaN for an empty side."""
    lengths = np.asarray(np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1))
    products = np.asarray((first * second).sum(axis=-1))
    return np.divide(products, lengths, out=np.full(products.shape, math.nan), where=lengths > 0)


def class_excess(rows: Rows) -> float:
    """Distance of predicted from true class shares of the pool, less what chance alone gives, points."""
    true, predicted = _of_pool(rows, "true", "predicted")
    return 100 * float(distance(predicted, true) - sampling_distance(true, true.sum()))


def recall_spread(rows: Rows) -> float:
    """Recall of the best class minus that of the worst, points."""
    right, true = _of_pool(rows, "predicted_correct", "true")
    return 100 * float(np.ptp(right[true > 0] / true[true > 0]))


def filtered_excess(rows: Rows) -> float:
    """Distance of a client's filtered shares from its true ones, less what chance alone gives, points."""
    true, kept = (counts(phases(rows)[0], name) for name in ("true", "filtered"))
    there = kept.sum(axis=1) > 0
    return 100 * mean(distance(kept[there], true[there]) - sampling_distance(true[there], kept[there].sum(axis=1)))


def share_gained(rows: Rows) -> float:
    """Rank correlation over classes of over-prediction and the share gained by filtering."""
    true, predicted, kept = _of_pool(rows, "true", "predicted", "filtered")
    there = true > 0
    gained = kept[there] / kept.sum() - predicted[there] / predicted.sum()
    return spearman(list(predicted[there] / true[there]), list(gained))


def _of_pool(rows: Rows, *names: str) -> list[np.ndarray]:
    """Counts of the first label phase over all clients, [C] each."""
    return [np.asarray(counts(phases(rows)[0], name).sum(axis=0)) for name in names]


def saved(rows: Rows, of: Callable[[dict[str, Any], str], float], ending: str = "") -> float:
    """A number of the filtered set minus that of the allocated one, averaged over the label phases."""
    return mean([of(phase, f"filtered{ending}") - of(phase, f"selected{ending}") for phase in phases(rows)])


def variation(phase: dict[str, Any], name: str) -> float:
    """Coefficient of variation over classes of the images that all clients select."""
    by_class = counts(phase, name).sum(axis=0)
    return float(by_class.std() / by_class.mean()) if by_class.sum() else math.nan


def distance_to_true(phase: dict[str, Any], name: str) -> float:
    """Distance from the clients' true shares, mean over clients."""
    return guess_error(counts(phase, name), counts(phase, "true"))


def unlike_true(phase: dict[str, Any], name: str) -> float:
    """Minus the cosine similarity to the clients' true counts, mean over clients."""
    return -mean(cosine(counts(phase, name), counts(phase, "true")))


def from_upload(read: Callable[[np.ndarray, np.ndarray], Any]) -> Read:
    """Reader of a number of the true and the uploaded counts, first label phase, clients with images and uploads."""

    def from_rows(rows: Rows) -> float:
        true, sent = (counts(phases(rows)[0], name) for name in ("true", "uploaded"))
        there = (true.sum(axis=1) > 0) & (sent.sum(axis=1) > 0)
        return float(read(true[there], sent[there]))

    return from_rows


def guess_error(guess: np.ndarray, true: np.ndarray) -> float:
    """Client mean of the total variation between guessed and true class shares."""
    return mean(distance(guess, true))


def hidden(true: np.ndarray, sent: np.ndarray) -> float:
    """Error of reading a client's class shares off its upload, minus that of guessing the global shares, points."""
    return 100 * (guess_error(sent, true) - guess_error(np.broadcast_to(true.sum(axis=0), true.shape), true))


def explained(true: np.ndarray, sent: np.ndarray) -> float:
    """R² of the true shares predicted by the uploaded ones, over clients and classes."""
    own, guess = shares(true), shares(sent)
    return float(1 - ((own - guess) ** 2).sum() / ((own - own.mean()) ** 2).sum())


READERS: Mapping[str, Read] = {
    "accuracy": accuracy,
    "last_five": last_five,
    "accuracy_global": lambda rows: 100 * float(rows[-1]["accuracy_global"]),  # on all test images
    "accuracy_steps": lambda rows: mean_step(accuracy_curve(rows)),  # mean change from round to round
    "over_others": over_others,
    "over_average": over_average,
    "first_labels": lambda rows: label_curve(rows)[0],
    "last_labels": lambda rows: label_curve(rows)[-1],
    "selected_labels": lambda rows: float(np.mean(label_curve(rows))),
    "filtered_labels": lambda rows: float(np.mean(label_curve(rows, "filtered"))),
    "label_steps": lambda rows: mean_step(label_curve(rows)),
    # of each client's most confident labels, a fifth of its images
    "equal_numbers": lambda rows: 100 * mean([mean(phase["accuracy_at"][EQUAL_SHARE]) for phase in phases(rows)]),
    # Jaccard index of the sets that the two filters keep
    "filter_overlap": lambda rows: mean([mean(phase["kept"]["jaccard"]) for phase in phases(rows)]),
    "class_excess": class_excess,
    "recall_spread": recall_spread,
    "filtered_excess": filtered_excess,
    "share_gained": share_gained,
    "variation_saved": partial(saved, of=variation),
    "variation_saved_true": partial(saved, of=variation, ending="_correct"),  # by true label, images labelled right
    "distance_saved": lambda rows: 100 * saved(rows, distance_to_true),
    "cosine_gained": lambda rows: saved(rows, unlike_true),
    "hidden": from_upload(hidden),
    "upload_error": from_upload(lambda true, sent: 100 * guess_error(sent, true)),
    "uniform_error": from_upload(lambda true, sent: guess_error(np.ones_like(true), true)),  # in [0, 1]
    "explained_by_upload": from_upload(explained),
    # of the classes that a client holds
    "classes_named": from_upload(lambda true, sent: float((sent[true > 0] > 0).mean())),
}
"""Name in ``statistics.csv`` -> one number of a run; accuracies and label accuracies in percent."""

Results = list[np.ndarray]
"""Per client, or once for all: whether each test image is right, or the share of rounds in which it is."""


def image_error(read: Read, own: Rows, other: Rows | None = None) -> float | None:
    """Standard error, in points, of an accuracy or of the gap between two, over draws of the test images.

    Two runs with one split are compared image by image. Without another run, the accuracy counts as one of a pair
    that are right independently of each other. Where rows have no results per image, the clients' accuracies are
    taken as binomial shares, independent in both runs, which is too much where both err on the same images. None where
    nothing is known, or no accuracy of the last rounds is read.
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
    right, sizes = as_floats(clients["accuracy"]), as_floats(clients["n_test"])
    there = sizes > 0
    variances = right[there] * (1 - right[there]) / sizes[there]
    return 100 * math.sqrt(float(variances.sum())) / int(there.sum())
