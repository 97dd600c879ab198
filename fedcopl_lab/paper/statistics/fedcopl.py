"""Claims of FedCoPL's paper that need more than a row of ``statistics.csv``: one function each, named there."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Named, NotTestedError, Read, Rows, Settings, joined
from fedcopl_lab.paper._intervals import LEVEL, columns_of, image_error, minus, with_image_error
from fedcopl_lab.paper._judge import (
    Judgement,
    chosen_on_others,
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
from fedcopl_lab.paper.items._fedcopl_columns import ALL_SPLITS, DIRICHLET, TRUE_LABELS
from fedcopl_lab.paper.items._fedcopl_runs import JOINING, LABELLERS, LEVELS, MILDER, UPLOADS
from fedcopl_lab.paper.statistics._groups import ROWS, at_tenth, swept_sets
from fedcopl_lab.paper.statistics._readers import accuracy, as_floats, client_accuracies, rank_correlation

Row = TypeVar("Row")

MANY = 25.0
"""Percent of the baselines' cells that counts as many; the paper's own tables have a third."""

OWN_NUMBERS = "Each labeller has its own number of images."
_FROM_EVEN_TO_SKEWED: Named = MILDER | DIRICHLET


def copl_labels_beat_fpl_and_cpl(runs: StoredRuns) -> Judgement:
    """5: label accuracy of the first phase, CoPL minus FPL and minus CPL, in every column."""
    return judge_parts({f"against {name}": _labels_against(runs, "CoPL", name) for name in ("FPL", "CPL")}).with_notes(
        OWN_NUMBERS
    )


def cpl_labels_beat_fpl(runs: StoredRuns) -> Judgement:
    """6: label accuracy of the first phase, CPL minus FPL, in every column."""
    return _labels_against(runs, "CPL", "FPL").with_notes(OWN_NUMBERS)


def _labels_against(runs: StoredRuns, own: str, other: str) -> Judgement:
    pairs = {
        column: ({**LABELLERS[own], **there}, {**LABELLERS[other], **there}) for column, there in runs.columns().items()
    }
    first, last = (runs.gaps(runs.reader(name), pairs) for name in ("first_labels", "last_labels"))
    equal = runs.gaps(runs.reader("equal_numbers"), pairs, least=0)
    return judge_every_case(first).with_notes(
        f"Against {other} in the last label phase {pooled(last).mean():+.1f} points"
        + (f", at equal numbers {pooled(equal).mean():+.1f}." if equal else ".")
    )


def label_accuracy_falls_with_skew(runs: StoredRuns) -> Judgement:
    """7: fall of label accuracy per step from β = 0.1 to 0.05 to the quantity split, per labeller and set."""

    def fall(labeller: Settings, there: Settings) -> pd.Series:
        read = runs.reader("first_labels")
        by_skew = {name: runs.values(read, **{**labeller, **there, **skew}) for name, skew in ALL_SPLITS.items()}
        return -slopes(pd.DataFrame(by_skew).dropna(), range(len(ALL_SPLITS)))

    return _each(runs, LABELLERS, runs.sets, fall)


def wrong_counts_do_no_harm(runs: StoredRuns) -> Judgement:
    """11: accuracy with spoilt uploads minus accuracy with the counts as they are; nothing beyond the margin lost."""
    pairs: dict[str, tuple[Settings, Settings]] = {name: (own, {}) for name, own in UPLOADS.items() if own}
    lost, labels = runs.gaps(accuracy, pairs), runs.gaps(runs.reader("last_labels"), pairs)
    said = ", ".join(f"{name} {values.mean():+.1f}" for name, values in labels.items())
    return judge_parts({name: judge_no_worse(values) for name, values in lost.items()}).with_notes(
        f"Label accuracy of the last phase: {said} points."
    )


def quantity_as_good_as_dirichlet(runs: StoredRuns) -> Judgement:
    """14: FedCoPL's average under the quantity split minus its average under Dirichlet, against the margin."""

    def difference(quantity: Settings, dirichlet: Named) -> pd.Series:
        own = runs.values(accuracy, method="FedCoPL", **quantity)
        other = pooled(runs.in_columns(accuracy, dirichlet, method="FedCoPL"))
        error = math.hypot(image_error(own), image_error(other)) / math.sqrt(2)  # each counts as one of a pair
        return with_image_error(own - other, error)

    splits = (runs.columns(skew) for skew in ("quantity", "β = 0.1", "β = 0.05"))
    of_set = zip(runs.sets, *(columns.items() for columns in splits), strict=True)
    sets = {name: partial(difference, there, dict(others)) for name, (_, there), *others in of_set}
    return judge_equivalence(pooled(runs.cells(sets)))


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
    here, elsewhere = below(accuracy), below(runs.reader("accuracy_global"))
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
        return rank_correlation(labels, client_accuracies(own) - client_accuracies(zero))

    def follow(labeller: str, there: Settings) -> pd.Series:
        own = {"method": "FedOTP", "labeller": labeller, **there}
        return runs.paired(rank_of_clients, own, {"method": "zero-shot", **there})()

    def interact(labeller: str, there: Settings) -> pd.Series:
        def gain(labels: Settings) -> pd.Series:
            personal, shared = ({"method": method, **labels, **there} for method in ("FedOTP", "PromptFL"))
            return runs.gap(accuracy, personal, shared)()

        return minus(gain(TRUE_LABELS), gain({"labeller": labeller}))

    followed = runs.cells({cell: partial(follow, *which) for cell, which in cells.items()})
    interaction = runs.cells({cell: partial(interact, *which) for cell, which in cells.items()})
    return judge_parts(
        {
            "rank correlation over clients of label accuracy and gain": judge_every_case(followed, "rho"),
            "personal minus shared prompts, with true labels minus with the labeller's": judge_every_case(interaction),
        }
    )


