"""What the papers claim in words, and whether stored runs confirm it."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import did_you_mean, profile_name
from fedcopl_lab.paper._evidence import Evidence, NotTestedError
from fedcopl_lab.paper._judge import Judged
from fedcopl_lab.paper.items import SEEDS
from fedcopl_lab.paper.statistics import STATISTICS
from fedcopl_lab.store import Store

COLUMNS = [
    "number", "claim", "verdict", "statistic", "n_seeds", "cells", "k_of_m", "difference", "low", "high", "unit",
    "runs", "note",
]  # fmt: skip
_NAMED_AT_MOST = 6


def judged_claims(paper: str | None = None) -> pd.DataFrame:
    """Every claim of the papers that runs can settle, in our words, with how it is judged.

    Args:
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.

    Returns:
        Columns number, paper, group, source (where it stands), claim, kind (``"difference"``, ``"every_case"``,
        ``"equivalence"`` or ``"trend"``), claimed (what must be so), margin (points, for equivalence), statistic
        (the function's name; empty where there is none yet), needs (runs), printed (what the paper's own tables give).

    Raises:
        FedCoPLError: an unknown paper.

    >>> judged_claims("fedcopl")["number"].tolist()[-1]
    45

    Shown in notebook ``00_quickstart``.
    """
    table = _table()
    if paper is not None:
        known = list(dict.fromkeys(table["paper"]))
        if paper not in known:
            raise FedCoPLError(f"unknown paper {paper!r}{did_you_mean(paper, known)}; known: {', '.join(known)}")
        table = table[table["paper"] == paper]
    return table.reset_index(drop=True).copy()


def verdicts(
    profile: str | None = None,
    store: Store | None = None,
    seeds: Sequence[int] = SEEDS,
    paper: str | None = None,
    numbers: Sequence[int] | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """Judge every claim on the runs that are stored; nothing is computed or downloaded.

    A claim asks for runs by their settings at each seed. Which cells and rows were not stored is said in its
    note; with fewer than three seeds, or without what it is about, it is *not tested*.

    Args:
        profile: whose runs; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        store: where they are; None takes the default store.
        seeds: which seeds to look for.
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.
        numbers: the claims of these numbers only; None takes all.
        changes: settings that all runs have, such as ``device``.

    Returns:
        One line per claim: number, claim, verdict (``"holds"``, ``"does not hold"``, ``"within noise"``, ``"not
        tested"``), statistic (in words), n_seeds, cells, k_of_m (cells with the claimed sign), difference, low, high
        (95 % t-interval, in ``unit``), unit, runs (keys), note.

    Raises:
        FedCoPLError: an unknown profile, paper or number.

    >>> verdicts("smoke", numbers=[12, 13])[["claim", "verdict", "statistic"]]

    Shown in notebook ``00_quickstart``.
    """
    name, store = profile_name(profile), store or Store()
    cache: dict[Hashable, Any] = {}
    lines = []
    wanted = judged_claims(paper)
    if numbers is not None:
        wanted = wanted[wanted["number"].isin(_known(numbers, wanted))]
    for row in wanted.to_dict("records"):
        runs = Evidence(name, store, seeds, cache, changes)
        judged = _judge(str(row["statistic"]), runs)
        keys = "" if judged.verdict == "not tested" else " ".join(sorted(runs.keys))
        lines.append(
            {
                "number": row["number"], "claim": row["claim"], "verdict": judged.verdict, "statistic": judged.text,
                "n_seeds": judged.n_seeds, "cells": judged.cells, "k_of_m": judged.k_of_m,
                "difference": judged.difference, "low": judged.low, "high": judged.high, "unit": judged.unit,
                "runs": keys, "note": judged.note,
            }
        )  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def same_verdicts(fresh: pd.DataFrame, committed: pd.DataFrame) -> pd.DataFrame:
    """Claims judged both times on as many seeds and cells, side by side.

    Returns:
        Columns number, claim, fresh, committed (verdicts), difference_fresh, difference_committed, same.

    >>> same_verdicts(verdicts("smoke"), measured_claims("smoke"))["same"].all()
    """
    both = fresh.merge(committed, on=["number", "claim", "n_seeds", "cells"], suffixes=("_fresh", "_committed"))
    both = both[(both["verdict_fresh"] != "not tested") & (both["verdict_committed"] != "not tested")]
    return pd.DataFrame(
        {
            "number": both["number"],
            "claim": both["claim"],
            "fresh": both["verdict_fresh"],
            "committed": both["verdict_committed"],
            "difference_fresh": both["difference_fresh"],
            "difference_committed": both["difference_committed"],
            "same": both["verdict_fresh"] == both["verdict_committed"],
        }
    ).reset_index(drop=True)


def _known(numbers: Sequence[int], table: pd.DataFrame) -> list[int]:
    unknown = sorted(set(numbers) - set(table["number"]))
    if unknown:
        first, last = table["number"].iloc[[0, -1]]
        raise FedCoPLError(f"there is no claim {', '.join(map(str, unknown))}; expected {first} to {last}")
    return list(numbers)


def _judge(statistic: str, runs: Evidence) -> Judged:
    if statistic not in STATISTICS:
        return Judged("not tested", note="No statistic of this version settles it.")
    try:
        judged = STATISTICS[statistic](runs)
    except NotTestedError as why:
        return Judged("not tested", note=_sentence(str(why)))
    return judged.noting(_stand_in(runs), _start(runs), _left_out(runs.left_out))


def _stand_in(runs: Evidence) -> str:
    if not runs.stand_in:
        return ""
    return f"The label skews of {next(iter(runs.sets))} stand for the paper's data sets."


def _start(runs: Evidence) -> str:
    if runs.profile != "mini" or not runs.reads_zero_shot:
        return ""
    return "Zero-shot is here: prompted, before training; the model has seen other labelled pictures of these classes."


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
    return f"Without, as not stored: {'; '.join(names[:_NAMED_AT_MOST])}{more}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


@lru_cache(maxsize=1)
def _table() -> pd.DataFrame:
    with resources.files("fedcopl_lab.paper").joinpath("claims_judged.csv").open(encoding="utf-8") as file:
        text = pd.read_csv(file, dtype=str, keep_default_na=False)
    return text.assign(
        number=text["number"].astype(int), margin=pd.to_numeric(text["margin"].where(text["margin"] != ""))
    )
