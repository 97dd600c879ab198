"""Claims of FedCoPL's paper about prompts and uploads: how far prompts move apart, what is sent and what it tells."""

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from fedcopl_lab.paper._evidence import Named, Rows, Settings
from fedcopl_lab.paper._judge import Judgement, case_by_case, judge_difference, judge_every_case, judge_parts, pooled
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items._fedcopl_runs import EPSILONS
from fedcopl_lab.paper.statistics._readers import accuracy, as_floats, mean

_NOISE: Named = {
    f"{kind} noise, ε = {epsilon:g}": {"count_noise": kind, "epsilon": epsilon}
    for kind in ("laplace", "gaussian")
    for epsilon in EPSILONS
}
_REFERENCES: Mapping[str, tuple[str, Settings]] = {
    "from the client's own prompt": ("", {}),
    "from the averaged prompt": ("_from_mean", {}),
    "both prompts averaged": ("", {"aggregate": "both"}),
}
"""How far text prompts move is counted from one of these; the runs' settings follow."""


def text_drifts_more_in_size(runs: StoredRuns) -> Judgement:
    """35: log of drift diversity, text minus visual, mean over rounds, for each reference of the text prompt."""
    text, visual = (runs.values(partial(_mean_of, f"move_{part}")) for part in ("text", "visual"))
    return _for_every_reference(runs, "drift", "log ratio").with_notes(
        f"Rounds in which text drifts more: {_share_of_rounds(runs, 'drift'):.0f} %.",
        f"Mean length of an update at β = 0.1: text {text.mean():.3g}, visual {visual.mean():.3g}.",
        _by_the_gradient(runs),
    )


def text_drifts_more_in_direction(runs: StoredRuns) -> Judgement:
    """36: mean pairwise cosine distance of the updates, text minus visual, mean over rounds."""
    return _for_every_reference(runs, "cosine", "distance").with_notes(
        f"Rounds in which text drifts more: {_share_of_rounds(runs, 'cosine'):.0f} %."
    )


