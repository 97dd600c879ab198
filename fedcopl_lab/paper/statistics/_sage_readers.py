"""What claims read from a SAGE run's stored rows: confidences, labels, lambda, entropies, means over rounds."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedcopl_lab.paper._evidence import Read, Rows
from fedcopl_lab.paper._judge import slope, spearman
from fedcopl_lab.paper._sage_rounds import client_means, first_third, histogram, last_third, pseudo_label_numbers
from fedcopl_lab.paper._sage_rounds import share_above as share_of_histogram
from fedcopl_lab.paper.statistics._readers import mean

TAU = 0.95
_PARTS: dict[str, Callable[[Sequence[Any]], Sequence[Any]]] = {"early": first_third, "late": last_third}


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
    found = []
    for row in rows:
        if "both" not in row:
            raise KeyError("both")
        value = pseudo_label_numbers(row)[name]
        found.append(math.nan if value is None else float(value))
    return found


def per_client(rows: Rows, name: str) -> list[float]:
    """Each client's mean over the rounds it took part in; NaN for one that never did."""
    clients = zip(*(row["clients"][name] for row in rows), strict=True)
    return [mean(values) for values in clients]


def above(model: str, threshold: float, rows: Rows) -> float:
    """Percent of the views on which a model is confident at least at a threshold, first third of the rounds."""
    return 100 * share_of_histogram(histogram(first_third(rows), model), threshold)


def local_above(rows: Rows) -> float:
    """Percent of the views that the local model labels, first third of the rounds."""
    return above("local", TAU, rows)


def global_above(rows: Rows) -> float:
    """Percent of the views that the global model labels, first third of the rounds."""
    return above("global", TAU, rows)


def entropy_follows_mix(rows: Rows, mix_of: str = "mix_entropy") -> float:
    """Rank correlation over clients of the mean entropy of p_l and the entropy of the client's classes."""
    own, mix = np.array(per_client(rows, "local_entropy")), np.array(per_client(rows, mix_of))
    there = ~np.isnan(own) & ~np.isnan(mix)
    return spearman(list(own[there]), list(mix[there])) if there.sum() > 1 else math.nan


def entropy_follows_labelled(rows: Rows) -> float:
    """The same with the entropy of the classes of the client's labelled images."""
    return entropy_follows_mix(rows, "labelled_mix_entropy")


def eq16_residual(rows: Rows, sign: int = 1) -> float:
    """Prior entropy plus divergence minus posterior entropy (Eq. 16), mean over clients, nats."""
    found = client_means(rows)
    divergence = found["eq16_right"] - found["prior_entropy"]
    return mean(found["prior_entropy"] + sign * divergence - found["posterior_entropy"])


def eq16_residual_with_minus(rows: Rows) -> float:
    """The same with a minus sign in place of the plus."""
    return eq16_residual(rows, -1)


def eq16_printed_residual(rows: Rows) -> float:
    """The same with Eq. 15 as it is printed: prior entropy minus KL(p(y) || p(y|x)) minus posterior entropy."""
    found = client_means(rows)
    return mean(found["eq16_printed"] - found["posterior_entropy"])


def sure_where_agreed(rows: Rows, agreeing: bool = True) -> float:
    """Percent of the test images with a confident merged model where most local models agree with it."""
    found = []
    for row in rows:
        images, sure = row["ensemble"]["agreeing_counts"], row["ensemble"]["agreeing_sure"]
        half = len(images) // 2
        chosen = slice(half + 1, None) if agreeing else slice(0, half + 1)
        found.append(100 * sum(sure[chosen]) / sum(images[chosen]) if sum(images[chosen]) else math.nan)
    return mean(found)


def sure_elsewhere(rows: Rows) -> float:
    """The same on the other images."""
    return sure_where_agreed(rows, agreeing=False)


def overconfidence(rows: Rows) -> float:
    """Mean confidence of the local model minus the share of its labels that are right, points."""
    return 100 * mean([row["local"]["confidence"] - row["local"]["accuracy"] for row in rows])


def disputes_for_global(rows: Rows) -> float:
    """Share of the views with two different confident labels that get the global model's."""
    disputed = sum(row["both"]["n_disputed"] for row in rows)
    return sum(row["both"]["n_disputed_for_global"] for row in rows) / disputed if disputed else math.nan


def lambda_of_majority(rows: Rows) -> float:
    """Mean λ over views of majority classes minus over those of minority classes."""
    pairs = zip(curve(rows, "lambda_majority"), curve(rows, "lambda_minority"), strict=True)
    return mean([own - other for own, other in pairs])


def lambda_per_round(rows: Rows) -> float:
    """Slope over the rounds of mean λ."""
    return slope([row["round"] for row in rows], curve(rows, "lambda"))


def softened(other: str, rows: Rows) -> float:
    """On disputes, the target's mass on the true class minus that of one model's label, points."""
    disputes = [row["both"] for row in rows if row["both"]["n_disputed"]]
    total = sum(one["n_disputed"] for one in disputes)
    if not total:
        return math.nan
    mass = sum(one["disputed_true_mass"] * one["n_disputed"] for one in disputes)
    return 100 * (mass - sum(one[f"n_disputed_{other}_right"] for one in disputes)) / total


def softened_local(rows: Rows) -> float:
    """:func:`softened` against the local model's labels."""
    return softened("local", rows)


def softened_global(rows: Rows) -> float:
    """:func:`softened` against the global model's labels."""
    return softened("global", rows)


def added_over_local(rows: Rows) -> float:
    """Accuracy of the labels that CPG adds minus of the local ones, over the first third of the rounds, points."""
    first = first_third(rows)
    added = sum(row["both"]["n_added"] for row in first)
    local = sum(row["local"]["n_sure"] for row in first)
    if not (added and local):
        return math.nan
    right = sum(row["both"]["n_added_correct"] for row in first) / added
    return 100 * (right - sum(row["local"]["n_sure_correct"] for row in first) / local)
