"""Claims of FedCoPL's paper that need more than a row of ``statistics.csv``: one function each, named there."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Named, Read, Rows, Settings
from fedcopl_lab.paper._intervals import LEVEL, columns_of, image_error, minus, with_image_error
from fedcopl_lab.paper._judge import (
    Judgement,
    best_of_others,
    judge_difference,
    judge_equivalence,
    judge_every_case,
    judge_no_worse,
    judge_parts,
    pooled,
    slopes,
    spearman,
)
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items._fedcopl_columns import ALL_SPLITS, FEDCOPL, TRUE_LABELS
from fedcopl_lab.paper.statistics._groups import JOINING, LABELLERS, ROWS, at_tenth, baselines, swept_sets
from fedcopl_lab.paper.statistics._readers import (
    accuracy,
    accuracy_global,
    as_floats,
    client_accuracies,
    equal_numbers,
    first_labels,
    last_labels,
)

MANY = 25.0
"""Percent of the baselines' cells that counts as many; the paper's own tables have a third."""

_CLIENTS = (5, 10, 20, 30, 50)
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.44, 0.46, 0.48, 0.5, 0.52, 0.54, 0.56, 0.6, 0.7, 0.8, 0.9)
_FROM_EVEN_TO_SKEWED: Named = {
    "IID": {"scheme": "iid"},
    "β = 0.5": {"beta": 0.5},
    "β = 0.1": {"beta": 0.1},
    "β = 0.05": {"beta": 0.05},
}


def copl_labels_beat_fpl_and_cpl(runs: StoredRuns) -> Judgement:
    """5: label accuracy of the first phase, CoPL minus FPL and minus CPL, in every column."""
    return _labeller_against(runs, "CoPL", ("FPL", "CPL"))


def cpl_labels_beat_fpl(runs: StoredRuns) -> Judgement:
    """6: label accuracy of the first phase, CPL minus FPL, in every column."""
    return _labeller_against(runs, "CPL", ("FPL",))


def _labeller_against(runs: StoredRuns, own: str, others: tuple[str, ...]) -> Judgement:
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
        parts[f"against {other}"] = judge_every_case(first).with_notes(
            f"Against {other} in the last label phase {pooled(last).mean():+.1f} points"
            + (f", at equal numbers {pooled(equal).mean():+.1f}." if equal else ".")
        )
    judged = judge_parts(parts) if len(parts) > 1 else next(iter(parts.values()))
    return judged.with_notes("Each labeller has its own number of images.")


def label_accuracy_falls_with_skew(runs: StoredRuns) -> Judgement:
    """7: fall of label accuracy per step from β = 0.1 to 0.05 to the quantity split, per labeller and set."""

    def fall(labeller: Settings, there: Settings) -> pd.Series:
        columns = {name: {**there, **skew} for name, skew in ALL_SPLITS.items()}
        by_skew = {name: runs.values(first_labels, **{**labeller, **column}) for name, column in columns.items()}
        return -slopes(pd.DataFrame(by_skew).dropna(), range(len(ALL_SPLITS)))

    wanted = {
        name: {place: partial(fall, labeller, there) for place, there in runs.sets.items()}
        for name, labeller in LABELLERS.items()
    }
    return _each(runs, wanted)


def wrong_counts_do_no_harm(runs: StoredRuns) -> Judgement:
    """11: accuracy with spoilt uploads minus accuracy with the counts as they are; nothing beyond the margin lost."""
    kinds = {"each count × (1 ± 0.5)": "half", "all counts equal": "uniform", "clients shuffled": "shuffled"}
    lost = runs.cells({name: runs.gap(accuracy, {"count_noise": kind}, {}) for name, kind in kinds.items()})
    labels = runs.cells({name: runs.gap(last_labels, {"count_noise": kind}, {}) for name, kind in kinds.items()})
    said = ", ".join(f"{name} {values.mean():+.1f}" for name, values in labels.items())
    return judge_parts({name: judge_no_worse(values) for name, values in lost.items()}).with_notes(
        f"Label accuracy of the last phase: {said} points."
    )


def quantity_as_good_as_dirichlet(runs: StoredRuns) -> Judgement:
    """14: FedCoPL's average under the quantity split minus its average under Dirichlet, against the margin."""
    quantity = pooled(runs.in_columns(accuracy, runs.columns("quantity"), method="FedCoPL"))
    dirichlet = pooled(runs.in_columns(accuracy, runs.columns("β = 0.1", "β = 0.05"), method="FedCoPL"))
    return judge_equivalence(quantity - dirichlet)