def text_drifts_more_everywhere(runs: StoredRuns) -> Judgement:
    """37: 35 and 36 on every set, in the first and in the last quarter of the rounds."""

    def quarter(measure: str, last: bool, rows: Rows) -> float:
        length = max(len(rows) // 4, 1)
        return mean(_per_round(rows[-length:] if last else rows[:length], measure))

    def cells(measure: str) -> dict[str, pd.Series]:
        found = {}
        for word, last in (("first quarter", False), ("last quarter", True)):
            for name, there in runs.panels().items():
                found[f"{name}, {word}"] = partial(runs.values, partial(quarter, measure, last), **there)
        return runs.cells(found)

    return judge_parts(
        {
            "in size": judge_every_case(cells("drift"), "log ratio"),
            "in direction": judge_every_case(cells("cosine"), "distance"),
        }
    )


def visual_prompts_are_similar(runs: StoredRuns) -> Judgement:
    """38: where drift diversity lies between its floor 1/K and the orthogonal 1, median over rounds: below half?"""

    def place(part: str, rows: Rows) -> float:
        found = [
            (row[f"drift_{part}"] - 1 / len(row["participants"])) / (1 - 1 / len(row["participants"]))
            for row in rows
            if row[f"drift_{part}"] is not None and len(row["participants"]) > 1
        ]
        return float(np.median(found)) if found else math.nan

    visual, text = (pooled(runs.in_columns(partial(place, part), runs.panels())) for part in ("visual", "text"))
    return judge_difference(0.5 - visual, "of the way").with_notes(
        f"Visual updates lie {visual.mean():.2f} of the way from coinciding (0) to orthogonal (1), text updates "
        f"{text.mean():.2f}; random vectors of any shape lie at about 1."
    )


def _for_every_reference(runs: StoredRuns, measure: str, unit: str) -> Judgement:
    def difference(ending: str, rows: Rows) -> float:
        return mean(_per_round(rows, measure, ending))

    wanted = {
        reference: {f"{reference}, {name}": partial(runs.values, partial(difference, ending), **there, **own)
                    for name, there in runs.panels().items()}
        for reference, (ending, own) in _REFERENCES.items()
    }  # fmt: skip
    found = runs.cells({reference: partial(runs.cells, cells, 1) for reference, cells in wanted.items()}, 1)
    told = {name: values for cells in found.values() for name, values in cells.items()}
    parts = {reference: judge_every_case(cells, unit) for reference, cells in found.items()}
    return judge_parts(parts).with_notes(case_by_case(told, 2))


def _per_round(rows: Rows, measure: str, ending: str = "", visual: str = "visual") -> list[float]:
    """Text minus visual in every round; of logs for drift diversity, a ratio whose denominator may be next to 0."""
    pairs = [(row.get(f"{measure}_text{ending}"), row.get(f"{measure}_{visual}")) for row in rows]
    scale = _log if measure == "drift" else float
    return [math.nan if None in pair else scale(pair[0]) - scale(pair[1]) for pair in pairs]


def _log(value: float) -> float:
    return math.log(value) if value else math.nan


def _by_the_gradient(runs: StoredRuns) -> str:
    """What a drift without weight decay's part of the way would be; empty where runs did not log it."""

    def share(part: str, rows: Rows) -> float:
        decay, gradient = (
            mean(as_floats([row.get(f"move_{part}_{by}") for row in rows])) for by in ("decay", "gradient")
        )
        return 100 * decay / (decay + gradient)

    def difference(rows: Rows) -> float:
        return mean(_per_round(rows, "drift", "_gradient", "visual_gradient"))

    text, visual = (runs.values(partial(share, part)) for part in ("text", "visual"))
    if text.isna().all():
        return ""
    return (
        f"There weight decay makes {text.mean():.0f} % of the text prompts' way, {visual.mean():.0f} % of the visual "
        f"ones'; by the gradient's part alone text minus visual is {runs.values(difference).mean():+.2f}."
    )


def _share_of_rounds(runs: StoredRuns, measure: str) -> float:
    def read(rows: Rows) -> float:
        found = [value for value in _per_round(rows, measure) if not math.isnan(value)]
        return 100 * mean([float(value > 0) for value in found])

    return float(pooled(runs.in_columns(read, runs.panels())).mean())


def _mean_of(name: str, rows: Rows) -> float:
    return mean(as_floats([row[name] for row in rows]))


def less_communication_than_both_prompts(runs: StoredRuns) -> Judgement:
    """43: bytes sent up in a run, share saved against sharing both prompts."""

    def sent(rows: Rows) -> float:
        return float(sum(row["bytes_up"] for row in rows))

    def saved(own: Rows, other: Rows) -> float:
        return 100 * (1 - sent(own) / sent(other))

    text = runs.cells({"text": runs.paired(lambda own, other: sent(own) / sent(other), {}, {"aggregate": "text"})}, 0)
    return judge_difference(runs.paired(saved, {}, {"aggregate": "both"})(), "%").with_notes(
        f"{text['text'].mean():.1f} times what sharing the text prompt alone sends." if text else "",
        "" if runs.values(sent).nunique() == 1 else "Seeds differ only in how often counts are sent.",
    )


def uploads_tell_less_than_exact_counts(runs: StoredRuns) -> Judgement:
    """45: error of the class shares read off filtered counts; exact counts have none."""
    upload_error = runs.reader("upload_error")
    noisy = runs.in_columns(upload_error, _NOISE, least=0)
    cost = runs.gaps(accuracy, {name: (own, {}) for name, own in _NOISE.items()}, least=0)
    said = "; ".join(
        f"{name}: error {noisy[name].mean():.0f}, accuracy {cost[name].mean():+.1f}" for name in noisy if name in cost
    )
    return judge_every_case(runs.in_columns(upload_error, runs.columns())).with_notes(said + "." if said else "")
