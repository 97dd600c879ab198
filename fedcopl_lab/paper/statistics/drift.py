"""Claims 35 to 38: how far the clients' prompts move apart."""

import math
from functools import partial

import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Rows
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_every_case, judge_parts, pooled
from fedcopl_lab.paper.statistics._reads import as_floats, mean
from fedcopl_lab.paper.statistics._registry import statistic

_REFERENCES = {"from the client's own prompt": "", "from the averaged prompt": "_from_mean"}


@statistic
def text_drifts_more_in_size(runs: Evidence) -> Judged:
    """35: drift diversity, text minus visual, mean over rounds, for each reference of the text prompt."""
    text, visual = (runs.values(partial(_mean_of, f"move_{part}")) for part in ("text", "visual"))
    return judge_every_case(_text_minus_visual(runs, "drift"), "diversity").noting(
        f"Rounds in which text drifts more: {_share_of_rounds(runs, 'drift'):.0f} %.",
        f"Mean length of an update: text {text.mean():.3g}, visual {visual.mean():.3g}.",
    )


@statistic
def text_drifts_more_in_direction(runs: Evidence) -> Judged:
    """36: mean pairwise cosine distance of the updates, text minus visual, mean over rounds."""
    return judge_every_case(_text_minus_visual(runs, "cosine"), "distance").noting(
        f"Rounds in which text drifts more: {_share_of_rounds(runs, 'cosine'):.0f} %."
    )


@statistic
def text_drifts_more_everywhere(runs: Evidence) -> Judged:
    """37: 35 and 36 on every set, in the first and in the last quarter of the rounds."""

    def quarter(measure: str, last: bool, rows: Rows) -> float:
        length = max(len(rows) // 4, 1)
        return _difference(measure, "", rows[-length:] if last else rows[:length])

    def cells(measure: str) -> dict[str, pd.Series]:
        found = {}
        for word, last in (("first quarter", False), ("last quarter", True)):
            for name, there in runs.panels().items():
                found[f"{name}, {word}"] = runs.later(partial(quarter, measure, last), **there)
        return runs.cells(found)

    return judge_parts(
        {
            "in size": judge_every_case(cells("drift"), "diversity"),
            "in direction": judge_every_case(cells("cosine"), "distance"),
        }
    )


@statistic
def visual_prompts_are_similar(runs: Evidence) -> Judged:
    """38: where drift diversity lies between its floor 1/K and the orthogonal 1: below the middle?"""

    def place(part: str, rows: Rows) -> float:
        found = [
            (row[f"drift_{part}"] - 1 / len(row["participants"])) / (1 - 1 / len(row["participants"]))
            for row in rows
            if row[f"drift_{part}"] is not None and len(row["participants"]) > 1
        ]
        return mean(found)

    visual = pooled(runs.in_columns(partial(place, "visual"), runs.panels()))
    text = pooled(runs.in_columns(partial(place, "text"), runs.panels()))
    return judge_difference(0.5 - visual, "of the way").noting(
        f"Visual updates lie {visual.mean():.2f} of the way from coinciding (0) to orthogonal (1), text updates "
        f"{text.mean():.2f}; random vectors of any shape lie at about 1."
    )


def _text_minus_visual(runs: Evidence, measure: str) -> dict[str, pd.Series]:
    wanted = {}
    for name, there in runs.panels().items():
        for reference, ending in _REFERENCES.items():
            wanted[f"{reference}, {name}"] = runs.later(partial(_difference, measure, ending), **there)
        both = {**there, "aggregate": "both"}
        wanted[f"both prompts averaged, {name}"] = runs.later(partial(_difference, measure, ""), **both)
    return runs.cells(wanted)


def _difference(measure: str, ending: str, rows: Rows) -> float:
    return mean(_per_round(rows, measure, ending))


def _per_round(rows: Rows, measure: str, ending: str = "") -> list[float]:
    pairs = [(row[f"{measure}_text{ending}"], row[f"{measure}_visual"]) for row in rows]
    return [math.nan if None in pair else pair[0] - pair[1] for pair in pairs]


def _share_of_rounds(runs: Evidence, measure: str) -> float:
    def read(rows: Rows) -> float:
        found = [value for value in _per_round(rows, measure) if not math.isnan(value)]
        return 100 * mean([float(value > 0) for value in found])

    return float(pooled(runs.in_columns(read, runs.panels())).mean())


def _mean_of(name: str, rows: Rows) -> float:
    return mean(as_floats([row[name] for row in rows]))
