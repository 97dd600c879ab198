"""Claims 53 to 57 and 60: the supplement's account of why, and how uneven the clients are."""

import math
from functools import partial
from typing import Any

import numpy as np

from fedcopl_lab.paper._evidence import Evidence, Rows
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_equivalence, judge_every_case, pooled
from fedcopl_lab.paper._sage_theory import client_means
from fedcopl_lab.paper._trends import spearman
from fedcopl_lab.paper.items._sage_columns import on_analysed_set
from fedcopl_lab.paper.statistics._reads import counts, distance, mean, sampling_distance
from fedcopl_lab.paper.statistics._registry import statistic
from fedcopl_lab.paper.statistics._sage_reads import SAGE, at_each_alpha, of_group, over_all_alphas, per_client

EQ16_MARGIN = 0.1
"""Nats inside which two sides of an equation count as equal."""


@statistic
def predictions_follow_the_client(runs: Evidence) -> Judged:
    """53: distance of the mean prediction to the client's classes, at the round's start minus at its end."""

    def nearer(rows: Rows) -> float:
        return mean(per_client(rows, "start_distance")) - mean(per_client(rows, "end_distance"))

    return judge_difference(over_all_alphas(runs, nearer), "total variation")


@statistic
def entropy_follows_the_client(runs: Evidence) -> Judged:
    """54: rank correlation over clients of the mean entropy of p_l and the entropy of the client's classes."""

    def correlation(rows: Rows) -> float:
        own, mix = np.array(per_client(rows, "local_entropy")), np.array(per_client(rows, "mix_entropy"))
        there = ~np.isnan(own) & ~np.isnan(mix)
        return spearman(list(own[there]), list(mix[there])) if there.sum() > 1 else math.nan

    return judge_every_case(at_each_alpha(runs, correlation), "rho")


@statistic
def posterior_entropy_is_a_sum(runs: Evidence) -> Judged:
    """55: prior entropy plus divergence minus posterior entropy, mean over clients, against a margin."""

    def residual(sign: int, rows: Rows) -> float:
        found = client_means(rows)
        divergence = found["eq16_right"] - found["prior_entropy"]
        return mean(found["prior_entropy"] + sign * divergence - found["posterior_entropy"])

    minus = over_all_alphas(runs, lambda rows: residual(-1, rows))
    return judge_equivalence(over_all_alphas(runs, lambda rows: residual(1, rows)), EQ16_MARGIN, "nats").noting(
        f"With a minus sign in place of the plus the mean residual is {minus.mean():.1g} nats."
    )


@statistic
def merged_model_is_the_mean(runs: Evidence) -> Judged:
    """56: distance of the merged model's predictions to one local model's minus to the mean of all."""

    def nearer(rows: Rows) -> float:
        return of_group("ensemble", "distance_to_single")(rows) - of_group("ensemble", "distance_to_mean")(rows)

    agreement = over_all_alphas(runs, of_group("ensemble", "agreement_with_mean"))
    left = over_all_alphas(runs, of_group("ensemble", "distance_to_mean"))
    return judge_difference(over_all_alphas(runs, nearer), "total variation").noting(
        f"The distance to the mean is still {left.mean():.2f}; same label on {100 * agreement.mean():.0f} % of images."
    )


@statistic
def sure_only_where_clients_agree(runs: Evidence) -> Judged:
    """57: rank correlation over test images of the number of agreeing local models and c_g."""

    def sure_among(rows: Rows, agreeing: bool) -> float:
        shares = []
        for row in rows:
            images, sure = row["ensemble"]["agreeing_counts"], row["ensemble"]["agreeing_sure"]
            half = len(images) // 2
            chosen = slice(half + 1, None) if agreeing else slice(0, half + 1)
            shares.append(100 * sum(sure[chosen]) / sum(images[chosen]) if sum(images[chosen]) else math.nan)
        return mean(shares)

    agreed, others = (over_all_alphas(runs, partial(sure_among, agreeing=which)).mean() for which in (True, False))
    return judge_difference(over_all_alphas(runs, of_group("ensemble", "rank_correlation")), "rho").noting(
        f"Confident on {agreed:.1f} % of the images where most local models agree with it, on {others:.1f} % elsewhere."
    )


@statistic
def labelled_and_unlabelled_differ(runs: Evidence) -> Judged:
    """60: client-mean total variation of labelled and unlabelled class shares, minus what sampling alone gives."""
    columns = on_analysed_set(runs.profile, data="CIFAR-10")
    cells = {name: runs.split_values(_excess, **SAGE, **there) for name, there in columns.items()}
    plain = {name: runs.split_values(_distance, **SAGE, **there).mean() for name, there in columns.items()}
    said = ", ".join(f"{value:.2f} at {name}" for name, value in plain.items())
    return judge_difference(pooled(cells), "total variation").noting(f"Client-mean distance: {said}.")


def _distance(split: dict[str, Any]) -> float:
    return float(np.nanmean(distance(*_mixes(split))))


def _excess(split: dict[str, Any]) -> float:
    labelled, pool = _mixes(split)
    by_chance = sampling_distance(pool, np.maximum(labelled.sum(axis=-1), 1))
    return float(np.nanmean(distance(labelled, pool) - by_chance))


def _mixes(split: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return counts(split["class_counts"], "labelled"), counts(split["class_counts"], "unlabelled")
