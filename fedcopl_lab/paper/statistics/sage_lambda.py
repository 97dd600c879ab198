"""Claims 61 to 67: lambda, agreement of the two models, and what the corrected labels are worth."""

import math
from functools import partial

from fedcopl_lab.paper._evidence import Evidence, Rows
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_parts, pooled
from fedcopl_lab.paper._trends import slope
from fedcopl_lab.paper.statistics._reads import mean
from fedcopl_lab.paper.statistics._registry import statistic
from fedcopl_lab.paper.statistics._sage_reads import (
    LPL,
    PER_STEP,
    SAGE,
    at_each_alpha,
    curve,
    early,
    from_even_to_uneven,
    late,
    logged,
    over_all_alphas,
    over_alpha,
)

_VIEWS = {"confident views": "lambda_sure", "all views": "lambda"}


@statistic
def lambda_rises_with_skew(runs: Evidence) -> Judged:
    """61: slope towards uneven splits of mean λ, where the local model is confident and over all views."""
    return judge_parts(
        {name: judge_difference(over_alpha(runs, logged(key)), PER_STEP) for name, key in _VIEWS.items()}
    )


@statistic
def relies_more_on_global(runs: Evidence) -> Judged:
    """62: slope towards uneven splits of 1 - λ, and of the share of disputes decided for the global label."""

    def decided(rows: Rows) -> float:
        disputed = sum(row["both"]["n_disputed"] for row in rows)
        return sum(row["both"]["n_disputed_for_global"] for row in rows) / disputed if disputed else math.nan

    parts = {name: judge_difference(-over_alpha(runs, logged(key)), PER_STEP) for name, key in _VIEWS.items()}
    return judge_parts(
        {**parts, "disputes for the global label": judge_difference(over_alpha(runs, decided), PER_STEP)}
    )


@statistic
def lambda_lower_for_minority(runs: Evidence) -> Judged:
    """63: mean λ over views of majority classes minus over those of minority classes."""
    return judge_difference(over_all_alphas(runs, _class_gap), "of λ").noting(
        "Minority: classes with less than half of the client's mean class count, fixed before any run."
    )


@statistic
def lambda_rises_in_training(runs: Evidence) -> Judged:
    """64: slope over the rounds of mean λ."""

    def per_round(rows: Rows) -> float:
        return slope([row["round"] for row in rows], curve(rows, "lambda"))

    return judge_difference(over_all_alphas(runs, per_round), "of λ per round")


@statistic
def lambda_gap_narrows(runs: Evidence) -> Judged:
    """65: majority minus minority λ, in the first third of the rounds minus in the last."""

    def narrowing(rows: Rows) -> float:
        gaps = [read("lambda_majority")(rows) - read("lambda_minority")(rows) for read in (early, late)]
        return gaps[0] - gaps[1]

    return judge_difference(over_all_alphas(runs, narrowing), "of λ")


@statistic
def agreement_rises_with_sage(runs: Evidence) -> Judged:
    """66: share of views on which both models agree, SAGE minus FixMatch-LPL, mean over equal rounds."""
    read = logged("share_agreeing")
    cells = {
        name: runs.gap(lambda rows: 100 * read(rows), {**SAGE, **there}, {**LPL, **there})
        for name, there in from_even_to_uneven(runs).items()
    }
    rise = over_all_alphas(runs, lambda rows: 100 * (late("share_agreeing")(rows) - early("share_agreeing")(rows)))
    return judge_difference(pooled(runs.cells(cells))).noting(
        f"From the first to the last third of its rounds SAGE's agreement changes by {rise.mean():+.1f} points."
    )


@statistic
def corrected_labels_soften_errors(runs: Evidence) -> Judged:
    """67: on disputes, the target's mass on the true class minus that of either label alone."""

    def gained(other: str, rows: Rows) -> float:
        disputes = [row["both"] for row in rows if row["both"]["n_disputed"]]
        total = sum(one["n_disputed"] for one in disputes)
        if not total:
            return math.nan
        mass = sum(one["disputed_true_mass"] * one["n_disputed"] for one in disputes)
        return 100 * (mass - sum(one[f"n_disputed_{other}_right"] for one in disputes)) / total

    return judge_parts(
        {
            f"corrected minus {other} label": judge_difference(pooled(at_each_alpha(runs, partial(gained, other))))
            for other in ("local", "global")
        }
    )


def _class_gap(rows: Rows) -> float:
    pairs = zip(curve(rows, "lambda_majority"), curve(rows, "lambda_minority"), strict=True)
    return mean([own - other for own, other in pairs])
