"""Claims 29 to 34: what each part of FedCoPL adds, and which prompts should be shared."""

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_every_case, judge_parts
from fedcopl_lab.paper.statistics._reads import accuracy, as_floats, mean, phases
from fedcopl_lab.paper.statistics._registry import statistic

_NO_FILTER: Settings = {"q_conf": None, "q_ent": None}
_SHARED: dict[str, Settings] = {name: {"aggregate": name} for name in ("none", "both", "text")}


@statistic
def each_filter_adds(runs: Evidence) -> Judged:
    """29: both filters minus one, and either minus none, allocation always on."""
    confidence, entropy = {"q_ent": None}, {"q_conf": None}
    steps: dict[str, tuple[Settings, Settings]] = {
        "both minus confidence only": ({}, confidence),
        "both minus entropy only": ({}, entropy),
        "confidence only minus none": (confidence, _NO_FILTER),
        "entropy only minus none": (entropy, _NO_FILTER),
    }
    cells = {
        f"{name}, {place}": runs.gap(accuracy, {**there, **own}, {**there, **other})
        for name, (own, other) in steps.items()
        for place, there in runs.panels().items()
    }
    judged = judge_every_case(runs.cells(cells))
    overlap = runs.cells({"overlap": runs.later(_overlap)}, least=0)
    return judged.noting(f"The two kept sets overlap by {overlap['overlap'].mean():.2f} (Jaccard)." if overlap else "")


@statistic
def allocation_helps_without_filters(runs: Evidence) -> Judged:
    """30: allocation on minus off, no filter in either."""
    off: Settings = {**_NO_FILTER, "allocation": "none"}
    cells = {
        name: runs.gap(accuracy, {**there, **_NO_FILTER}, {**there, **off}) for name, there in runs.panels().items()
    }
    return judge_every_case(runs.cells(cells))


@statistic
def sharing_visual_prompts_is_best(runs: Evidence) -> Judged:
    """31: visual only minus the best of none, both and text only."""
    cells = {name: runs.lead(accuracy, {}, _SHARED, **there) for name, there in runs.panels().items()}
    return judge_every_case(runs.cells(cells))


@statistic
def sharing_both_no_better_than_none(runs: Evidence) -> Judged:
    """32: sharing none minus sharing both."""
    return judge_every_case(_minus(runs, {"aggregate": "none"}, {"aggregate": "both"}))


@statistic
def sharing_visual_prompts_helps(runs: Evidence) -> Judged:
    """33: visual only minus none."""
    return judge_every_case(_minus(runs, {}, {"aggregate": "none"}))


@statistic
def own_text_prompt_fits(runs: Evidence) -> Judged:
    """34: accuracy on a client's test images with its own text prompt, minus another's and minus the average's."""

    def over_others(rows: Rows) -> float:
        table = as_floats(rows[-1]["exchange"])  # [client whose images, client whose prompt]
        own = np.diag(table)
        others = (table.sum(axis=1) - own) / (len(table) - 1)
        return 100 * mean(own - others)

    def over_average(rows: Rows) -> float:
        return 100 * mean(np.diag(as_floats(rows[-1]["exchange"])) - as_floats(rows[-1]["exchange_mean"]))

    return judge_parts(
        {
            "own minus another client's": judge_every_case(runs.in_columns(over_others, runs.columns())),
            "own minus the averaged": judge_every_case(runs.in_columns(over_average, runs.columns())),
        }
    )


def _minus(runs: Evidence, own: Settings, other: Settings) -> dict[str, pd.Series]:
    return runs.cells(
        {name: runs.gap(accuracy, {**there, **own}, {**there, **other}) for name, there in runs.panels().items()}
    )


def _overlap(rows: Rows) -> float:
    return mean([mean(phase["kept"]["jaccard"]) for phase in phases(rows)])
