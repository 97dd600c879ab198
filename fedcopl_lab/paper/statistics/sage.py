"""Claims of SAGE's paper that need more than a row of ``statistics.csv``: one function each, named there."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fedcopl_lab.config import KAPPA_STAR, SAGE_METHODS
from fedcopl_lab.paper._evidence import Named, NotTestedError, Read, Rows, Settings, joined
from fedcopl_lab.paper._intervals import columns_of, minus
from fedcopl_lab.paper._judge import (
    Judgement,
    case_by_case,
    judge_difference,
    judge_equivalence,
    judge_every_case,
    judge_parts,
    judge_range,
    pooled,
    slopes,
)
from fedcopl_lab.paper._sage_reached import rounds_to
from fedcopl_lab.paper._sage_rounds import THRESHOLDS
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items._sage_runs import REFERENCE, compared_columns, kappas, on_analysed_set, rows_of, targets
from fedcopl_lab.paper.statistics._groups import ONE_MODEL, SAGE, against_rivals, from_even_to_uneven
from fedcopl_lab.paper.statistics._readers import (
    accuracy,
    accuracy_curve,
    counts,
    distance,
    last_five,
    sampling_distance,
)
from fedcopl_lab.paper.statistics._sage_readers import above, curve, logged

RIVALS: Named = rows_of(name for name in SAGE_METHODS if name not in ("SAGE", REFERENCE))
"""The methods that SAGE is compared with; the fully labelled reference is none."""

PER_STEP = "per step of α"
"""Unit of a trend from α = 1 over 0.5 to 0.1, each one step."""


def trends_hold_at_every_threshold(runs: StoredRuns) -> Judgement:
    """49: the trend of 46 at each threshold shown, and that of 47."""

    def everywhere(model: str, sign: int) -> Judgement:
        cells = {f"{model}, {level:g}": sign * _over_alpha(runs, partial(above, model, level)) for level in THRESHOLDS}
        return judge_every_case(cells, f"points {PER_STEP}")

    return judge_parts({"local, rising": everywhere("local", 1), "global, falling": everywhere("global", -1)})


def local_labels_more_early(runs: StoredRuns) -> Judgement:
    """50: views labelled by the local model minus by the global one, first third of the rounds, at every α."""

    def caught_up(rows: Rows) -> float:
        pairs = zip(curve(rows, "share_local"), curve(rows, "share_global"), strict=True)
        return float(any(own - other <= 0 for own, other in pairs))

    met = pd.concat(list(_at_each_alpha(runs, caught_up).values()))
    ahead = runs.read("100 * (early.share_local - early.share_global)")
    return judge_every_case(_at_each_alpha(runs, ahead)).with_notes(
        f"The global model catches up in {int(met.sum())} of {len(met)} runs."
    )


def local_entropy_falls(runs: StoredRuns) -> Judgement:
    """52: the mean entropy of p_l falls towards uneven splits, and more so early than late."""
    early, late = (-_over_alpha(runs, logged("entropy_local", part)) for part in ("early", "late"))
    return judge_parts(
        {
            "fall over all rounds": judge_difference(-_over_alpha(runs, logged("entropy_local")), f"nats {PER_STEP}"),
            "fall early minus late": judge_difference(early - late, f"nats {PER_STEP}"),
        }
    )


def local_is_overconfident(runs: StoredRuns) -> Judgement:
    """58: mean c_l minus the share of right local labels, over all weak views and α."""
    errors = _at_each_alpha(runs, logged("calibration_error", "local"))
    said = ", ".join(f"{100 * values.mean():.1f} at {name}" for name, values in errors.items())
    excess = pooled(_at_each_alpha(runs, runs.read("overconfidence")))
    return judge_difference(excess).with_notes(f"Expected calibration error in points: {said}.")


def uneven_splits_do_harm(runs: StoredRuns) -> Judgement:
    """59: towards uneven splits labels differ more often, are right less often, and an accuracy is reached later."""
    target = targets(runs.profile)[1]

    def doublings(rows: Rows) -> float:
        return math.log2(rounds_to(accuracy_curve(rows), target).round)

    differ, wrong = (-100 * _over_alpha(runs, logged(name)) for name in ("share_agreeing", "label_accuracy_local"))
    return judge_parts(
        {
            "labels that differ": judge_difference(differ, f"points {PER_STEP}"),
            "wrong local labels": judge_difference(wrong, f"points {PER_STEP}"),
            f"rounds to {target} %": judge_difference(_over_alpha(runs, doublings), f"doublings {PER_STEP}"),
        }
    )


def labelled_and_unlabelled_differ(runs: StoredRuns) -> Judgement:
    """60: client-mean total variation of labelled and unlabelled class shares, minus what sampling alone gives."""

    def mixes(split: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        return counts(split["class_counts"], "labelled"), counts(split["class_counts"], "unlabelled")

    def plain(split: dict[str, Any]) -> float:
        return float(np.nanmean(distance(*mixes(split))))

    def excess(split: dict[str, Any]) -> float:
        labelled, pool = mixes(split)
        by_chance = sampling_distance(pool, np.maximum(labelled.sum(axis=-1), 1))
        return float(np.nanmean(distance(labelled, pool) - by_chance))

    columns = on_analysed_set(runs.profile, data="CIFAR-10")
    cells = {name: runs.split_values(excess, **SAGE, **there) for name, there in columns.items()}
    means = {name: runs.split_values(plain, **SAGE, **there).mean() for name, there in columns.items()}
    said = ", ".join(f"{value:.2f} at {name}" for name, value in means.items())
    return judge_difference(pooled(cells), "total variation").with_notes(f"Client-mean distance: {said}.")


def any_kappa_works(runs: StoredRuns) -> Judgement:
    """74: SAGE at each κ minus the better of FixMatch-LPL and FixMatch-GPL, at α = 1."""
    there = on_analysed_set(runs.profile)["α = 1"]

    def judge(read: Read) -> Judgement:
        leads = {f"κ = {kappa:.4g}": runs.lead(read, {**SAGE, "kappa": kappa}, ONE_MODEL, **there)
                 for kappa in kappas(runs.profile)}  # fmt: skip
        cells = runs.cells(leads, 3)
        return judge_every_case(cells).with_notes(case_by_case(cells))

    return _with_last_round(judge)


def large_kappas_are_alike(runs: StoredRuns) -> Judgement:
    """75: best minus worst accuracy over the upper half of the κ, against the margin."""

    def judge(read: Read) -> Judgement:
        table = _over_kappa(runs, read)
        between = runs.between(read, "kappa", **SAGE, **on_analysed_set(runs.profile)["α = 1"])
        return judge_range(table[table.columns[len(table.columns) // 2 :]], gap=between)

    means = _over_kappa(runs, last_five).mean()
    return _with_last_round(judge).with_notes(
        f"Over all κ the means range over {means.max() - means.min():.1f} points."
    )


def kappa_star_is_best(runs: StoredRuns) -> Judgement:
    """76: accuracy at κ* minus at the best other κ."""
    means = _over_kappa(runs, last_five).mean()
    if KAPPA_STAR not in means:
        raise NotTestedError("needs 3 seeds of SAGE at κ*")
    best = means.drop(KAPPA_STAR).idxmax()
    rank = int((means > means[KAPPA_STAR]).sum()) + 1
    there = {**SAGE, **on_analysed_set(runs.profile)["α = 1"]}
    return _with_last_round(
        lambda read: judge_difference(runs.between(read, "kappa", **there)(KAPPA_STAR, best))
    ).with_notes(f"κ* has rank {rank} of {len(means)}; the best other is κ = {best:.4g}.")


def best_with_a_fifth_labelled(runs: StoredRuns) -> Judgement:
    """79: SAGE minus the best other method, in every column with 20 % labels."""
    return _best(runs, 0.2)


def best_with_a_tenth_labelled(runs: StoredRuns) -> Judgement:
    """80: the same with 10 % labels."""
    return _best(runs, 0.1)


def lead_independent_of_labels(runs: StoredRuns) -> Judgement:
    """81: SAGE's lead at 10 % labels minus its lead at 20 %, over the better of the one-model rows, at the same α."""

    def leads(read: Read) -> list[pd.Series]:
        both = [_leads(runs, read, compared_columns(runs.profile, share), ONE_MODEL) for share in (0.1, 0.2)]
        common = both[0].keys() & both[1].keys()
        return [pooled({name: one[name] for name in one if name in common}) for one in both]

    first, second = (float(values.mean()) for values in leads(last_five))
    return _with_last_round(lambda read: judge_equivalence(minus(*leads(read)))).with_notes(
        f"Leads over the better of {' and '.join(ONE_MODEL)}: {first:+.1f} and {second:+.1f} points."
    )


