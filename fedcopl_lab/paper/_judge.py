"""The judging rules: from differences paired over seeds to a verdict; no files, no drawing."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
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

MARGIN = 2.0
"""Points inside which a claim of "hardly changes" counts as true, fixed before any run was looked at."""


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict with the number behind it.

    Attributes:
        verdict: one of :data:`VERDICTS`.
        difference: mean over seeds; positive is the claimed side, except for an equivalence, which claims 0.
        low: lower end of its 95 % interval.
        high: upper end.
        n_seeds: paired seeds.
        cells: cells the claim was tested in.
        k_of_m: how many of them have the claimed sign.
        unit: of the three numbers.
        note: what else a reader should know, in sentences.
        p: of no difference; 0 where all seeds agree, NaN for an equivalence.
        spread: standard deviation over seeds.
        image_error: standard error that the test images leave, which more seeds do not make smaller.
        shown: the part, or the single cell, whose numbers these are; empty for all.
        parts: by name, where there are several.
    """

    verdict: Verdict
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n_seeds: int = 0
    cells: int = 0
    k_of_m: int = 0
    unit: str = "points"
    note: str = ""
    p: float = math.nan
    spread: float = math.nan
    image_error: float = 0.0
    shown: str = ""
    parts: Mapping[str, "Judgement"] = field(default_factory=dict, repr=False)

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
    """Judge "the claimed winner is ahead" from its differences to the other, paired over seeds.

    Args:
        values: claimed winner minus other, one per seed; not-a-number seeds are left out.
        unit: of the values.

    Returns:
        *holds* when the 95 % interval lies above 0, *does not hold* when it lies below, *within noise* when
        it covers 0, *not tested* below three seeds, or where every seed gives exactly 0.

    >>> judge_difference(pd.Series([1.0, 1.2, 0.9])).verdict
    'holds'
    """
    judged = _measured(values, unit)
    if judged.n_seeds >= LEAST_SEEDS and not values.dropna().any():
        return replace(judged, verdict="not tested", note="Exactly 0 at every seed: a floor, which tests nothing.")
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
    """Judge "there is hardly a difference": does the interval lie inside a margin fixed beforehand?

    Args:
        values: a difference or range, one per seed.
        margin: half width of what counts as no difference, above 0.
        unit: of values and margin.

    Returns:
        *holds* when the interval lies inside [-margin, margin], *does not hold* when it lies wholly outside,
        *within noise* otherwise.

    >>> judge_equivalence(pd.Series([0.1, -0.2, 0.3])).verdict
    'holds'
    """
    return _against_margin(values, margin, unit, floor=-margin)


def judge_no_worse(values: pd.Series, margin: float | int = MARGIN, unit: str = "points") -> Judgement:
    """Judge "nothing is lost": the interval of what is gained lies above -margin; any gain is welcome.

    >>> judge_no_worse(pd.Series([5.0, 6.0, 7.0])).verdict
    'holds'
    """
    return _against_margin(-values, margin, unit, floor=-math.inf, turned=True)


def judge_every_case(cells: Mapping[str, pd.Series], unit: str = "points") -> Judgement:
    """Judge "ahead in every case".

    The pooled difference, each seed's mean over the cells, must hold, and no single cell may lie on the other side
    with a p-value that is still below 5 % times the number of cells: of many cells some do so by chance. Where such a
    cell alone refutes the claim, the numbers are its own.

    Args:
        cells: name -> claimed winner minus other, one per seed; a pooled seed has a value in every cell.
        unit: of the values.

    >>> judge_every_case({"a": pd.Series([1.0, 1.2, 0.9]), "b": pd.Series([2.0, 2.2, 2.1])}).k_of_m
    2
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
    """A sentence with the mean of every case, for a note.

    >>> case_by_case({"a": pd.Series([1.0, 2.0]), "b": pd.Series([-1.0])})
    'Case by case: a +1.5, b -1.0.'
    """
    return f"Case by case: {', '.join(f'{name} {values.mean():+z.{digits}f}' for name, values in cells.items())}."


def pooled(cells: Mapping[str, pd.Series]) -> pd.Series:
    """Each seed's mean over the cells, for seeds that have a value in every cell."""
    _some(cells)
    table = columns_of(cells)
    return with_image_error(table.mean(axis=1), image_error(table))


