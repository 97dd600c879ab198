"""What SAGE's rounds say: pseudo-labels as counts and shares, confidences, the entropies of Eqs. 10 to 17."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import LAST_ROUNDS

Row = Mapping[str, Any]
Numbers = dict[str, float | int | None]

GROUPS = ("majority", "minority")

THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95)
"""Confidences from which images are counted in the pictures; all are edges of the 20 stored bins."""

CLIENT_METRICS = (
    "mix_entropy", "prior_entropy", "posterior_entropy", "eq16_right", "eq16_printed", "start_distance", "end_distance",
    "start_batch_labelled_distance", "end_batch_labelled_distance",
)  # fmt: skip
MERGED_METRICS = ("distance_to_mean", "distance_to_single")


def pseudo_label_numbers(row: Row) -> Numbers:
    """The derived numbers of one stored round; empty for a method without pseudo-labels.

    ``n_*`` are counts of weak views, ``share_*`` and ``label_accuracy_*`` shares in [0, 1], None where there is
    nothing to divide by; the endings are ``local`` and ``global`` (confident models), ``cpg`` (one of the two is),
    ``added`` (only the global one is).
    """
    if "both" not in row:
        return {}
    local, both, views = row["local"], row["both"], row["n_views"]
    added, added_right = both["n_added"], both["n_added_correct"]
    numbers: Numbers = {
        "n_views": views,
        "share_cpg": share(both["n_union"], views),
        "share_added": share(added, views),
        # a view that the local model labels keeps that label; the others take the global model's
        "label_accuracy_cpg": share(local["n_sure_correct"] + added_right, local["n_sure"] + added),
        "label_accuracy_added": share(added_right, added),
        "share_agreeing": both["agreement"],
        "gap": both["gap"],
        "lambda": both["lambda"],
        "lambda_sure": both["lambda_sure"],
    }
    for name in ("local", "global"):
        model = row[name]
        numbers |= {
            f"n_{name}": model["n_sure"],
            f"share_{name}": share(model["n_sure"], views),
            f"label_accuracy_{name}": share(model["n_sure_correct"], model["n_sure"]),
            f"entropy_{name}": model["entropy"],
            f"histogram_entropy_{name}": model["histogram_entropy"],
        }
    for group in GROUPS:
        numbers |= _group_numbers(group, row["groups"][group])
    return numbers


def share(part: float | int | None, whole: float | int | None) -> float | None:
    """One count as a share of another; None where there is nothing to share."""
    return part / whole if whole and part is not None else None


def _group_numbers(group: str, counts: Row) -> Numbers:
    numbers: Numbers = {f"n_{group}": counts["n"], f"lambda_{group}": counts["lambda"]}
    for ending, used in (("local", "n_local_sure"), ("global", "n_global_sure"), ("cpg", "n_used")):
        numbers[f"share_{group}_{ending}"] = share(counts[used], counts["n"])
        numbers[f"label_accuracy_{group}_{ending}"] = share(counts[f"{used}_correct"], counts[used])
    return numbers


def first_third(rows: Sequence[Row]) -> Sequence[Row]:
    """The first third of the rounds, one at least: what the papers call early in training."""
    return rows[: max(len(rows) // 3, 1)]


def last_third(rows: Sequence[Row]) -> Sequence[Row]:
    """The last third of the rounds, one at least."""
    return rows[-max(len(rows) // 3, 1) :]


def last_five(rows: Sequence[Row]) -> float:
    """Mean accuracy of the last five rounds, or of all where there are fewer."""
    return float(np.mean([row["accuracy"] for row in rows[-LAST_ROUNDS:]]))


def gate_numbers(rows: Sequence[Row]) -> Numbers:
    """What says whether a run reached the regime in which pseudo-labels can pay.

    ``accuracy_last5``; ``round_noise``, the mean change from one round to the next of the mean of five rounds, over the
    last third; and for a method with pseudo-labels, over the last third, ``share_cpg`` of the views that one of both
    models is confident of, ``label_accuracy_cpg`` of these, and the mean ``lambda_sure``.
    """
    means = [last_five(rows[: end + 1]) for end in range(len(rows))]
    late = last_third(rows)
    changes = np.abs(np.diff(means[-len(late) - 1 :]))
    numbers: Numbers = {"accuracy_last5": means[-1], "round_noise": float(changes.mean()) if len(changes) else None}
    if "both" in late[0]:
        sure = sum(row["local"]["n_sure"] + row["both"]["n_added"] for row in late)
        right = sum(row["local"]["n_sure_correct"] + row["both"]["n_added_correct"] for row in late)
        trust = [row["both"]["lambda_sure"] for row in late if row["both"]["lambda_sure"] is not None]
        numbers |= {
            "share_cpg": share(sure, sum(row["n_views"] for row in late)),
            "label_accuracy_cpg": share(right, sure),
            "lambda_sure": float(np.mean(trust)) if trust else None,
        }
    return numbers


def histogram(rows: Sequence[Row], model: str) -> np.ndarray:
    """Share of the weak views in each bin of a model's confidence, over several rounds together, [bins]."""
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


