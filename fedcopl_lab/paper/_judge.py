"""The judging rules: from differences paired over seeds to a verdict; no files, no drawing."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper._intervals import LEVEL, columns_of, image_error, p_value, t_interval, with_image_error

Verdict = Literal["holds", "does not hold", "within noise", "regime not reached", "not tested"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""In the order in which they are shown; *regime not reached* has numbers, but a gate says that they settle nothing."""

VERDICT_COLUMNS = ["number", "claim", "verdict", "statistic", "n_seeds", "cells", "k_of_m", "difference", "low", "high",
                   "unit", "runs", "note", "p", "spread", "image_error", "paper_effect", "excludes_paper"]  # fmt: skip

LEAST_SEEDS = 3
"""With fewer paired seeds nothing is judged."""

_ZERO = 1e-12  # equal sums in another order differ by less

MARGIN = 2.0
"""Points inside which a claim of "hardly changes" counts as true, fixed before any run was looked at."""


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict with the number behind it."""

    verdict: Verdict
    difference: float = math.nan  # mean over seeds; positive is the claimed side, an equivalence claims 0
    low: float = math.nan  # ends of its 95 % interval
    high: float = math.nan
    n_seeds: int = 0  # paired seeds
    cells: int = 0  # cells the claim was tested in
    k_of_m: int = 0  # how many of them have the claimed sign
    unit: str = "points"  # of the three numbers
    note: str = ""  # what else a reader should know, in sentences
    p: float = math.nan  # of no difference; 0 where all seeds agree, NaN for an equivalence
    spread: float = math.nan  # standard deviation over seeds
    image_error: float = 0.0  # standard error that the test images leave, which more seeds do not make smaller
    shown: str = ""  # the part, the single cell, or both, whose numbers these are; empty for all
    parts: Mapping[str, "Judgement"] = field(default_factory=dict, repr=False)  # by name, where there are several

    @property
    def text(self) -> str:
        """Such as ``+1.9 points [0.4, 3.4], 6 of 8 cells``; empty where nothing was tested."""
        if math.isnan(self.difference):
            return ""
        widest = max(abs(value) for value in (self.difference, self.low, self.high) if math.isfinite(value))
        leading = -math.floor(math.log10(widest)) if widest else 0  # decimals down to the first that is not 0
        digits = 1 if self.unit in ("points", "%") else max(2, leading + 1)
        shown = f"{self.difference:+z.{digits}f} {self.unit} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"
        return shown + (f", {self.k_of_m} of {self.cells} cells" if self.cells > 1 else "")

    def with_notes(self, *sentences: str) -> "Judgement":
        """The same with sentences added to its note; empty ones are left out."""
        return replace(self, note=" ".join(filter(None, (self.note, *sentences))))


def judge_difference(values: pd.Series, unit: str = "points") -> Judgement:
    """Judge "the claimed winner is ahead" from claimed winner minus other, one per seed; NaN is left out.

    *Holds* when the 95 % interval lies above 0, *does not hold* when it lies below, *within noise* when it covers 0,
    *not tested* below three seeds, or where every seed gives 0.
    """
    judged = _measured(values, unit)
    if judged.n_seeds >= LEAST_SEEDS and not (values.dropna().abs() > _ZERO).any():
        return replace(judged, verdict="not tested", note="Exactly 0 at every seed: nothing to test.")
    return judged


def _measured(values: pd.Series, unit: str) -> Judgement:
    seeds = values.dropna()
    if len(seeds) < LEAST_SEEDS:
        return _too_few(len(seeds), unit)
    mean, low, high = t_interval(seeds)
    verdict: Verdict = "holds" if low > 0 else "does not hold" if high < 0 else "within noise"
    return Judgement(
        verdict, mean, low, high, len(seeds), cells=1, k_of_m=int(mean > 0), unit=unit,
        p=p_value(mean, low, high, len(seeds)), spread=float(seeds.std()), image_error=image_error(values),
    )  # fmt: skip


def judge_equivalence(values: pd.Series, margin: float | int = MARGIN, unit: str = "points") -> Judgement:
    """Judge "there is hardly a difference" by a margin above 0, fixed beforehand.

    *Holds* when the interval lies inside [-margin, margin], *does not hold* when it lies wholly outside.
    """
    return _between(-margin, margin, values, margin, unit)


def judge_no_worse(values: pd.Series, margin: float | int = MARGIN, unit: str = "points") -> Judgement:
    """Judge "nothing is lost": the interval of what is gained lies above -margin; any gain is welcome."""
    return _between(-margin, math.inf, values, margin, unit)


def judge_every_case(cells: Mapping[str, pd.Series], unit: str = "points") -> Judgement:
    """Judge "ahead in every case".

    The pooled difference, each seed's mean over the cells, must hold, and no single cell may lie on the other side
    with a p-value that is below 5 % even times the number of cells: of many cells some do so by chance. Where such a
    cell alone refutes the claim, the numbers are its own.
    """
    _some(cells)
    single = {name: _measured(values, unit) for name, values in cells.items()}
    together = judge_difference(pooled(cells), unit)
    opposite = {name: one for name, one in single.items() if one.high < 0 and one.p * len(cells) <= 1 - LEVEL}
    shown, said = together, ""
    if opposite and len(cells) > 1 and together.verdict != "not tested":
        said = f"Significantly the other way: {', '.join(opposite)}."
        if together.verdict != "does not hold":
            worst = min(opposite, key=lambda name: opposite[name].p)
            shown = replace(opposite[worst], p=min(opposite[worst].p * len(cells), 1.0), shown=worst,
                            parts={"": together})  # fmt: skip
            said += f" The numbers are those of {worst}; the mean over all cells is {together.text}."
    ahead = sum(int(values.mean() > 0) for values in cells.values())
    return replace(shown, cells=len(cells), k_of_m=ahead).with_notes(said)


def case_by_case(cells: Mapping[str, pd.Series], digits: int = 1) -> str:
    """A sentence for a note, such as ``Case by case: a +1.5, b -1.0.``"""
    return f"Case by case: {', '.join(f'{name} {values.mean():+z.{digits}f}' for name, values in cells.items())}."


def pooled(cells: Mapping[str, pd.Series]) -> pd.Series:
    """Each seed's mean over the cells, for seeds that have a value in every cell."""
    _some(cells)
    table = columns_of(cells)
    return with_image_error(table.mean(axis=1), image_error(table))


