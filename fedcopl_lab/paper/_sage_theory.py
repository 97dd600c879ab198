"""The entropies of the supplement's analysis, per client and round: Eqs. 10 to 17 with numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedcopl_lab.paper._sage_rounds import Row

CLIENT_METRICS = ("mix_entropy", "prior_entropy", "posterior_entropy", "eq16_right", "start_distance", "end_distance")
MERGED_METRICS = ("distance_to_mean", "distance_to_single")


def theory_lines(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Means over the rounds: per client (y), for the merged model, and by the number of agreeing clients (x).

    Args:
        rows: stored rounds of a method with pseudo-labels.
        metrics: of :data:`CLIENT_METRICS` (y is the client), :data:`MERGED_METRICS`, and
            ``confidence_when_agreeing`` and ``images_when_agreeing`` (x is the number of local models that agree
            with the merged model's label).
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
    ``eq16_right`` prior entropy plus the divergence of Eq. 15, which is the mean KL(p(y|x) || p(y)) by Bayes' rule.
    All are of the trained local model on the client's pool, in nats.
    """

    def values(name: str) -> np.ndarray:
        return np.array([row["clients"][name] for row in rows], dtype=float)

    posterior, information = values("end_entropy"), values("end_information")
    prior = posterior + information  # information is the entropy of the mean less the mean entropy
    found = {
        "mix_entropy": values("mix_entropy"),
        "prior_entropy": prior,
        "posterior_entropy": posterior,
        "eq16_right": prior + information,
        "start_distance": values("start_distance"),
        "end_distance": values("end_distance"),
    }
    return {name: _means(rounds) for name, rounds in found.items()}


def by_agreement(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Test images, and the merged model's mean confidence on them, by the number of agreeing local models."""
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