def robust_to_skew(runs: StoredRuns) -> Judgement:
    """82: what each other method loses from α = 1 to 0.1 minus what SAGE loses, with 10 % labels."""
    columns = compared_columns(runs.profile, 0.1)
    pairs = {
        even.replace("α = 1", "").strip(", "): (columns[even], columns[even.replace("α = 1", "α = 0.1")])
        for even in columns
        if even.endswith("α = 1")
    }

    def behind(read: Read, row: Settings, data: str) -> pd.Series:
        even, uneven = pairs[data]
        return minus(*(runs.gap(read, {**even, **method}, {**uneven, **method})() for method in (row, SAGE)))

    def judge(read: Read) -> Judgement:
        cells = {joined(name, data): partial(behind, read, row, data) for name, row in RIVALS.items() for data in pairs}
        return judge_every_case(runs.cells(cells))

    return _with_last_round(judge)


def passes_the_reference_on_svhn(runs: StoredRuns) -> Judgement:
    """83: SAGE minus the fully labelled reference on SVHN with 20 % labels, at each α."""
    compared = compared_columns(runs.profile, 0.2)
    columns = {name: there for name, there in compared.items() if there.get("dataset") == "svhn"}
    if not columns:
        raise NotTestedError(f"about SVHN, which profile {runs.profile} does not have")
    reference = {REFERENCE: {"method": REFERENCE, "label_share": 0.1}}
    return _with_last_round(lambda read: judge_every_case(_leads(runs, read, columns, reference)))


