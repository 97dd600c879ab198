"""Claims 7 to 9 and 11, 20, 21: what stronger label skew costs, and what allocation does about it."""

from functools import partial

import pandas as pd

from fedcopl_lab.paper._evidence import SKEWS, Evidence, Read, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_every_case, judge_no_worse, judge_parts, pooled
from fedcopl_lab.paper._trends import mean_step, slopes
from fedcopl_lab.paper.statistics._reads import (
    LABELLERS,
    accuracy,
    accuracy_curve,
    equal_numbers,
    first_labels,
    label_accuracy,
    last_labels,
    mean_over_phases,
    phases,
)
from fedcopl_lab.paper.statistics._registry import statistic

_FROM_EVEN_TO_SKEWED: dict[str, Settings] = {
    "IID": {"scheme": "iid"},
    "β = 0.5": {"beta": 0.5},
    "β = 0.1": {"beta": 0.1},
    "β = 0.05": {"beta": 0.05},
}
_OF_TABLE_3 = ("PromptFL", "pFedPrompt", "FedOTP")
WITHOUT: Settings = {"allocation": "none"}
"""Trains on the filtered sets: the reading of "without allocation" that is judged."""


@statistic
def label_accuracy_falls_with_skew(runs: Evidence) -> Judged:
    """7: fall of label accuracy per step from β = 0.1 to 0.05 to the quantity split, per labeller and set."""

    def fall(labeller: Settings, there: Settings) -> pd.Series:
        columns = {name: {**there, **skew} for name, skew in SKEWS.items()}
        by_skew = {name: runs.values(first_labels, **{**labeller, **column}) for name, column in columns.items()}
        return -slopes(pd.DataFrame(by_skew).dropna(), range(len(SKEWS)))

    cells = runs.cells(
        {
            f"{name}, {place}": partial(fall, labeller, there)
            for name, labeller in LABELLERS.items()
            for place, there in runs.sets.items()
        }
    )
    falls = {
        name: pooled(own).mean()
        for name in LABELLERS
        if (own := {cell: values for cell, values in cells.items() if cell.startswith(f"{name},")})
    }
    said = ", ".join(f"{name} {value:.1f}" for name, value in falls.items())
    return judge_every_case(cells).noting(f"Fall per step: {said}; smallest: {min(falls, key=falls.__getitem__)}.")


@statistic
def allocation_raises_label_accuracy(runs: Evidence) -> Judged:
    """8: label accuracy over the phases, with allocation minus a run trained on the filtered sets."""
    with_it, without = mean_over_phases("selected"), mean_over_phases("filtered")
    panels = runs.panels()
    cells = runs.cells(
        {name: runs.gap(with_it, there, {**there, **WITHOUT}, with_it) for name, there in panels.items()}
    )
    same_run = pooled(runs.in_columns(lambda rows: with_it(rows) - without(rows), panels)).mean()
    equal = runs.cells(
        {name: runs.gap(equal_numbers, there, {**there, **WITHOUT}) for name, there in panels.items()}, least=0
    )
    return judge_every_case(cells).noting(
        f"In one run, the allocated set against the filtered one: {same_run:+.1f} points.",
        f"The two runs at equal numbers: {pooled(equal).mean():+.1f} points." if equal else "",
    )


@statistic
def allocation_makes_training_steadier(runs: Evidence) -> Judged:
    """9: mean change from one round or phase to the next, without allocation minus with."""

    def labels(rows: Rows) -> float:
        return mean_step([label_accuracy(phase) for phase in phases(rows)])

    def tests(rows: Rows) -> float:
        return mean_step(accuracy_curve(rows))

    def saved(read: Read) -> dict[str, pd.Series]:
        return runs.cells({name: runs.gap(read, {**there, **WITHOUT}, there) for name, there in runs.panels().items()})

    return judge_parts(
        {
            "change of label accuracy saved": judge_every_case(saved(labels)),
            "change of test accuracy saved": judge_every_case(saved(tests)),
        }
    )


@statistic
def wrong_counts_do_no_harm(runs: Evidence) -> Judged:
    """11: accuracy with spoilt uploads minus accuracy with the counts as they are; nothing beyond the margin lost."""
    kinds = {"each count × (1 ± 0.5)": "half", "all counts equal": "uniform", "clients shuffled": "shuffled"}
    lost = runs.cells({name: runs.gap(accuracy, {"count_noise": kind}, {}) for name, kind in kinds.items()})
    labels = runs.cells({name: runs.gap(last_labels, {"count_noise": kind}, {}) for name, kind in kinds.items()})
    said = ", ".join(f"{name} {values.mean():+.1f}" for name, values in labels.items())
    return judge_parts({name: judge_no_worse(values) for name, values in lost.items()}).noting(
        f"Label accuracy of the last phase: {said} points."
    )


@statistic
def lead_grows_with_skew(runs: Evidence) -> Judged:
    """20: slope of FedCoPL's lead over PromptFL + FPL from an even split to β = 0.05."""

    def growth(there: Settings) -> pd.Series:
        leads = runs.cells(
            {
                name: runs.gap(accuracy, {**there, **skew}, {**LABELLERS["FPL"], **there, **skew})
                for name, skew in _FROM_EVEN_TO_SKEWED.items()
            },
            least=3,
        )
        order = [list(_FROM_EVEN_TO_SKEWED).index(name) for name in leads]
        return slopes(pd.DataFrame(leads).dropna(), order)

    cells = runs.cells({name: partial(growth, there) for name, there in runs.sets.items()})
    return judge_every_case(cells, "points a step")


@statistic
def copl_labels_improve_every_trainer(runs: Evidence) -> Judged:
    """21: CoPL minus FPL for each other trainer, in every column."""
    cells = {
        f"{trainer}, {name}": runs.gap(
            accuracy, {"method": trainer, "labeller": "CoPL", **there}, {"method": trainer, "labeller": "FPL", **there}
        )
        for trainer in _OF_TABLE_3
        for name, there in runs.panels().items()
    }
    found = runs.cells(cells)
    most = max(float(values.mean()) for values in found.values())
    return judge_every_case(found).noting(f"Largest gain {most:+.1f} points.")
