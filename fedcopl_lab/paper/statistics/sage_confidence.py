"""Claims 46 to 52 and 58, 59: how confident the two models are, and what an uneven split does to that."""

import math
from functools import partial

import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Read, Rows
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_every_case, judge_parts
from fedcopl_lab.paper._sage_confidences import THRESHOLDS, first_third, histogram, share_above
from fedcopl_lab.paper._trends import rounds_to
from fedcopl_lab.paper.items._sage import targets
from fedcopl_lab.paper.statistics._reads import accuracy_curve, mean
from fedcopl_lab.paper.statistics._registry import statistic
from fedcopl_lab.paper.statistics._sage_reads import (
    PER_STEP,
    at_each_alpha,
    curve,
    early,
    late,
    logged,
    of_group,
    over_all_alphas,
    over_alpha,
)

TAU = 0.95
POINTS_PER_STEP, NATS_PER_STEP = f"points {PER_STEP}", f"nats {PER_STEP}"


@statistic
def local_grows_confident(runs: Evidence) -> Judged:
    """46: slope towards uneven splits of the share of views with c_l at or above τ, first third of the rounds."""
    return judge_difference(over_alpha(runs, _above("local", TAU)), POINTS_PER_STEP)


@statistic
def global_grows_careful(runs: Evidence) -> Judged:
    """47: the same with c_g, falling."""
    return judge_difference(-over_alpha(runs, _above("global", TAU)), POINTS_PER_STEP).noting(
        "Positive: the share falls towards uneven splits."
    )


@statistic
def confidence_gap_grows(runs: Evidence) -> Judged:
    """48: slope towards uneven splits of the mean |c_l - c_g|, all rounds."""
    return judge_difference(100 * over_alpha(runs, logged("gap")), POINTS_PER_STEP)


@statistic
def trends_hold_at_every_threshold(runs: Evidence) -> Judged:
    """49: the trend of 46 at each threshold shown, and that of 47."""

    def everywhere(model: str, sign: int) -> Judged:
        cells = {f"{model}, {level:g}": sign * over_alpha(runs, _above(model, level)) for level in THRESHOLDS}
        return judge_every_case(cells, POINTS_PER_STEP)

    return judge_parts({"local, rising": everywhere("local", 1), "global, falling": everywhere("global", -1)})


@statistic
def local_labels_more_early(runs: Evidence) -> Judged:
    """50: views labelled by the local model minus by the global one, first third of the rounds, at every α."""

    def ahead(rows: Rows) -> float:
        return 100 * (early("share_local")(rows) - early("share_global")(rows))

    def meeting(rows: Rows) -> float:
        gaps = [own - other for own, other in zip(curve(rows, "share_local"), curve(rows, "share_global"), strict=True)]
        return float(next((row["round"] for row, gap in zip(rows, gaps, strict=True) if gap <= 0), math.inf))

    met = pd.concat(list(at_each_alpha(runs, meeting).values()))
    return judge_every_case(at_each_alpha(runs, ahead)).noting(
        f"The global model catches up in {int(met.map(math.isfinite).sum())} of {len(met)} runs."
    )


@statistic
def global_entropy_rises(runs: Evidence) -> Judged:
    """51: slope towards uneven splits of the mean entropy of p_g, and of the entropy of the histogram of c_g."""
    return judge_parts(
        {
            "of predictions": judge_difference(over_alpha(runs, logged("entropy_global")), NATS_PER_STEP),
            "of the histogram": judge_difference(over_alpha(runs, logged("histogram_entropy_global")), NATS_PER_STEP),
        }
    ).noting('"Entropy of pseudo-label confidence" is not defined; both readings are judged.')


@statistic
def local_entropy_falls(runs: Evidence) -> Judged:
    """52: the mean entropy of p_l falls towards uneven splits, and more so early than late."""
    falls = {name: -over_alpha(runs, read("entropy_local")) for name, read in (("early", early), ("late", late))}
    return judge_parts(
        {
            "fall over all rounds": judge_difference(-over_alpha(runs, logged("entropy_local")), NATS_PER_STEP),
            "fall early minus late": judge_difference(falls["early"] - falls["late"], NATS_PER_STEP),
        }
    )


@statistic
def local_is_overconfident(runs: Evidence) -> Judged:
    """58: mean c_l minus the share of right local labels, over all weak views and α."""

    def excess(rows: Rows) -> float:
        return 100 * mean([row["local"]["confidence"] - row["local"]["accuracy"] for row in rows])

    errors = at_each_alpha(runs, of_group("local", "calibration_error"))
    said = ", ".join(f"{100 * values.mean():.1f} at {name}" for name, values in errors.items())
    return judge_difference(over_all_alphas(runs, excess)).noting(f"Expected calibration error in points: {said}.")


@statistic
def uneven_splits_do_harm(runs: Evidence) -> Judged:
    """59: towards uneven splits labels differ more often, are right less often, and an accuracy is reached later."""
    target = targets(runs.profile)[1]

    def doublings(rows: Rows) -> float:
        return math.log2(rounds_to(accuracy_curve(rows), target).round)

    return judge_parts(
        {
            "labels that differ": judge_difference(-100 * over_alpha(runs, logged("share_agreeing")), POINTS_PER_STEP),
            "wrong local labels": judge_difference(
                -100 * over_alpha(runs, logged("label_accuracy_local")), POINTS_PER_STEP
            ),
            f"rounds to {target} %": judge_difference(over_alpha(runs, doublings), f"doublings {PER_STEP}"),
        }
    )


def _above(model: str, threshold: float) -> Read:
    return partial(_share_above, model, threshold)


def _share_above(model: str, threshold: float, rows: Rows) -> float:
    return 100 * share_above(histogram(first_third(rows), model), threshold)
