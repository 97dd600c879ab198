"""Claims 22 to 27: more clients, fewer that join, other image encoders."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_every_case, judge_parts, pooled
from fedcopl_lab.paper._trends import mean_step, slopes, spearman
from fedcopl_lab.paper.items._columns import FEDCOPL, ZERO_SHOT
from fedcopl_lab.paper.statistics._reads import accuracy, accuracy_curve, baselines
from fedcopl_lab.paper.statistics._registry import statistic

_CLIENTS = (5, 10, 20, 30, 50)
_JOINING = (0.5, 0.8, 1.0)
_ROWS = {**baselines("FPL"), **FEDCOPL}


@statistic
def baselines_fall_with_clients(runs: Evidence) -> Judged:
    """22: the baselines lose per doubling of the clients, and FedCoPL loses less."""

    def per_doubling(row: Settings, there: Settings) -> pd.Series:
        table = runs.sweep(accuracy, "n_clients", _CLIENTS, **{**row, **there})
        return slopes(table, np.log2(table.columns.to_numpy(dtype=float)).tolist())

    found: dict[str, pd.Series] = {}
    for place, there in _at_tenth(runs).items():
        rows = runs.cells({name: partial(per_doubling, row, there) for name, row in _ROWS.items()}, least=2)
        found |= {f"{name}{place}": values for name, values in rows.items()}
    others = {name: values for name, values in found.items() if not name.startswith("FedCoPL")}
    own = pooled({name: values for name, values in found.items() if name.startswith("FedCoPL")})
    return judge_parts(
        {
            "baselines lose per doubling": judge_every_case({name: -values for name, values in others.items()}),
            "baselines' loss minus FedCoPL's": judge_difference(own - pooled(others)),
        }
    ).noting(f"FedCoPL changes by {own.mean():+.1f} points per doubling.")


@statistic
def low_participation_hurts(runs: Evidence) -> Judged:
    """23: accuracy gained per step of participation from 0.5 to 1, per method."""

    def gained(row: Settings, there: Settings) -> pd.Series:
        table = runs.sweep(accuracy, "participation", _JOINING, **{**row, **there})
        return slopes(table, (10 * table.columns.to_numpy(dtype=float)).tolist())

    return judge_every_case(_in_every_row(runs, gained), "points per tenth")


@statistic
def low_participation_unsteadies(runs: Evidence) -> Judged:
    """24: mean change from round to round, with half of the clients minus with all, per method."""

    def change(rows: Rows) -> float:
        return mean_step(accuracy_curve(rows))

    def more(row: Settings, there: Settings) -> pd.Series:
        half, full = ({**row, **there, "participation": rate} for rate in (_JOINING[0], _JOINING[-1]))
        return runs.gap(change, half, full)()

    return judge_every_case(_in_every_row(runs, more))


@statistic
def best_at_every_participation(runs: Evidence) -> Judged:
    """25: FedCoPL minus the best other at each rate."""
    leads = {
        f"R = {rate}{place}": runs.lead(
            accuracy, FEDCOPL["FedCoPL"], baselines("FPL"), **{**there, "participation": rate}
        )
        for rate in _JOINING
        for place, there in _at_tenth(runs).items()
    }
    return judge_every_case(runs.cells(leads, least=2))


@statistic
def best_with_other_encoders(runs: Evidence) -> Judged:
    """26: FedCoPL minus the best other row with the ViT of smaller patches and with the ResNet."""
    others = {**ZERO_SHOT, **baselines("FPL")}
    leads = {
        f"{clip}{place}": runs.lead(accuracy, FEDCOPL["FedCoPL"], others, **{**there, "clip": clip})
        for clip in runs.encoders[1:]
        for place, there in _at_tenth(runs).items()
    }
    return judge_every_case(runs.cells(leads))


@statistic
def methods_follow_the_encoder(runs: Evidence) -> Judged:
    """27: per seed, rank correlation over encoders of zero-shot accuracy and a method's, per method and set."""

    def follows(row: Settings, there: Settings) -> pd.Series:
        zero = runs.sweep(accuracy, "clip", runs.encoders, least=3, **{"method": "zero-shot", **there})
        own = runs.sweep(accuracy, "clip", runs.encoders, least=3, **{**row, **there})
        common = zero.index.intersection(own.index)
        pairs = zip(zero.loc[common].to_numpy().tolist(), own.loc[common].to_numpy().tolist(), strict=True)
        return pd.Series([spearman(first, second) for first, second in pairs], index=common, dtype=float)

    return judge_every_case(_in_every_row(runs, follows), "rho")


def _at_tenth(runs: Evidence) -> dict[str, Settings]:
    """The data sets at β = 0.1, under names that follow a row's name."""
    alone = len(runs.sets) == 1
    return {"" if alone else f", {name}": {**there, "beta": 0.1} for name, there in runs.sets.items()}


def _in_every_row(runs: Evidence, compute: Callable[[Settings, Settings], pd.Series]) -> dict[str, pd.Series]:
    return runs.cells(
        {
            f"{name}{place}": partial(compute, row, there)
            for name, row in _ROWS.items()
            for place, there in _at_tenth(runs).items()
        }
    )