def judge_parts(parts: Mapping[str, Judgement]) -> Judgement:
    """Judge a claim of several parts, all of which must hold.

    Returns:
        *not tested* if a part is, else *does not hold* if a part does not, else *within noise* if a part is,
        else *holds*. The numbers are those of the first part with that verdict, ``cells`` and ``k_of_m``
        count over all parts, and the note states every part.

    >>> judge_parts({"a": judge_difference(pd.Series([1.0, 1.2, 0.9]))}).note
    'a: +1.0 points [0.7, 1.4] (holds).'
    """
    _some(parts)
    verdicts: tuple[Verdict, ...] = ("not tested", "does not hold", "within noise", "holds")
    verdict = next(word for word in verdicts if any(part.verdict == word for part in parts.values()))
    first = next(part for part in parts.values() if part.verdict == verdict)
    said = [f"{name}: {part.text or 'no number'} ({part.verdict})." for name, part in parts.items()]
    return replace(
        first,
        n_seeds=min(part.n_seeds for part in parts.values()),
        p=max(part.p for part in parts.values()) if verdict == "holds" else first.p,
        shown=next(name for name, part in parts.items() if part is first) if not first.shown else first.shown,
        parts=dict(parts),
        cells=sum(part.cells for part in parts.values()),
        k_of_m=sum(part.k_of_m for part in parts.values()),
        note=" ".join(said + [part.note for part in parts.values() if part.note]),
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

    >>> judge_range(pd.DataFrame({0.4: [70.0, 71.0, 72.0], 0.5: [70.2, 71.1, 72.4]})).verdict
    'holds'
    """
    table = settings.dropna()
    if len(table) < LEAST_SEEDS:
        return _too_few(len(table), unit)
    means = table.mean()
    best, worst = means.idxmax(), means.idxmin()
    judged = judge_equivalence(gap(best, worst) if gap else table[best] - table[worst], margin, unit)
    return judged.with_notes(f"Best at {best}, worst at {worst}, of {table.shape[1]} values.")


def best_of_others(settings: pd.DataFrame, reference: Hashable) -> pd.Series:
    """Per seed, how much the value of a setting that is best on the *other* seeds gains over a reference.

    Choosing on other seeds keeps luck out of it, so it may be negative; NaN for a single seed. ``settings`` has one
    column per value of the setting, one line per seed.

    >>> best_of_others(pd.DataFrame({0.4: [1.0, 1.0], 0.5: [3.0, 0.0]}), 0.4).tolist()
    [0.0, -1.0]
    """
    table = settings.dropna()
    if len(table) < 2:
        return pd.Series(math.nan, index=table.index, dtype=float)
    chosen = [table.drop(index=seed).mean().idxmax() for seed in table.index]
    gained = [table[best][seed] - table[reference][seed] for seed, best in zip(table.index, chosen, strict=True)]
    return pd.Series(gained, index=table.index, dtype=float)


def _against_margin(values: pd.Series, margin: float | int, unit: str, floor: float, turned: bool = False) -> Judgement:
    if not margin > 0:
        raise FedCoPLError(f"margin={margin} is not valid; expected a width above 0 in {unit}")
    judged = replace(_measured(values, unit), p=math.nan)
    if judged.verdict == "not tested":
        return judged
    inside = judged.low >= floor and judged.high <= margin
    outside = judged.high < floor or judged.low > margin
    verdict: Verdict = "holds" if inside else "does not hold" if outside else "within noise"
    judged = replace(judged, verdict=verdict, k_of_m=int(floor <= judged.difference <= margin))
    if turned:
        judged = replace(judged, difference=-judged.difference, low=-judged.high, high=-judged.low)
    return judged.with_notes(f"Margin {margin:g} {unit}.")


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

    Raises:
        FedCoPLError: fewer than two different places, or lengths that differ.

    >>> slope([0, 1, 2], [1.0, 3.0, 5.0])
    2.0
    """
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(places) != len(values) or len(places) < 2 or not np.ptp(places):
        raise FedCoPLError(f"no slope through {len(values)} values at {places.tolist()}; expected two different places")
    centred = places - places.mean()
    return float(centred @ values / (centred @ centred))


def slopes(settings: pd.DataFrame, places: Sequence[float | int]) -> pd.Series:
    """Per seed, the slope over the columns of a table, which stand at ``places``.

    >>> slopes(pd.DataFrame({"a": [1.0], "b": [3.0]}), [0, 1]).tolist()
    [2.0]
    """
    found = [slope(places, line) for line in settings.to_numpy(dtype=float).tolist()]
    centred = np.asarray(places, dtype=float) - np.mean(places)
    error = image_error(settings) / math.sqrt(float(centred @ centred))  # of independent errors in the columns
    return with_image_error(pd.Series(found, index=settings.index, dtype=float), error)


def spearman(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; NaN where either side is constant.

    ``scipy.stats.spearmanr`` gives other last digits, and verdicts are compared to the last one.

    >>> round(spearman([1, 2, 3], [10.0, 20.0, 15.0]), 9)
    0.5
    """
    if len(x) != len(y) or len(x) < 2:
        raise FedCoPLError(f"{len(x)} and {len(y)} values cannot be ranked together; expected two or more pairs")
    first, second = (pd.Series(list(values), dtype=float).rank().to_numpy() for values in (x, y))
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else math.nan


def mean_step(curve: Sequence[float | int]) -> float:
    """Mean absolute change from one value of a curve to the next; NaN for fewer than two."""
    return float(np.abs(np.diff(np.asarray(curve, dtype=float))).mean()) if len(curve) > 1 else math.nan