def many_baselines_below_zero_shot(runs: StoredRuns) -> Judgement:
    """15: share of baseline cells below zero-shot under the quantity split, minus what counts as many."""

    def below(read_zero: Read) -> dict[str, pd.Series]:
        return runs.cells(
            {
                f"{name}, {column}": runs.gap(read_zero, {"method": "zero-shot", **there}, {**row, **there}, accuracy)
                for name, row in ROWS["baselines"].items()
                for column, there in columns.items()
            }
        )

    columns = runs.columns("quantity")
    here, elsewhere = below(accuracy), below(accuracy_global)
    lower, by_global = (sum(float(values.mean()) > 0 for values in found.values()) for found in (here, elsewhere))
    share = with_image_error(pooled({name: 100.0 * (values.dropna() > 0) for name, values in here.items()}), 0.0)
    return judge_difference(share - MANY, "%").with_notes(
        f"{lower} of {len(here)} cells below the clients' mean zero-shot accuracy, {by_global} below the global one.",
        f"Many: more than {MANY:.0f} % of the cells.",
    )


def wrong_labels_and_personal_prompts(runs: StoredRuns) -> Judgement:
    """18: clients with better labels gain more; personal prompts gain less with wrong labels than with true ones."""
    cells = {f"{name}, {column}": (name, there) for name in ("FPL", "CPL") for column, there in runs.columns().items()}

    def rank_of_clients(own: Rows, zero: Rows) -> float:
        labels = as_floats(own[-1]["clients"]["label_accuracy"])
        gain = client_accuracies(own) - client_accuracies(zero)
        there = ~np.isnan(labels) & ~np.isnan(gain)
        return spearman(list(labels[there]), list(gain[there])) if there.sum() > 1 else float("nan")

    def follow(labeller: str, there: Settings) -> Callable[[], pd.Series]:
        own = {"method": "FedOTP", "labeller": labeller, **there}
        return runs.paired(rank_of_clients, own, {"method": "zero-shot", **there})

    def interact(labeller: str, there: Settings) -> Callable[[], pd.Series]:
        def gain(labels: str) -> pd.Series:
            both = {**(TRUE_LABELS if labels == "true" else {"labeller": labels}), **there}
            return runs.gap(accuracy, {"method": "FedOTP", **both}, {"method": "PromptFL", **both})()

        return lambda: minus(gain("true"), gain(labeller))

    followed = runs.cells({cell: follow(*which) for cell, which in cells.items()})
    interaction = runs.cells({cell: interact(*which) for cell, which in cells.items()})
    return judge_parts(
        {
            "rank correlation over clients of label accuracy and gain": judge_every_case(followed, "rho"),
            "personal minus shared prompts, with true labels minus with the labeller's": judge_every_case(interaction),
        }
    )


def lead_grows_with_skew(runs: StoredRuns) -> Judgement:
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
        return slopes(columns_of(leads), order)

    cells = runs.cells({name: partial(growth, there) for name, there in runs.sets.items()})
    return judge_every_case(cells, "points a step")


def copl_labels_improve_every_trainer(runs: StoredRuns) -> Judgement:
    """21: CoPL minus FPL for each other trainer, in every column."""
    return _each(
        runs,
        {
            trainer: {
                name: runs.gap(accuracy, {"method": trainer, "labeller": "CoPL", **there},
                               {"method": trainer, "labeller": "FPL", **there})
                for name, there in runs.panels().items()
            }
            for trainer in ("PromptFL", "pFedPrompt", "FedOTP")
        },
    )  # fmt: skip