def theory_lines(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Means over the rounds of a method with pseudo-labels.

    Of :data:`CLIENT_METRICS` (y is the client), :data:`MERGED_METRICS`, and of ``confidence_when_agreeing`` and
    ``images_when_agreeing`` (x is the number of local models that agree with the new global model's label).
    """
    clients = client_means(rows)
    for metric in metrics:
        if metric in clients:
            for client, value in enumerate(clients[metric]):
                if not np.isnan(value):
                    yield {"metric": metric, "x": len(rows), "y": client, "value": float(value)}
        elif metric in MERGED_METRICS:
            found = [row["ensemble"][metric] for row in rows if "ensemble" in row]
            if found:
                yield {"metric": metric, "x": len(rows), "y": None, "value": float(np.mean(found))}
    images, confidence = by_agreement(rows)
    for level, (count, mean) in enumerate(zip(images, confidence, strict=True)):
        if "images_when_agreeing" in metrics:
            yield {"metric": "images_when_agreeing", "x": level, "y": None, "value": float(count)}
        if "confidence_when_agreeing" in metrics and count:
            yield {"metric": "confidence_when_agreeing", "x": level, "y": None, "value": float(mean)}


def client_means(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Each client's means over the rounds it took part in, NaN for one that never did; [K] each.

    ``prior_entropy`` is H(p(y)) of the mean prediction (Eq. 14), ``posterior_entropy`` the mean H(p(y|x)) (Eq. 12),
    ``eq16_right`` prior entropy plus the divergence of Eq. 15, which is the mean KL(p(y|x) || p(y)) by Bayes' rule;
    ``eq16_printed`` prior entropy plus Eq. 15 as it is printed, weighted by p(y): the mean -KL(p(y) || p(y|x)).
    All are of the trained local model on the client's pool, in nats; NaN where a row does not have it.
    """

    def values(name: str) -> np.ndarray:
        nothing = [None] * len(rows[0]["clients"]["mix_entropy"])
        return np.array([row["clients"].get(name, nothing) for row in rows], dtype=float)

    posterior, information = values("end_entropy"), values("end_information")
    prior = posterior + information  # information is the entropy of the mean less the mean entropy
    found = {
        "mix_entropy": values("mix_entropy"),
        "prior_entropy": prior,
        "posterior_entropy": posterior,
        "eq16_right": prior + information,
        "eq16_printed": prior + values("end_printed"),
        **{name: values(name) for name in CLIENT_METRICS if name.endswith("_distance")},
    }
    return {name: _means(rounds) for name, rounds in found.items()}


def by_agreement(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Test images, and the new global model's mean confidence on them, by the number of agreeing local models."""
    stored = [row["ensemble"] for row in rows if "ensemble" in row]
    if not stored:
        return np.zeros(0), np.zeros(0)
    counts = np.array([one["agreeing_counts"] for one in stored], dtype=float)
    means = np.array([one["agreeing_confidence"] for one in stored], dtype=float)
    images = counts.sum(axis=0)
    total = (counts * np.nan_to_num(means)).sum(axis=0)
    return images, np.divide(total, images, out=np.full(images.shape, np.nan), where=images > 0)


def _means(rounds: np.ndarray) -> np.ndarray:
    there = (~np.isnan(rounds)).sum(axis=0)
    return np.divide(np.nansum(rounds, axis=0), there, out=np.full(rounds.shape[1], np.nan), where=there > 0)
