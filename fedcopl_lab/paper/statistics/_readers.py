"""What claims read from a FedCoPL run's stored rows: accuracies in percent, labels, drift, uploads."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.paper._evidence import Read, Rows
from fedcopl_lab.paper._judge import mean_step, spearman

EQUAL_SHARE = "20%"
"""Share of a client's images at which labels are compared at equal numbers."""


def reader(name: str) -> Read:
    """The reader of a name in the table of claims.

    A public function of this module or of ``_sage_readers``; else a number of SAGE's rounds, averaged over them:
    ``share_local``, ``early.share_local`` and ``late.share_local`` over the first and the last third,
    ``clients.start_distance`` over clients, ``ensemble.agreement_with_mean``.
    """
    from fedcopl_lab.paper.statistics import _sage_readers

    for known in (globals(), vars(_sage_readers)):
        if name in known and getattr(known[name], "__module__", "") == known["__name__"]:
            found: Read = known[name]
            return found
    return _sage_readers.logged(*reversed(name.split(".", 1)))


def accuracy(rows: Rows) -> float:
    """Client-mean test accuracy after the last round, percent."""
    return 100 * float(rows[-1]["accuracy"])


def last_five(rows: Rows) -> float:
    """Mean accuracy of the last five rounds, percent: the last round alone is noisy."""
    return float(np.mean(accuracy_curve(rows[-LAST_ROUNDS:])))


def accuracy_global(rows: Rows) -> float:
    """Accuracy of the clients' models on all test images after the last round, percent."""
    return 100 * float(rows[-1]["accuracy_global"])


def accuracy_curve(rows: Rows) -> list[float]:
    """Client-mean test accuracy of every round, percent."""
    return [100 * float(row["accuracy"]) for row in rows]


def accuracy_steps(rows: Rows) -> float:
    """Mean change of the accuracy from round to round, points."""
    return mean_step(accuracy_curve(rows))


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


def selected_labels(rows: Rows) -> float:
    """Label accuracy of the selected images, averaged over the label phases, percent."""
    return float(np.mean([label_accuracy(phase) for phase in phases(rows)]))


def filtered_labels(rows: Rows) -> float:
    """Label accuracy of the filtered images, averaged over the label phases, percent."""
    return float(np.mean([label_accuracy(phase, "filtered") for phase in phases(rows)]))


def label_steps(rows: Rows) -> float:
    """Mean change of the label accuracy from phase to phase, points."""
    return mean_step([label_accuracy(phase) for phase in phases(rows)])


def equal_numbers(rows: Rows) -> float:
    """Label accuracy over the phases of each client's most confident labels, a fifth of its images, percent."""
    return 100 * mean([mean(phase["accuracy_at"][EQUAL_SHARE]) for phase in phases(rows)])


def filter_overlap(rows: Rows) -> float:
    """Jaccard index of the sets that the two filters keep."""
    return mean([mean(phase["kept"]["jaccard"]) for phase in phases(rows)])


def class_excess(rows: Rows) -> float:
    """Distance of predicted from true class shares of the pool, less what chance alone gives, points."""
    true, predicted = (_of_pool(rows, name) for name in ("true", "predicted"))
    return 100 * float(distance(predicted, true) - sampling_distance(true, true.sum()))


def recall_spread(rows: Rows) -> float:
    """Recall of the best class minus that of the worst, points."""
    right, true = (_of_pool(rows, name) for name in ("predicted_correct", "true"))
    return 100 * float(np.ptp(right[true > 0] / true[true > 0]))


def filtered_excess(rows: Rows) -> float:
    """Distance of a client's filtered shares from its true ones, less what chance alone gives, points."""
    true, kept = (counts(phases(rows)[0], name) for name in ("true", "filtered"))
    there = kept.sum(axis=1) > 0
    return 100 * mean(distance(kept[there], true[there]) - sampling_distance(true[there], kept[there].sum(axis=1)))


