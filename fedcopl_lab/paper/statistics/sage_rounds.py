"""Claims of SAGE's paper on rounds to an accuracy: one function each, named in ``claims_judged.csv``."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from fedcopl_lab.paper._evidence import Named, NotTestedError, Rows, Settings
from fedcopl_lab.paper._intervals import columns_of
from fedcopl_lab.paper._judge import (
    Judgement,
    chosen_on_others,
    judge_difference,
    judge_every_case,
    judge_parts,
    pooled,
)
from fedcopl_lab.paper._sage_reached import BASE, WINDOW, Reached, log_speed_up, rounds_to
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items._sage_runs import CONVERGING, long_runs, rows_of, targets
from fedcopl_lab.paper.statistics._groups import LPL, SAGE, against_rivals
from fedcopl_lab.paper.statistics._readers import accuracy_curve

RIVALS: Named = rows_of(name for name in CONVERGING if name != "SAGE")
"""The other methods of the tables of rounds."""

DOUBLINGS = "doublings of rounds"


def fewest_rounds(runs: StoredRuns) -> Judgement:
    """77: log2 of another method's rounds over SAGE's, to each target at each α: FixMatch-LPL's, and the quickest's."""
    parts = {
        f"over {BASE}": _over_base(runs),
        "over the quickest": against_rivals(runs, long_runs(runs.profile), RIVALS, partial(_over_quickest, runs)),
    }
    return judge_parts(parts)


def largest_lead_early(runs: StoredRuns) -> Judgement:
    """78: log2 ratio at the lowest target minus at the highest."""
    lowest, *_, highest = targets(runs.profile)
    cells = _leads(runs)
    early, late = ({n: values for n, values in cells.items() if n.endswith(f"to {t} %")} for t in (lowest, highest))
    return judge_difference(pooled(early) - pooled(late), DOUBLINGS)


def _over_base(runs: StoredRuns) -> Judgement:
    judged = judge_every_case(_leads(runs), DOUBLINGS)
    smoothed = pooled(_leads(runs, window=WINDOW)).mean()
    never = sum(map(sum, _each_target(runs, _censored, LPL).values()))
    return judged.with_notes(
        f"A ratio of {2**judged.difference:.2f}; {2**smoothed:.2f} with {WINDOW}-round means."
        if judged.verdict != "not tested"
        else "",
        f"{int(never)} curves never reached a target; each counts as one round after its last.",
    )


def _over_quickest(runs: StoredRuns, stored: Mapping[str, Named]) -> Judgement:
    """Over the one method that is quickest on the other seeds: the quickest of a seed is so partly by luck."""
    everywhere = [name for name in RIVALS if all(name in rivals for rivals in stored.values())]
    if not everywhere:
        raise NotTestedError("needs 3 seeds of another method at every α")
    leads = {name: pooled(_leads(runs, RIVALS[name])) for name in everywhere}
    return judge_difference(-chosen_on_others(-columns_of(leads)), DOUBLINGS)


def _censored(own: Reached, other: Reached) -> float:
    return own.censored + other.censored


def _leads(runs: StoredRuns, row: Settings = LPL, window: int = 1) -> dict[str, pd.Series]:
    return _each_target(runs, lambda own, other: log_speed_up(other, own), row, window)


def _each_target(
    runs: StoredRuns, read: Callable[[Reached, Reached], float], row: Settings, window: int = 1
) -> dict[str, pd.Series]:
    """A number from when SAGE and another method reached each target, at each α."""

    def both(target: int, own: Rows, other: Rows) -> float:
        return read(*(rounds_to(accuracy_curve(rows), target, min(window, len(rows))) for rows in (own, other)))

    return runs.cells(
        {
            f"{column}, to {target} %": runs.paired(partial(both, target), {**SAGE, **there}, {**row, **there})
            for column, there in long_runs(runs.profile).items()
            for target in targets(runs.profile)
        }
    )