def baselines_fall_with_clients(runs: StoredRuns) -> Judgement:
    """22: the baselines lose per doubling of the clients, and FedCoPL loses less."""

    def per_doubling(row: Settings, there: Settings) -> pd.Series:
        table = runs.sweep(accuracy, "n_clients", _CLIENTS, **{**row, **there})
        return slopes(table, np.log2(table.columns.to_numpy(dtype=float)).tolist())

    found: dict[str, pd.Series] = {}
    for place, there in at_tenth(runs).items():
        rows = {**baselines("FPL"), **FEDCOPL}
        cells = runs.cells({name: partial(per_doubling, row, there) for name, row in rows.items()}, least=2)
        found |= {", ".join(filter(None, (name, place))): values for name, values in cells.items()}
    others = {name: values for name, values in found.items() if not name.startswith("FedCoPL")}
    own = pooled({name: values for name, values in found.items() if name.startswith("FedCoPL")})
    return judge_parts(
        {
            "baselines lose per doubling": judge_every_case({name: -values for name, values in others.items()}),
            "baselines' loss minus FedCoPL's": judge_difference(minus(own, pooled(others))),
        }
    ).with_notes(f"FedCoPL changes by {own.mean():+.1f} points per doubling.")


def low_participation_hurts(runs: StoredRuns) -> Judgement:
    """23: accuracy gained per step of participation from 0.5 to 1, per method."""

    def gained(row: Settings, there: Settings) -> pd.Series:
        table = runs.sweep(accuracy, "participation", JOINING, **{**row, **there})
        return slopes(table, (10 * table.columns.to_numpy(dtype=float)).tolist())

    return _in_every_row(runs, gained, "points per tenth")


def methods_follow_the_encoder(runs: StoredRuns) -> Judgement:
    """27: per seed, rank correlation over encoders of zero-shot accuracy and a method's, per method and set."""

    def follows(row: Settings, there: Settings) -> pd.Series:
        zero = runs.sweep(accuracy, "clip", runs.encoders, least=3, **{"method": "zero-shot", **there})
        own = runs.sweep(accuracy, "clip", runs.encoders, least=3, **{**row, **there})
        common = zero.index.intersection(own.index)
        pairs = zip(zero.loc[common].to_numpy().tolist(), own.loc[common].to_numpy().tolist(), strict=True)
        return pd.Series([spearman(first, second) for first, second in pairs], index=common, dtype=float)

    judged = _in_every_row(runs, follows, "rho")
    ways = math.factorial(len(runs.encoders))
    if ways * (1 - LEVEL) >= 1:
        return judged
    return replace(judged, verdict="not tested").with_notes(
        f"{len(runs.encoders)} encoders, the same at every seed, come in one order by chance 1 time in {ways}."
    )


def _in_every_row(runs: StoredRuns, compute: Callable[[Settings, Settings], pd.Series], unit: str) -> Judgement:
    rows, places = ROWS["baselines + FPL and FedCoPL"], at_tenth(runs)
    wanted = {name: {at: partial(compute, row, own) for at, own in places.items()} for name, row in rows.items()}
    return _each(runs, wanted, unit)


def _each(
    runs: StoredRuns, wanted: Mapping[str, Mapping[str, Callable[[], pd.Series]]], unit: str = "points"
) -> Judgement:
    """A part for every method or labeller that a claim is about; those whose runs are missing are left out."""
    named = {
        name: {", ".join(filter(None, (name, at))): one for at, one in own.items()} for name, own in wanted.items()
    }
    found = runs.cells({cell: compute for own in named.values() for cell, compute in own.items()})
    parts = {name: {cell: found[cell] for cell in own if cell in found} for name, own in named.items()}
    return judge_parts({name: judge_every_case(cells, unit) for name, cells in parts.items() if cells})


def one_half_is_near_the_best(runs: StoredRuns) -> Judgement:
    """42: the level that is best on the other seeds minus 0.5, against the margin."""

    def gained(field: str, there: Settings) -> pd.Series:
        table = runs.sweep(accuracy, field, _LEVELS, least=len(_LEVELS), **there)
        best = table.mean().drop(0.5).idxmax()
        gap = runs.between(accuracy, field, **there)(best, 0.5)
        return with_image_error(best_of_others(table, 0.5), image_error(gap))

    fields = {"τ1": "q_conf", "τ2": "q_ent"}
    cells = runs.cells(
        {
            ", ".join(filter(None, (name, place))): partial(gained, field, there)
            for name, field in fields.items()
            for place, there in swept_sets(runs).items()
        }
    )
    by_level = {name: {cell: v for cell, v in cells.items() if cell.startswith(name)} for name in fields}
    return judge_parts({name: judge_equivalence(pooled(own)) for name, own in by_level.items() if own})