def judge_parts(parts: Mapping[str, Judgement]) -> Judgement:
    """Judge a claim of several parts, all of which must hold.

    *Not tested* if a part is, else *does not hold* if a part does not, else *within noise* if a part is, else *holds*.
    The numbers are those of the first part with that verdict, ``cells`` and ``k_of_m`` count over all parts, and the
    note states every part, each with its own note.
    """
    _some(parts)
    verdicts: tuple[Verdict, ...] = ("not tested", "does not hold", "within noise", "holds")
    verdict = next(word for word in verdicts if any(part.verdict == word for part in parts.values()))
    first = next(part for part in parts.values() if part.verdict == verdict)
    said = [f"{name}: {part.text or 'no number'} ({part.verdict}). {part.note}" for name, part in parts.items()]
    tested = [part.p for part in parts.values() if not np.isnan(part.p)]
    return replace(
        first,
        n_seeds=min(part.n_seeds for part in parts.values()),
        p=max(tested) if tested and verdict == "holds" else first.p,
        shown=", ".join(filter(None, (next(name for name, part in parts.items() if part is first), first.shown))),
        parts=dict(parts),
        cells=sum(part.cells for part in parts.values()),
        k_of_m=sum(part.k_of_m for part in parts.values()),
        note=" ".join(map(str.rstrip, said)),
    )


