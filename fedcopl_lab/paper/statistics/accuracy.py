"""Claims 12 to 19: who is best, who falls below zero-shot, and why."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Read, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_equivalence, judge_every_case, judge_parts, pooled
from fedcopl_lab.paper._trends import spearman
from fedcopl_lab.paper.items._columns import ZERO_SHOT
from fedcopl_lab.paper.statistics._reads import (
    TRAINERS,
    accuracy,
    accuracy_global,
    as_floats,
    baselines,
    client_accuracies,
)
from fedcopl_lab.paper.statistics._registry import statistic

MANY = 25.0
"""Percent of the baselines' cells that counts as many; the paper's own tables have a third."""


@statistic
def best_under_dirichlet(runs: Evidence) -> Judged:
    """12: FedCoPL minus the best other row, at both β on every set."""
    return _best(runs, runs.columns("β = 0.1", "β = 0.05"))


@statistic
def best_under_quantity_split(runs: Evidence) -> Judged:
    """13: FedCoPL minus the best other row under the quantity split, on every set."""
    return _best(runs, runs.columns("quantity"))


@statistic
def quantity_as_good_as_dirichlet(runs: Evidence) -> Judged:
    """14: FedCoPL's average under the quantity split minus its average under Dirichlet, against the margin."""
    quantity = pooled(runs.in_columns(accuracy, runs.columns("quantity"), method="FedCoPL"))
    dirichlet = pooled(runs.in_columns(accuracy, runs.columns("β = 0.1", "β = 0.05"), method="FedCoPL"))
    return judge_equivalence(quantity - dirichlet)


@statistic
def many_baselines_below_zero_shot(runs: Evidence) -> Judged:
    """15: share of baseline cells below zero-shot under the quantity split, minus what counts as many."""
    rows, columns = baselines("FPL", "CPL"), runs.columns("quantity")
    here = _below(runs, accuracy, accuracy, rows, columns)
    below = sum(float(values.mean()) > 0 for values in here.values())
    elsewhere = _below(runs, accuracy, accuracy_global, rows, columns)
    by_global = sum(float(values.mean()) > 0 for values in elsewhere.values())
    share = pooled({name: 100.0 * (values.dropna() > 0) for name, values in here.items()})
    return judge_difference(share - MANY, "%").noting(
        f"{below} of {len(here)} cells below the clients' mean zero-shot accuracy, {by_global} below the global one.",
        f"Many: more than {MANY:.0f} % of the cells.",
    )


@statistic
def only_fedcopl_above_zero_shot_on_cub(runs: Evidence) -> Judged:
    """16: on CUB, zero-shot minus every baseline, and FedCoPL minus zero-shot."""
    return _around_zero_shot(runs, {}, ("FPL", "CPL"))


@statistic
def only_fedcopl_above_zero_shot_on_cub_with_resnet(runs: Evidence) -> Judged:
    """28: the same with the ResNet encoder and FPL's labels."""
    return _around_zero_shot(runs, {"clip": runs.resnet}, ("FPL",))


@statistic
def fedotp_below_zero_shot(runs: Evidence) -> Judged:
    """17: zero-shot minus FedOTP, with FPL's and with CPL's labels, in every column."""
    judged = []
    for labeller in ("FPL", "CPL"):
        cells = _below(runs, accuracy, accuracy, baselines(labeller, trainers=("FedOTP",)), runs.columns())
        judged.append((labeller, judge_every_case(cells)))
    return judge_parts({f"with {labeller}": one for labeller, one in judged})


