"""Claims 68 to 76: hard and soft labels, the two parts of SAGE, and kappa."""

import math

import pandas as pd

from fedcopl_lab.config import KAPPA_STAR
from fedcopl_lab.paper._evidence import Evidence, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_every_case, judge_range
from fedcopl_lab.paper._sage_confidences import first_third
from fedcopl_lab.paper.items._sage import PARTS, kappas
from fedcopl_lab.paper.items._sage_columns import BY_ALPHA, on_analysed_set
from fedcopl_lab.paper.statistics._reads import accuracy
from fedcopl_lab.paper.statistics._registry import statistic
from fedcopl_lab.paper.statistics._sage_reads import (
    ONE_MODEL,
    SAGE,
    at_each_alpha,
    early,
    from_even_to_uneven,
    late,
    logged,
    over_all_alphas,
)


@statistic
def hard_labels_beat_soft(runs: Evidence) -> Judged:
    """68: accuracy with hard minus with soft labels, for three methods at each α."""
    cells = {
        f"{name}, {split}": runs.gap(accuracy, {**row, **there}, {**row, **there, "target": "soft"})
        for name, row in {**ONE_MODEL, "SAGE": SAGE}.items()
        for split, there in from_even_to_uneven(runs).items()
    }
    return judge_every_case(runs.cells(cells))


@statistic
def sage_beats_one_model(runs: Evidence) -> Judged:
    """69: SAGE minus the better of FixMatch-LPL and FixMatch-GPL, at each α."""
    columns = from_even_to_uneven(runs)
    return judge_every_case(
        runs.cells({name: runs.lead(accuracy, SAGE, ONE_MODEL, **there) for name, there in columns.items()})
    )


@statistic
def cpg_adds_labels(runs: Evidence) -> Judged:
    """70: share of views that only the global model labels."""
    thirds = [100 * over_all_alphas(runs, read("share_added")).mean() for read in (early, late)]
    return judge_difference(100 * over_all_alphas(runs, logged("share_added")), "% of the views").noting(
        f"More than none by construction; {thirds[0]:.2f} % in the first third, {thirds[1]:.2f} % in the last."
    )


@statistic
def added_labels_are_right_early(runs: Evidence) -> Judged:
    """71: accuracy of the added labels minus of the local ones, counted over the first third of the rounds."""

    def ahead(rows: Rows) -> float:
        first = first_third(rows)
        added = sum(row["both"]["n_added"] for row in first)
        local = sum(row["local"]["n_sure"] for row in first)
        if not (added and local):
            return math.nan
        right = sum(row["both"]["n_added_correct"] for row in first) / added
        return 100 * (right - sum(row["local"]["n_sure_correct"] for row in first) / local)

    return judge_every_case(at_each_alpha(runs, ahead))


@statistic
def cpg_helps_minority(runs: Evidence) -> Judged:
    """72: labelled share of the views of minority classes, with CPG minus by the local model alone."""

    def gained(rows: Rows) -> float:
        return 100 * (logged("share_minority_cpg")(rows) - logged("share_minority_local")(rows))

    return judge_difference(over_all_alphas(runs, gained), "% of the views")


@statistic
def both_parts_help(runs: Evidence) -> Judged:
    """73: SAGE minus itself without CPG, without CDSC, and with the weight fixed at one half, at α = 0.1."""
    there = _column(runs, "α = 0.1")
    cells = {
        f"minus {name}": runs.gap(accuracy, {**SAGE, **there}, {**row, **there})
        for name, row in PARTS.items()
        if row["method"] == "SAGE" and name != "SAGE"
    }
    return judge_every_case(runs.cells(cells, least=len(cells)))


@statistic
def any_kappa_works(runs: Evidence) -> Judged:
    """74: SAGE at each κ minus the better of FixMatch-LPL and FixMatch-GPL, at α = 1."""
    there = _column(runs, "α = 1")
    table, other = _swept(runs), runs.best_other(accuracy, ONE_MODEL, **there)
    return judge_every_case({f"κ = {kappa:.4g}": table[kappa] - other for kappa in table.columns})


@statistic
def large_kappas_are_alike(runs: Evidence) -> Judged:
    """75: best minus worst accuracy over the upper half of the κ, against the margin."""
    table = _swept(runs)
    upper = table[table.columns[len(table.columns) // 2 :]].rename(columns=lambda kappa: f"κ = {kappa:.4g}")
    means = table.mean()
    return judge_range(upper).noting(f"Over all κ the means range over {means.max() - means.min():.1f} points.")


@statistic
def kappa_star_is_best(runs: Evidence) -> Judged:
    """76: accuracy at κ* minus at the best other κ."""
    table = _swept(runs)
    means = table.mean()
    best = means.drop(KAPPA_STAR).idxmax()
    rank = int((means > means[KAPPA_STAR]).sum()) + 1
    return judge_difference(table[KAPPA_STAR] - table[best]).noting(
        f"κ* has rank {rank} of {len(means)}; the best other is κ = {best:.4g}."
    )


def _swept(runs: Evidence) -> pd.DataFrame:
    return runs.sweep(accuracy, "kappa", kappas(runs.profile), least=3, **SAGE, **_column(runs, "α = 1"))


def _column(runs: Evidence, name: str) -> Settings:
    (there,) = on_analysed_set(runs.profile, {name: BY_ALPHA[name]}).values()
    return there
