"""Claims 1 to 6: whom CLIP's labels favour, what filter and allocation make of it, whose labels are right."""

from typing import Any

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Rows
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_every_case, judge_no_worse, judge_parts, pooled
from fedcopl_lab.paper._trends import spearman
from fedcopl_lab.paper.statistics._reads import (
    LABELLERS,
    accuracy,
    cosine,
    counts,
    distance,
    equal_numbers,
    first_labels,
    last_labels,
    mean,
    phases,
    sampling_distance,
)
from fedcopl_lab.paper.statistics._registry import statistic


@statistic
def zero_shot_favours_classes(runs: Evidence) -> Judged:
    """1: distance of predicted from true class shares of the pool, less what chance alone gives."""

    def excess(rows: Rows) -> float:
        true, predicted = (counts(phases(rows)[0], name).sum(axis=0) for name in ("true", "predicted"))
        return 100 * float(distance(predicted, true) - sampling_distance(true, true.sum()))

    def recall_spread(rows: Rows) -> float:
        right, true = (counts(phases(rows)[0], name).sum(axis=0) for name in ("predicted_correct", "true"))
        return 100 * float(np.ptp(right[true > 0] / true[true > 0]))

    spread = float(runs.values(recall_spread).mean())
    return judge_difference(runs.values(excess)).noting(
        f"Recall differs by {spread:.0f} points between the best and the worst class.",
        "The pool and the labels are the same at every seed, so the interval has no width.",
    )


@statistic
def filtered_set_misrepresents(runs: Evidence) -> Judged:
    """2: filtered shares lie further from the client's than chance, and grow where a class is over-predicted."""

    def excess(rows: Rows) -> float:
        true, kept = (counts(phases(rows)[0], name) for name in ("true", "filtered"))
        there = kept.sum(axis=1) > 0
        found = distance(kept[there], true[there]) - sampling_distance(true[there], kept[there].sum(axis=1))
        return 100 * mean(found)

    def follows(rows: Rows) -> float:
        true, predicted, kept = (
            counts(phases(rows)[0], name).sum(axis=0) for name in ("true", "predicted", "filtered")
        )
        there = true > 0
        gained = kept[there] / kept.sum() - predicted[there] / predicted.sum()
        return spearman(list(predicted[there] / true[there]), list(gained))

    return judge_parts(
        {
            "distance from the client's shares beyond chance": judge_difference(runs.values(excess)),
            "rank correlation of over-prediction and share gained": judge_difference(runs.values(follows), "rho"),
        }
    )


@statistic
def allocation_balances_classes(runs: Evidence) -> Judged:
    """3: coefficient of variation over classes of the images selected, filtered set minus allocated set."""

    def gain(ending: str) -> dict[str, pd.Series]:
        def read(rows: Rows) -> float:
            found = [
                _variation(counts(phase, f"filtered{ending}")) - _variation(counts(phase, f"selected{ending}"))
                for phase in phases(rows)
            ]
            return mean(found)

        return runs.in_columns(read, runs.columns())

    return judge_parts(
        {
            "by pseudo-label": judge_every_case(gain(""), "variation"),
            "by true label, images labelled right": judge_every_case(gain("_correct"), "variation"),
        }
    )


@statistic
def allocated_labels_represent_the_client(runs: Evidence) -> Judged:
    """4: distance from the client's true shares, filtered set minus allocated set; cosine the other way round."""

    def closer(rows: Rows) -> float:
        return 100 * mean([_to_true(phase, "filtered") - _to_true(phase, "selected") for phase in phases(rows)])

    def more_alike(rows: Rows) -> float:
        found = [
            mean(cosine(counts(phase, "selected"), counts(phase, "true")))
            - mean(cosine(counts(phase, "filtered"), counts(phase, "true")))
            for phase in phases(rows)
        ]
        return mean(found)

    cells = {
        name: runs.in_columns(read, runs.columns()) for name, read in (("distance", closer), ("cosine", more_alike))
    }
    return judge_parts(
        {
            "total variation saved": judge_every_case(cells["distance"]),
            "cosine similarity gained": judge_every_case(cells["cosine"], "cosine"),
        }
    )


@statistic
def copl_labels_beat_fpl_and_cpl(runs: Evidence) -> Judged:
    """5: label accuracy of the first phase, CoPL minus FPL and minus CPL, in every column."""
    return _labeller_against(runs, "CoPL", ("FPL", "CPL"))


@statistic
def cpl_labels_beat_fpl(runs: Evidence) -> Judged:
    """6: label accuracy of the first phase, CPL minus FPL, in every column."""
    return _labeller_against(runs, "CPL", ("FPL",))


@statistic
def refreshed_labels_stay_accurate(runs: Evidence) -> Judged:
    """10: label accuracy of the last phase minus the first; final accuracy with labels refreshed and made once."""
    kept = runs.in_columns(lambda rows: last_labels(rows) - first_labels(rows), runs.panels())
    gained = {name: runs.gap(accuracy, there, {**there, "refresh_every": 0}) for name, there in runs.panels().items()}
    return judge_parts(
        {
            "labels, last phase minus first": judge_no_worse(pooled(kept)),
            "accuracy, labels refreshed minus made once": judge_every_case(runs.cells(gained)),
        }
    )


def _labeller_against(runs: Evidence, own: str, others: tuple[str, ...]) -> Judged:
    parts = {}
    for other in others:
        cells = {
            column: ({**LABELLERS[own], **there}, {**LABELLERS[other], **there})
            for column, there in runs.columns().items()
        }
        first, last = (
            runs.cells({column: runs.gap(read, *which) for column, which in cells.items()})
            for read in (first_labels, last_labels)
        )
        equal = runs.cells({c: runs.gap(equal_numbers, *which) for c, which in cells.items()}, least=0)
        parts[f"against {other}"] = judge_every_case(first).noting(
            f"Against {other} in the last label phase {pooled(last).mean():+.1f} points"
            + (f", at equal numbers {pooled(equal).mean():+.1f}." if equal else ".")
        )
    judged = judge_parts(parts) if len(parts) > 1 else next(iter(parts.values()))
    return judged.noting("Each labeller has its own number of images.")


def _variation(selected: np.ndarray) -> float:
    """Coefficient of variation over classes of the images that all clients select."""
    by_class = selected.sum(axis=0)
    return float(by_class.std() / by_class.mean()) if by_class.sum() else float("nan")


def _to_true(phase: dict[str, Any], name: str) -> float:
    return mean(distance(counts(phase, name), counts(phase, "true")))
