"""Claims 77 to 83: who learns faster, who is best, and whether that depends on labels and split."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, NotTestedError, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_equivalence, judge_every_case, pooled
from fedcopl_lab.paper._sage_reached import WINDOW
from fedcopl_lab.paper._trends import Reached, log_speed_up, rounds_to
from fedcopl_lab.paper.items._sage import CONVERGING, long_runs, targets
from fedcopl_lab.paper.items._sage_columns import ALL_METHODS, BY_ALPHA, SAGE_SETS, on_sets
from fedcopl_lab.paper.statistics._reads import accuracy, accuracy_curve
from fedcopl_lab.paper.statistics._registry import statistic
from fedcopl_lab.paper.statistics._sage_reads import LPL, ONE_MODEL, SAGE

REFERENCE = "FedAvg-SL"
RIVALS: dict[str, Settings] = {n: row for n, row in ALL_METHODS.items() if n not in ("SAGE", REFERENCE)}
"""The methods that SAGE is compared with; the fully labelled reference is none."""

DOUBLINGS = "doublings of rounds"


@statistic
def fewest_rounds(runs: Evidence) -> Judged:
    """77: log2 of FixMatch-LPL's rounds over SAGE's, to each target at each α."""
    judged = judge_every_case(_leads_in_rounds(runs), DOUBLINGS)
    smoothed = pooled(_leads_in_rounds(runs, WINDOW)).mean()
    bounds = sum(
        int(runs.values(partial(_censored, target), **row, **there).sum())
        for there in _long_columns(runs).values()
        for row in (LPL, SAGE)
        for target in targets(runs.profile)
    )
    others = [name for name in CONVERGING if name not in ("SAGE", "FixMatch-LPL", "FixMatch-GPL")]
    return judged.noting(
        f"A ratio of {2**judged.difference:.2f}; {2**smoothed:.2f} with {WINDOW}-round means."
        if judged.verdict != "not tested"
        else "",
        f"{bounds} curves never reached a target and count with their bound.",
        f"Against FixMatch-LPL; {', '.join(others)} have one run each.",
    )


@statistic
def largest_lead_early(runs: Evidence) -> Judged:
    """78: log2 ratio at the lowest target minus at the highest."""
    lowest, *_, highest = targets(runs.profile)
    cells = _leads_in_rounds(runs)
    early, late = ({n: values for n, values in cells.items() if n.endswith(f"to {t} %")} for t in (lowest, highest))
    return judge_difference(pooled(early) - pooled(late), DOUBLINGS)


@statistic
def best_with_a_fifth_labelled(runs: Evidence) -> Judged:
    """79: SAGE minus the best other method, in every column with 20 % labels."""
    return _best(runs, _columns(runs, 0.2))


@statistic
def best_with_a_tenth_labelled(runs: Evidence) -> Judged:
    """80: the same with 10 % labels."""
    return _best(runs, _columns(runs, 0.1))


@statistic
def lead_independent_of_labels(runs: Evidence) -> Judged:
    """81: SAGE's lead at 10 % labels minus its lead at 20 %, over the better of the one-model rows."""
    leads = [pooled(_leads(runs, _columns(runs, share), ONE_MODEL)) for share in (0.1, 0.2)]
    return judge_equivalence(leads[0] - leads[1]).noting(
        f"Leads over the better of {' and '.join(ONE_MODEL)}: {leads[0].mean():+.1f} and {leads[1].mean():+.1f} points."
    )


@statistic
def robust_to_skew(runs: Evidence) -> Judged:
    """82: what each other method loses from α = 1 to 0.1 minus what SAGE loses, with 10 % labels."""
    columns = _columns(runs, 0.1)
    pairs = {even.replace("α = 1", "").strip(", "): (columns[even], columns[even.replace("α = 1", "α = 0.1")])
             for even in columns if even.endswith("α = 1")}  # fmt: skip

    def loss(row: Settings, data: str) -> pd.Series:
        even, uneven = pairs[data]
        return runs.gap(accuracy, {**even, **row}, {**uneven, **row})()

    def behind(row: Settings, data: str) -> pd.Series:
        return loss(row, data) - loss(SAGE, data)

    cells = {
        ", ".join(filter(None, (name, data))): partial(behind, row, data)
        for name, row in RIVALS.items()
        for data in pairs
    }
    return judge_every_case(runs.cells(cells))


@statistic
def passes_the_reference_on_svhn(runs: Evidence) -> Judged:
    """83: SAGE minus the fully labelled reference on SVHN with 20 % labels, at each α."""
    columns = {name: there for name, there in _columns(runs, 0.2).items() if there.get("dataset") == SAGE_SETS["SVHN"]}
    if not columns:
        raise NotTestedError(f"about SVHN, which profile {runs.profile} does not have")
    return judge_every_case(_leads(runs, columns, {REFERENCE: ALL_METHODS[REFERENCE]}))


def _columns(runs: Evidence, label_share: float) -> dict[str, Settings]:
    return {name: {**there, "label_share": label_share} for name, there in on_sets(runs.profile).items()}


def _leads(runs: Evidence, columns: Mapping[str, Settings], rivals: Mapping[str, Settings]) -> dict[str, pd.Series]:
    def lead(there: Settings) -> pd.Series:
        found = {name: runs.values(accuracy, **{**there, **row}) for name, row in rivals.items()}
        best = max(found.values(), key=lambda values: float(values.mean()))
        return runs.values(accuracy, **there, **SAGE) - best

    return runs.cells({name: partial(lead, there) for name, there in columns.items()})


def _best(runs: Evidence, columns: Mapping[str, Settings]) -> Judged:
    """Best of all needs every rival; that it is not, the rivals with enough seeds may show."""
    known = {}
    for name, row in RIVALS.items():
        try:
            for there in columns.values():
                runs.values(accuracy, **{**there, **row})
        except NotTestedError:
            continue
        known[name] = row
    if not known:
        raise NotTestedError("needs 3 seeds of other methods; none has them")
    judged = judge_every_case(_leads(runs, columns, known))
    missing = [name for name in RIVALS if name not in known]
    if not missing or judged.verdict in ("does not hold", "not tested"):
        return judged
    return replace(judged, verdict="not tested").noting(
        f"Only over the best of {', '.join(known)} ({judged.verdict}); too few seeds of {', '.join(missing)}."
    )


def _long_columns(runs: Evidence) -> dict[str, Settings]:
    return {name: there for column in BY_ALPHA for name, there in long_runs(runs.profile, column).items()}


def _leads_in_rounds(runs: Evidence, window: int = 1) -> dict[str, pd.Series]:
    def lead(target: int, own: Rows, other: Rows) -> float:
        return log_speed_up(_reached(other, target, window), _reached(own, target, window))

    return runs.cells(
        {
            f"{column}, to {target} %": runs.paired(partial(lead, target), {**SAGE, **there}, {**LPL, **there})
            for column, there in _long_columns(runs).items()
            for target in targets(runs.profile)
        }
    )


def _censored(target: int, rows: Rows) -> float:
    return float(_reached(rows, target).censored)


def _reached(rows: Rows, target: int, window: int = 1) -> Reached:
    return rounds_to(accuracy_curve(rows), target, min(window, len(rows)))