def share_gained(rows: Rows) -> float:
    """Rank correlation over classes of over-prediction and the share gained by filtering."""
    true, predicted, kept = (_of_pool(rows, name) for name in ("true", "predicted", "filtered"))
    there = true > 0
    gained = kept[there] / kept.sum() - predicted[there] / predicted.sum()
    return spearman(list(predicted[there] / true[there]), list(gained))


def variation_saved(rows: Rows, ending: str = "") -> float:
    """Coefficient of variation over classes of the images selected, filtered set minus allocated set."""
    pairs = [(counts(phase, f"filtered{ending}"), counts(phase, f"selected{ending}")) for phase in phases(rows)]
    return mean([_variation(filtered) - _variation(selected) for filtered, selected in pairs])


def variation_saved_true(rows: Rows) -> float:
    """The same by true label, of the images labelled right."""
    return variation_saved(rows, "_correct")


def distance_saved(rows: Rows) -> float:
    """Distance from the client's true shares, filtered set minus allocated set, points."""
    return 100 * mean([_to_true(phase, "filtered") - _to_true(phase, "selected") for phase in phases(rows)])


def cosine_gained(rows: Rows) -> float:
    """Cosine similarity to the client's true counts, allocated set minus filtered set."""
    found = []
    for phase in phases(rows):
        own, other = (mean(cosine(counts(phase, name), counts(phase, "true"))) for name in ("selected", "filtered"))
        found.append(own - other)
    return mean(found)


def hidden(rows: Rows) -> float:
    """Error of reading a client's class shares off its upload, minus that of guessing the global shares, points."""
    return 100 * first_upload(rows, lambda true, sent: guess_error(sent, true) - guess_error(_global(true), true))


def upload_error(rows: Rows) -> float:
    """Error of reading a client's class shares off its upload, points."""
    return 100 * first_upload(rows, lambda true, sent: guess_error(sent, true))


def uniform_error(rows: Rows) -> float:
    """Error of guessing equal shares, in [0, 1]."""
    return first_upload(rows, lambda true, sent: guess_error(np.ones_like(true), true))


def explained_by_upload(rows: Rows) -> float:
    """R² of the true shares predicted by the uploaded ones, over clients and classes."""

    def explained(true: np.ndarray, sent: np.ndarray) -> float:
        own, guess = shares(true), shares(sent)
        return float(1 - ((own - guess) ** 2).sum() / ((own - own.mean()) ** 2).sum())

    return first_upload(rows, explained)


def classes_named(rows: Rows) -> float:
    """Share of the classes that a client holds which its upload names."""
    return first_upload(rows, lambda true, sent: float((sent[true > 0] > 0).mean()))


def first_upload(rows: Rows, read: Callable[[np.ndarray, np.ndarray], float]) -> float:
    """A number from the true and the uploaded counts of the first label phase, clients with images and uploads."""
    phase = phases(rows)[0]
    true, sent = counts(phase, "true"), counts(phase, "uploaded")
    there = (true.sum(axis=1) > 0) & (sent.sum(axis=1) > 0)
    return float(read(true[there], sent[there]))


def guess_error(guess: np.ndarray, true: np.ndarray) -> float:
    """Client mean of the total variation between guessed and true class shares."""
    return mean(distance(guess, true))


def as_floats(values: Any) -> np.ndarray:
    """Nested lists with None for a gap -> an array with NaN."""
    return np.array(values, dtype=float)


def counts(phase: dict[str, Any], name: str) -> np.ndarray:
    """Counts of a label phase, [K, C]."""
    return as_floats(phase[name])


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


def _of_pool(rows: Rows, name: str) -> np.ndarray:
    """Counts of the first label phase over all clients, [C]."""
    return np.asarray(counts(phases(rows)[0], name).sum(axis=0))


def _global(true: np.ndarray) -> np.ndarray:
    return np.broadcast_to(true.sum(axis=0), true.shape)


def _variation(selected: np.ndarray) -> float:
    """Coefficient of variation over classes of the images that all clients select."""
    by_class = selected.sum(axis=0)
    return float(by_class.std() / by_class.mean()) if by_class.sum() else float("nan")


def _to_true(phase: dict[str, Any], name: str) -> float:
    return mean(distance(counts(phase, name), counts(phase, "true")))