def lead_grows_with_skew(runs: StoredRuns) -> Judgement:
    """20: slope of FedCoPL's lead over PromptFL + FPL from an even split to β = 0.05."""

    def growth(there: Settings) -> pd.Series:
        pairs = {
            name: ({**there, **skew}, {**LABELLERS["FPL"], **there, **skew})
            for name, skew in _FROM_EVEN_TO_SKEWED.items()
        }
        leads = runs.gaps(accuracy, pairs, least=3)
        order = [list(_FROM_EVEN_TO_SKEWED).index(name) for name in leads]
        return slopes(columns_of(leads), order)

    cells = runs.cells({name: partial(growth, there) for name, there in runs.sets.items()})
    return judge_every_case(cells, "points a step")


def baselines_fall_with_clients(runs: StoredRuns) -> Judgement:
    """22: the baselines lose per doubling of the clients, and FedCoPL loses less."""
    per_doubling = partial(_slope, runs, "n_clients", (5, 10, 20, 30, 50), np.log2)

    def changes(there: Settings) -> dict[str, pd.Series]:
        rows = ROWS["baselines + FPL and FedCoPL"]
        return runs.cells({name: partial(per_doubling, row, there) for name, row in rows.items()}, least=2)

    places = runs.cells({place: partial(changes, there) for place, there in at_tenth(runs).items()})
    found = {joined(name, place): values for place, rows in places.items() for name, values in rows.items()}
    others = {name: values for name, values in found.items() if not name.startswith("FedCoPL")}
    if len(others) in (0, len(found)):
        raise NotTestedError("needs 3 seeds of FedCoPL and of a baseline with several numbers of clients")
    own = pooled({name: values for name, values in found.items() if name.startswith("FedCoPL")})
    return judge_parts(
        {
            "baselines lose per doubling": judge_every_case({name: -values for name, values in others.items()}),
            "baselines' loss minus FedCoPL's": judge_difference(minus(own, pooled(others))),
        }
    ).with_notes(f"FedCoPL changes by {own.mean():+.1f} points per doubling.")


def low_participation_hurts(runs: StoredRuns) -> Judgement:
    """23: accuracy gained per step of participation from 0.5 to 1, per method."""
    gained = partial(_slope, runs, "participation", JOINING, lambda shares: 10 * shares)
    judge = partial(judge_every_case, unit="points per tenth")
    return _each(runs, ROWS["baselines + FPL and FedCoPL"], at_tenth(runs), gained, judge)


def _slope(
    runs: StoredRuns,
    field: str,
    levels: Sequence[float],
    place: Callable[[np.ndarray], np.ndarray],
    row: Settings,
    there: Settings,
) -> pd.Series:
    """Per seed, the slope of the accuracy over the levels that are there, each at its place."""
    table = runs.sweep(accuracy, field, levels, **{**row, **there})
    return slopes(table, place(table.columns.to_numpy(dtype=float)).tolist())


def methods_follow_the_encoder(runs: StoredRuns) -> Judgement:
    """27: per seed, rank correlation over encoders of zero-shot accuracy and a method's, per method and set."""

    def follows(row: Settings, there: Settings) -> pd.Series:
        zero = runs.sweep(accuracy, "clip", runs.encoders, least=3, **{"method": "zero-shot", **there})
        own = runs.sweep(accuracy, "clip", runs.encoders, least=3, **{**row, **there})
        common = zero.index.intersection(own.index)
        pairs = zip(zero.loc[common].to_numpy().tolist(), own.loc[common].to_numpy().tolist(), strict=True)
        return pd.Series([spearman(first, second) for first, second in pairs], index=common, dtype=float)

    rows = ROWS["baselines + FPL and FedCoPL"]
    judged = _each(runs, rows, at_tenth(runs), follows, partial(judge_every_case, unit="rho"))
    ways = math.factorial(len(runs.encoders))
    if ways * (1 - LEVEL) >= 1:
        return judged
    return replace(judged, verdict="not tested").with_notes(
        f"{len(runs.encoders)} encoders, the same at every seed, come in one order by chance 1 time in {ways}."
    )


def one_half_is_near_the_best(runs: StoredRuns) -> Judgement:
    """42: the level that is best on the other seeds minus 0.5, against the margin."""

    def gained(field: str, there: Settings) -> pd.Series:
        table = runs.sweep(accuracy, field, LEVELS, least=len(LEVELS), **there)
        gap = runs.between(accuracy, field, **there)(table.mean().drop(0.5).idxmax(), 0.5)
        return with_image_error(chosen_on_others(table) - table[0.5], image_error(gap))

    fields = {"τ1": "q_conf", "τ2": "q_ent"}
    return _each(runs, fields, swept_sets(runs), gained, lambda cells: judge_equivalence(pooled(cells)))


def _each(
    runs: StoredRuns,
    rows: Mapping[str, Row],
    places: Named,
    compute: Callable[[Row, Settings], pd.Series],
    judge: Callable[[Mapping[str, pd.Series]], Judgement] = judge_every_case,
) -> Judgement:
    """A part for every row that a claim is about, with a cell for every place; rows without any runs are left out."""
    wanted = {
        name: {joined(name, place): partial(compute, row, there) for place, there in places.items()}
        for name, row in rows.items()
    }
    found = runs.cells({cell: one for own in wanted.values() for cell, one in own.items()})
    parts = {name: {cell: found[cell] for cell in own if cell in found} for name, own in wanted.items()}
    return judge_parts({name: judge(cells) for name, cells in parts.items() if cells})