def judge_range(
    settings: pd.DataFrame,
    margin: float | int = MARGIN,
    unit: str = "points",
    gap: Callable[[Any, Any], pd.Series] | None = None,
) -> Judgement:
    """Judge "the setting hardly matters": the best setting's mean minus the worst's, against a margin.

    Choosing best and worst afterwards widens the range, so the verdict errs against the claim. ``settings`` has one
    column per value of the setting, one line per seed; ``gap`` gives the difference of two of them with what test
    images add to it.
    """
    table = settings.dropna()
    if len(table) < LEAST_SEEDS:
        return _too_few(len(table), unit)
    means = table.mean()
    best, worst = means.idxmax(), means.idxmin()
    apart = gap(best, worst).reindex(table.index) if gap else table[best] - table[worst]
    judged = judge_equivalence(apart, margin, unit)
    ends = [f"{level:.4g}" if isinstance(level, float) else str(level) for level in (best, worst)]
    return judged.with_notes(f"Best at {ends[0]}, worst at {ends[1]}, of {table.shape[1]} values.")


def chosen_on_others(settings: pd.DataFrame) -> pd.Series:
    """Per seed, the value of the column that is best on the *other* seeds, which keeps luck out of the choice.

    NaN for a single seed.
    """
    table = settings.dropna()
    if len(table) < 2:
        return pd.Series(math.nan, index=table.index, dtype=float)
    chosen = [table[table.drop(index=seed).mean().idxmax()][seed] for seed in table.index]
    return pd.Series(chosen, index=table.index, dtype=float)


def _between(least: float, most: float, values: pd.Series, margin: float | int, unit: str) -> Judgement:
    if not margin > 0:
        raise FedCoPLError(f"margin={margin} is not valid; expected a width above 0 in {unit}")
    judged = replace(_measured(values, unit), p=math.nan)
    if judged.verdict == "not tested":
        return judged
    inside = judged.low >= least and judged.high <= most
    outside = judged.high < least or judged.low > most
    verdict: Verdict = "holds" if inside else "does not hold" if outside else "within noise"
    k_of_m = int(least <= judged.difference <= most)
    return replace(judged, verdict=verdict, k_of_m=k_of_m).with_notes(f"Margin {margin:g} {unit}.")


def _too_few(n_seeds: int, unit: str) -> Judgement:
    return Judgement(
        "not tested", n_seeds=n_seeds, unit=unit, note=f"{n_seeds} paired seed(s); {LEAST_SEEDS} are needed."
    )


def _some(cells: Mapping[str, object]) -> None:
    if not cells:
        raise FedCoPLError("there is no cell to judge; pass at least one")


def slope(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Least-squares slope of y over x; NaN where y has a gap.

    ``numpy.polyfit`` gives other last digits, and verdicts are compared to the last one.
    """
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(places) != len(values) or len(places) < 2 or not np.ptp(places):
        raise FedCoPLError(f"no slope through {len(values)} values at {places.tolist()}; expected two different places")
    centred = places - places.mean()
    return float(centred @ values / (centred @ centred))


def slopes(settings: pd.DataFrame, places: Sequence[float | int]) -> pd.Series:
    """Per seed, the slope over the columns of a table, which stand at ``places``."""
    found = [slope(places, line) for line in settings.to_numpy(dtype=float).tolist()]
    centred = np.asarray(places, dtype=float) - np.mean(places)
    error = image_error(settings) / math.sqrt(float(centred @ centred))  # of independent errors in the columns
    return with_image_error(pd.Series(found, index=settings.index, dtype=float), error)


def spearman(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; NaN where either side is constant.

    ``scipy.stats.spearmanr`` gives other last digits, and verdicts are compared to the last one.
    """
    if len(x) != len(y) or len(x) < 2:
        raise FedCoPLError(f"{len(x)} and {len(y)} values cannot be ranked together; expected two or more pairs")
    first, second = (pd.Series(list(values), dtype=float).rank().to_numpy() for values in (x, y))
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else math.nan


def mean_step(curve: Sequence[float | int]) -> float:
    """Mean absolute change from one value of a curve to the next; NaN for fewer than two."""
    return float(np.abs(np.diff(np.asarray(curve, dtype=float))).mean()) if len(curve) > 1 else math.nan