def _at_each_alpha(runs: StoredRuns, read: Read) -> dict[str, pd.Series]:
    return runs.in_columns(read, from_even_to_uneven(runs), **SAGE)


def _over_alpha(runs: StoredRuns, read: Read) -> pd.Series:
    """Per seed, the slope of a number of SAGE's runs from α = 1 to 0.1, a step of 1 from each α to the next."""
    columns = from_even_to_uneven(runs)
    table = columns_of({name: runs.values(read, **SAGE, **there) for name, there in columns.items()})
    return slopes(table, list(range(len(columns))))


def _over_kappa(runs: StoredRuns, read: Read) -> pd.DataFrame:
    return runs.sweep(read, "kappa", kappas(runs.profile), least=3, **SAGE, **on_analysed_set(runs.profile)["α = 1"])


def _with_last_round(judge: Callable[[Read], Judgement]) -> Judgement:
    """The judgement on the mean of the last five rounds, with what the last round alone gives."""
    return judge(last_five).with_notes(f"After the last round alone: {judge(accuracy).text or 'no number'}.")


def _leads(runs: StoredRuns, read: Read, columns: Named, rivals: Named) -> dict[str, pd.Series]:
    return runs.cells({name: runs.lead(read, SAGE, rivals, **there) for name, there in columns.items()})


def _best(runs: StoredRuns, share: float) -> Judgement:
    columns = compared_columns(runs.profile, share)

    def judge(stored: Mapping[str, Named]) -> Judgement:
        def judge_read(read: Read) -> Judgement:
            leads = {name: runs.lead(read, SAGE, rivals, **columns[name]) for name, rivals in stored.items()}
            return judge_every_case(runs.cells(leads))

        return _with_last_round(judge_read)

    return against_rivals(runs, columns, RIVALS, judge)