@statistic
def wrong_labels_and_personal_prompts(runs: Evidence) -> Judged:
    """18: clients with better labels gain more; personal prompts gain less with wrong labels than with true ones."""
    cells = {f"{name}, {column}": (name, there) for name in ("FPL", "CPL") for column, there in runs.columns().items()}

    def follow(labeller: str, there: Settings) -> Callable[[], pd.Series]:
        own = {"method": "FedOTP", "labeller": labeller, **there}
        return runs.paired(_rank_of_clients, own, {"method": "zero-shot", **there})

    def interact(labeller: str, there: Settings) -> Callable[[], pd.Series]:
        def gain(labels: str) -> pd.Series:
            both = {"labeller": labels, **there}
            return runs.gap(accuracy, {"method": "FedOTP", **both}, {"method": "PromptFL", **both})()

        return lambda: gain("true") - gain(labeller)

    followed = runs.cells({cell: follow(*which) for cell, which in cells.items()})
    interaction = runs.cells({cell: interact(*which) for cell, which in cells.items()})
    return judge_parts(
        {
            "rank correlation over clients of label accuracy and gain": judge_every_case(followed, "rho"),
            "personal minus shared prompts, with true labels minus with the labeller's": judge_every_case(interaction),
        }
    )


@statistic
def cpl_and_fpl_by_set(runs: Evidence) -> Judged:
    """19: CPL minus FPL on DTD and CUB, FPL minus CPL on CIFAR-10 and CIFAR-100, over trainers and both β."""
    sides = {"DTD": 1, "CUB": 1, "CIFAR-10": -1, "CIFAR-100": -1}
    found = {}
    for name, there in runs.needs_set(*sides).items():
        cells = runs.cells(
            {
                f"{trainer}, {name}, β = {beta}": runs.gap(
                    accuracy,
                    {**there, "beta": beta, "method": trainer, "labeller": "CPL"},
                    {**there, "beta": beta, "method": trainer, "labeller": "FPL"},
                )
                for trainer in TRAINERS
                for beta in (0.1, 0.05)
            }
        )
        side = f"{'CPL' if sides[name] > 0 else 'FPL'} ahead on {name}"
        found[side] = judge_every_case({cell: sides[name] * values for cell, values in cells.items()})
    return judge_parts(found)


def _best(runs: Evidence, columns: dict[str, Settings]) -> Judged:
    others = {**ZERO_SHOT, **baselines("FPL", "CPL")}
    leads = {name: runs.lead(accuracy, {"method": "FedCoPL"}, others, **there) for name, there in columns.items()}
    return judge_every_case(runs.cells(leads))


def _below(
    runs: Evidence, read: Read, read_zero: Read, rows: dict[str, Settings], columns: dict[str, Settings]
) -> dict[str, pd.Series]:
    """Zero-shot minus each row in each column."""
    return runs.cells(
        {
            f"{name}, {column}": runs.gap(read_zero, {"method": "zero-shot", **there}, {**row, **there}, read)
            for name, row in rows.items()
            for column, there in columns.items()
        }
    )


def _around_zero_shot(runs: Evidence, encoder: Settings, labellers: tuple[str, ...]) -> Judged:
    there = {**runs.needs_set("CUB")["CUB"], **encoder}
    betas = {"β = 0.1": {"beta": 0.1}} | ({"β = 0.05": {"beta": 0.05}} if len(labellers) > 1 else {})
    columns: dict[str, Settings] = {name: {**there, **own} for name, own in betas.items()}
    ahead = {
        n: runs.gap(accuracy, {"method": "FedCoPL", **c}, {"method": "zero-shot", **c}) for n, c in columns.items()
    }
    return judge_parts(
        {
            "zero-shot minus baselines": judge_every_case(
                _below(runs, accuracy, accuracy, baselines(*labellers), columns)
            ),
            "FedCoPL minus zero-shot": judge_every_case(runs.cells(ahead)),
        }
    )


def _rank_of_clients(own: Rows, zero: Rows) -> float:
    labels = as_floats(own[-1]["clients"]["label_accuracy"])
    gain = client_accuracies(own) - client_accuracies(zero)
    there = ~np.isnan(labels) & ~np.isnan(gain)
    return spearman(list(labels[there]), list(gain[there])) if there.sum() > 1 else float("nan")
