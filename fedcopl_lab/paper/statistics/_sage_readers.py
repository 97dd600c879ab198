"""What claims read from a SAGE run's stored rows: confidences, labels, lambda, entropies, means over rounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedcopl_lab.paper._evidence import Read, Rows
from fedcopl_lab.paper._judge import slope
from fedcopl_lab.paper._sage_rounds import (
    client_means,
    first_third,
    histogram,
    last_third,
    pseudo_label_numbers,
    share_above,
)
from fedcopl_lab.paper.statistics._readers import READERS, as_floats, mean, rank_correlation

TAU = 0.95
_PARTS: Mapping[str, Callable[[Sequence[Any]], Sequence[Any]]] = {"early": first_third, "late": last_third}


def reader(name: str) -> Read:
    """One of :data:`READERS` or :data:`SAGE_READERS`; else a number of SAGE's rounds, averaged over them.

    ``share_local`` of all rounds, ``early.share_local`` and ``late.share_local`` of the first and the last third,
    ``clients.start_distance`` over clients, ``ensemble.agreement_with_mean`` of a stored group.
    """
    return {**READERS, **SAGE_READERS}.get(name) or logged(*reversed(name.split(".", 1)))


def logged(name: str, of: str = "") -> Read:
    """Reader of the mean over rounds of a number; rounds without it are left out.

    Args:
        name: of :func:`fedcopl_lab.paper._sage_rounds.pseudo_label_numbers`, or of a stored group.
        of: ``"early"`` and ``"late"`` take the first and the last third of the rounds; ``"clients"`` takes each
            client's mean first; another name is a stored group, such as ``"ensemble"``.
    """
    if of == "clients":
        return lambda rows: mean(per_client(rows, name))
    if of and of not in _PARTS:
        return lambda rows: mean([row[of][name] for row in rows])
    return lambda rows: mean(curve(_PARTS[of](rows) if of else rows, name))


def curve(rows: Rows, name: str) -> list[float]:
    """A derived number of every round, NaN where there is none."""
    if any("both" not in row for row in rows):
        raise KeyError("both")
    return as_floats([pseudo_label_numbers(row)[name] for row in rows]).tolist()


def per_client(rows: Rows, name: str) -> np.ndarray:
    """Each client's mean over the rounds it took part in; NaN for one that never did, [K]."""
    return np.array([mean(values) for values in zip(*(row["clients"][name] for row in rows), strict=True)])


def above(model: str, threshold: float, rows: Rows) -> float:
    """Percent of the views on which a model is confident at least at a threshold, first third of the rounds."""
    return 100 * share_above(histogram(first_third(rows), model), threshold)


def entropy_follows(mix_of: str, rows: Rows) -> float:
    """Rank correlation over clients of the mean entropy of p_l and the entropy of the client's classes."""
    return rank_correlation(per_client(rows, "local_entropy"), per_client(rows, mix_of))


def eq16_residual(rows: Rows) -> float:
    """Prior entropy plus divergence minus posterior entropy (Eq. 16), mean over clients, nats."""
    found = client_means(rows)
    return mean(found["eq16_right"] - found["posterior_entropy"])


def eq16_printed_residual(rows: Rows) -> float:
    """The same with Eq. 15 as it is printed: prior entropy minus KL(p(y) || p(y|x)) minus posterior entropy."""
    found = client_means(rows)
    return mean(found["eq16_printed"] - found["posterior_entropy"])


def sure_where(agreeing: bool, rows: Rows) -> float:
    """Percent of test images of which the new global model is sure, where most local ones agree or elsewhere."""
    found = []
    for row in rows:
        images, sure = row["ensemble"]["agreeing_counts"], row["ensemble"]["agreeing_sure"]
        half = len(images) // 2
        chosen = slice(half + 1, None) if agreeing else slice(0, half + 1)
        found.append(100 * sum(sure[chosen]) / sum(images[chosen]) if sum(images[chosen]) else math.nan)
    return mean(found)


def overconfidence(rows: Rows) -> float:
    """Mean confidence of the local model minus the share of its labels that are right, points."""
    return 100 * mean([row["local"]["confidence"] - row["local"]["accuracy"] for row in rows])


def disputes_for_global(rows: Rows) -> float:
    """Share of the views with two different confident labels that get the global model's."""
    disputed = sum(row["both"]["n_disputed"] for row in rows)
    return sum(row["both"]["n_disputed_for_global"] for row in rows) / disputed if disputed else math.nan


def lambda_of_majority(rows: Rows) -> float:
    """Mean λ over views of majority classes minus over those of minority classes."""
    return mean(np.subtract(curve(rows, "lambda_majority"), curve(rows, "lambda_minority")))


def softened(other: str, rows: Rows) -> float:
    """On disputes, the target's mass on the true class minus that of one model's label, points."""
    disputes = [row["both"] for row in rows if row["both"]["n_disputed"]]
    total = sum(one["n_disputed"] for one in disputes)
    if not total:
        return math.nan
    mass = sum(one["disputed_true_mass"] * one["n_disputed"] for one in disputes)
    return 100 * (mass - sum(one[f"n_disputed_{other}_right"] for one in disputes)) / total


def added_over_local(rows: Rows) -> float:
    """Accuracy of the labels that CPG adds minus of the local ones, over the first third of the rounds, points."""
    first = first_third(rows)
    added, added_right = (sum(row["both"][name] for row in first) for name in ("n_added", "n_added_correct"))
    local, local_right = (sum(row["local"][name] for row in first) for name in ("n_sure", "n_sure_correct"))
    return 100 * (added_right / added - local_right / local) if added and local else math.nan


SAGE_READERS: Mapping[str, Read] = {
    "local_above": partial(above, "local", TAU),
    "global_above": partial(above, "global", TAU),
    "entropy_follows_mix": partial(entropy_follows, "mix_entropy"),
    "entropy_follows_labelled": partial(entropy_follows, "labelled_mix_entropy"),  # of the client's labelled images
    "eq16_residual": eq16_residual,
    "eq16_printed_residual": eq16_printed_residual,
    "sure_where_agreed": partial(sure_where, True),
    "sure_elsewhere": partial(sure_where, False),
    "overconfidence": overconfidence,
    "disputes_for_global": disputes_for_global,
    "lambda_of_majority": lambda_of_majority,
    "lambda_per_round": lambda rows: slope([row["round"] for row in rows], curve(rows, "lambda")),
    "softened_local": partial(softened, "local"),
    "softened_global": partial(softened, "global"),
    "added_over_local": added_over_local,
}
"""Name in ``statistics.csv`` -> one number of a run."""
