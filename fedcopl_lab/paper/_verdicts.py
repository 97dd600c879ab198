"""What the papers claim in words, and whether stored runs confirm it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import has_key, key_of
from fedcopl_lab.config import profile_name
from fedcopl_lab.paper._claims_table import judge
from fedcopl_lab.paper._gates import failed_gates, gate_rows, gates, place_of, sentences
from fedcopl_lab.paper._printed import read_table, rows_with
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items import ITEMS, SEEDS, ways_on_cards
from fedcopl_lab.paper.statistics import STATISTICS
from fedcopl_lab.store import Store


def judged_claims(paper: str | None = None) -> pd.DataFrame:
    """Every claim of the papers that runs can settle, in our words, with how it is judged.

    Args:
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.

    Returns:
        Columns number, paper, source (where it stands), claim, claimed (what must be so), margin (points, for a claim
        of no difference), statistic (its lines in ``statistics.csv``, or a function's name), printed (what the paper's
        own tables give), gates (letters of the gates that its runs must pass; see :func:`fedcopl_lab.paper.gates`).

    Raises:
        FedCoPLError: an unknown paper.

    >>> judged_claims("fedcopl")["number"].tolist()[-1]
    45

    Shown in notebook ``00_quickstart``.
    """
    text = read_table("claims_judged.csv")
    margin = pd.to_numeric(text["margin"].where(text["margin"] != ""))
    table = text.assign(number=text["number"].astype(int), margin=margin)
    return table if paper is None else table[rows_with(table, "paper", paper)].reset_index(drop=True)


def verdicts(
    profile: str | None = None,
    store: Store | None = None,
    seeds: Sequence[int] = SEEDS,
    paper: str | None = None,
    numbers: Sequence[int] | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """Judge every claim on the runs that are stored; nothing is computed or downloaded.

    A claim asks for runs by their settings at each seed; its note says which were not stored. With fewer than three
    seeds, or without what it is about, it is *not tested*. Runs of a data set and split that do not pass the claim's
    gates are left out; where none pass, the numbers of all of them stand beside the verdict *regime not reached*, and
    its note has the gate's number.

    Args:
        profile: whose runs; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        store: where they are; None takes the default store.
        seeds: which seeds to look for.
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.
        numbers: the claims of these numbers only; None takes all.
        changes: settings that all runs have, such as ``rounds``; and ``machine``, of :meth:`Item.runs`.

    Returns:
        One line per claim: number, claim, verdict (one of :data:`VERDICTS`), statistic (in words), n_seeds, cells,
        k_of_m (cells with the claimed sign), difference, low, high (95 % interval, in ``unit``), unit, runs (keys),
        note, p (of no difference), spread (standard deviation over seeds), image_error (standard error that the test
        images leave), paper_effect (the same statistic on the printed cells; NaN where none are printed),
        excludes_paper (``"yes"`` or ``"no"``: the interval leaves that out).

    Raises:
        FedCoPLError: an unknown profile, paper or number.

    >>> verdicts("smoke", numbers=[16])["note"].item()
    'About CUB, which profile smoke does not have.'

    Shown in notebook ``00_quickstart``.
    """
    wanted = judged_claims(paper)
    if numbers is not None:
        wanted = wanted[wanted["number"].isin(_known(numbers, wanted))]
    name, there = profile_name(profile), store or Store()
    reached = gates(name, gate_rows(name, there, seeds, **changes))
    runs = StoredRuns(name, there, seeds, changes=changes, gates=reached)
    found = read_table("printed_effects.csv").to_dict("records")
    printed = {(int(line["number"]), str(line["part"])): float(line["effect"]) for line in found}
    return judge(claim_lines(wanted), runs, STATISTICS, printed)


def claim_lines(wanted: pd.DataFrame) -> pd.DataFrame:
    """The lines of ``statistics.csv`` for the claims of :func:`judged_claims`; one empty line where a function judges.

    >>> claim_lines(judged_claims().query("number == 33"))[["read", "other", "columns", "rule"]].values.tolist()
    [['accuracy', 'aggregate=none', 'panels', 'every_case']]
    """
    return (
        wanted[["number", "claim", "statistic", "gates"]]
        .merge(read_table("statistics.csv"), on="statistic", how="left")
        .fillna("")
    )


def same_verdicts(fresh: pd.DataFrame, committed: pd.DataFrame) -> pd.DataFrame:
    """Claims judged both times on as many seeds and cells, side by side.

    Returns:
        Columns number, claim, fresh, committed (verdicts), difference_fresh, difference_committed, same.

    >>> committed = lab.paper.measured_claims("smoke")
    >>> bool(same_verdicts(committed, committed)["same"].all())
    True
    """
    both = fresh.merge(committed, on=["number", "claim", "n_seeds", "cells"], suffixes=("_fresh", "_committed"))
    both = both[(both["verdict_fresh"] != "not tested") & (both["verdict_committed"] != "not tested")]
    both = both.rename(columns={"verdict_fresh": "fresh", "verdict_committed": "committed"})
    shown = both[["number", "claim", "fresh", "committed", "difference_fresh", "difference_committed"]]
    return shown.assign(same=both["fresh"] == both["committed"]).reset_index(drop=True)


def where_reached(judged: pd.DataFrame, numbers: pd.DataFrame, profile: str) -> pd.DataFrame:
    """Committed verdicts, but *regime not reached* where none of the places of their runs passes the claim's gates.

    Verdicts that rest on stored runs are judged so by :func:`verdicts`; this is for those of runs that are elsewhere.

    Args:
        judged: as :func:`verdicts` gives it.
        numbers: of these runs, as :func:`fedcopl_lab.paper.measured` gives it; the gates are read from them too.
        profile: whose they are.
    """
    table, letters = gates(profile, numbers), judged_claims().set_index("number")["gates"]
    runs = (config for item in ITEMS for _, config in item.runs(profile) if has_key(config))
    places = {key_of(way): place_of(config) for config in runs for way in ways_on_cards(config)}
    rows = judged.to_dict("records")
    for row in rows:
        here = sorted({places[key] for key in row["runs"].split() if key in places})
        failed = failed_gates(table, letters[row["number"]], here)
        if here and len(failed) == len(here) and row["verdict"] != "not tested":
            said = [row["note"].partition("Gate ")[0].rstrip(), *sentences(failed)]  # in place of an older verdict's
            row |= {"verdict": "regime not reached", "note": " ".join(filter(None, said))}
    return pd.DataFrame(rows, columns=judged.columns)


def _known(numbers: Sequence[int], table: pd.DataFrame) -> list[int]:
    unknown = sorted(set(numbers) - set(table["number"]))
    if unknown:
        first, last = table["number"].iloc[[0, -1]]
        raise FedCoPLError(f"there is no claim {', '.join(map(str, unknown))}; expected {first} to {last}")
    return list(numbers)
