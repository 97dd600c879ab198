"""Claims 39 to 42: how much the levels of the two filters matter."""

from functools import partial

import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Settings
from fedcopl_lab.paper._judge import Judged, best_of_others, judge_equivalence, judge_parts, judge_range, pooled
from fedcopl_lab.paper.statistics._reads import accuracy
from fedcopl_lab.paper.statistics._registry import statistic

_MIDDLE = (0.44, 0.46, 0.48, 0.5, 0.52, 0.54, 0.56)
_GRID = (0.1, 0.2, 0.3, 0.4, *_MIDDLE, 0.6, 0.7, 0.8, 0.9)
_FIELDS = {"τ1": "q_conf", "τ2": "q_ent"}


@statistic
def tau1_hardly_matters(runs: Evidence) -> Judged:
    """39: range of the means over τ1 from 0.44 to 0.56, against the margin."""
    return _ranges(runs, {"τ1": "q_conf"}, _MIDDLE)


@statistic
def tau2_hardly_matters(runs: Evidence) -> Judged:
    """40: range of the means over τ2 from 0.44 to 0.56, against the margin."""
    return _ranges(runs, {"τ2": "q_ent"}, _MIDDLE)


@statistic
def thresholds_hardly_matter_anywhere(runs: Evidence) -> Judged:
    """41: range over the full grid from 0.1 to 0.9, for either level."""
    return _ranges(runs, _FIELDS, _GRID)


@statistic
def one_half_is_near_the_best(runs: Evidence) -> Judged:
    """42: the level that is best on the other seeds minus 0.5, against the margin."""

    def gained(field: str, there: Settings) -> pd.Series:
        return best_of_others(_table(runs, field, _GRID, there), 0.5)

    cells = runs.cells(
        {
            f"{name}{place}": partial(gained, field, there)
            for name, field in _FIELDS.items()
            for place, there in _places(runs).items()
        }
    )
    by_level = {name: {cell: v for cell, v in cells.items() if cell.startswith(name)} for name in _FIELDS}
    return judge_parts({name: judge_equivalence(pooled(own)) for name, own in by_level.items() if own})


def _ranges(runs: Evidence, fields: dict[str, str], levels: tuple[float, ...]) -> Judged:
    """One part for each level and data set; a single part stands for itself."""
    parts = {
        f"{name}{place}": judge_range(_table(runs, field, levels, there))
        for name, field in fields.items()
        for place, there in _places(runs).items()
    }
    return judge_parts(parts) if len(parts) > 1 else next(iter(parts.values()))


def _table(runs: Evidence, field: str, levels: tuple[float, ...], there: Settings) -> pd.DataFrame:
    return runs.sweep(accuracy, field, levels, least=len(levels), **there)


def _places(runs: Evidence) -> dict[str, Settings]:
    """The paper's four swept sets at β = 0.1, or the profile's one."""
    swept = {name: there for name, there in runs.sets.items() if name not in ("CUB", "UCF101")}
    return {"" if len(swept) == 1 else f", {name}": {**there, "beta": 0.1} for name, there in swept.items()}
