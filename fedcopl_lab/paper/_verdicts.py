"""What the papers claim in words, and whether stored runs confirm it."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import did_you_mean, profile_name
from fedcopl_lab.paper._claims_table import effects, judge, judge_claim
from fedcopl_lab.paper._gates import Place, failed_gates, gate_rows, gates, sentences, split_of
from fedcopl_lab.paper._printed import read_table
from fedcopl_lab.paper._printed_runs import PrintedRuns
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items import SEEDS, Item
from fedcopl_lab.paper.statistics import STATISTICS
from fedcopl_lab.store import Store

CLAIMS_ABOUT: dict[str, tuple[int, ...]] = {
    "fedcopl_main_fig1": (43,),
    "fedcopl_main_table1": (12, 17, 19),
    "fedcopl_main_table2": (13, 14, 15, 16),
    "fedcopl_main_table3": (21,),
    "fedcopl_main_table4": (26, 27),
    "fedcopl_main_table5": (29, 30),
    "fedcopl_main_table6": (31, 32, 33, 34),
    "fedcopl_main_fig2": (35, 36, 38),
    "fedcopl_main_fig3": (22, 23, 24, 25),
    "fedcopl_supp_fig1": (37,),
    "fedcopl_supp_fig2": (37,),
    "fedcopl_supp_fig4": (3, 4, 8, 9),
    "fedcopl_supp_table2": (26, 27, 28),
    "fedcopl_supp_table3": (1, 2, 5, 6, 7),
    "fedcopl_supp_table4": (39, 41, 42),
    "fedcopl_supp_table5": (40, 41, 42),
    "fedcopl_ours_controls": (10, 18, 20),
    "fedcopl_ours_uploads": (11, 44, 45),
    "sage_main_table1": (80, 82),
    "sage_main_parts": (67, 73),
    "sage_main_fig8": (66,),
    "sage_ours_labels": (81,),
    "sage_supp_table5": (68, 69),
    "sage_supp_table6": (77, 78),
    "sage_supp_table7": (77,),
    "sage_supp_table8": (79, 83),
    "sage_supp_fig9": (46, 47, 48, 49),
    "sage_supp_fig10": (61, 62, 63, 64, 65),
    "sage_supp_fig11": (50,),
    "sage_supp_fig12": (51, 52),
    "sage_supp_fig13": (70, 71, 72),
    "sage_supp_fig14": (74, 75, 76),
    "sage_supp_fig15": (59, 77),
    "sage_supp_fig16": (60,),
    "sage_supp_theory": (53, 54, 55, 56, 57, 58),
}
"""Item -> numbers of the claims that its picture lets a reader look at; an item that is not here has none."""


def judged_claims(paper: str | None = None) -> pd.DataFrame:
    """Every claim of the papers that runs can settle, in our words, with how it is judged.

    Args:
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.

    Returns:
        Columns number, paper, group, source (where it stands), claim, kind (``"difference"``, ``"every_case"``,
        ``"equivalence"`` or ``"trend"``), claimed (what must be so), margin (points, for equivalence), statistic
        (its lines in
        ``statistics.csv``, or a function's name; empty where there is none yet), needs (runs), printed (what the
        paper's own tables give), gates (letters of the gates that its runs must pass; see
        :func:`fedcopl_lab.paper.gates`).

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


def claims_about(item: Item) -> tuple[int, ...]:
    """Numbers of the claims that an item speaks to, in the papers' order.

    >>> claims_about(find_items(["main Table 5"])[0])
    (29, 30)
    """
    return CLAIMS_ABOUT.get(item.id, ())


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
    note; with fewer than three seeds, or without what it is about, it is *not tested*. Runs of a data set and
    split that do not pass the claim's gates are left out; where none pass, the numbers of all of them stand beside
    the verdict *regime not reached*, and its note has the gate's number.

    Args:
        profile: whose runs; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        store: where they are; None takes the default store.
        seeds: which seeds to look for.
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.
        numbers: the claims of these numbers only; None takes all.
        changes: settings that all runs have, such as ``rounds``; and ``machine``, of :meth:`Item.runs`.

    Returns:
        One line per claim: number, claim, verdict (``"holds"``, ``"does not hold"``, ``"within noise"``, ``"regime
        not reached"``, ``"not tested"``), statistic (in words), n_seeds, cells, k_of_m (cells with the claimed sign),
        difference, low, high (95 % interval, in ``unit``), unit, runs (keys), note, p (of no difference), spread
        (standard deviation over seeds), image_error (standard error that the test images leave), paper_effect (the
        same statistic on the printed cells; NaN where none are printed), excludes_paper (``"yes"`` or ``"no"``: the
        interval leaves that out).

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


def printed_effects() -> str:
    """``printed_effects.csv``: every claim's statistic on the cells that the papers print, as ``make docs`` writes it.

    Columns number, part (empty: all cells together) and effect, in the unit of the claim.
    """
    cells = PrintedRuns(Store())
    lines = ["number,part,effect"]
    for number, rows in claim_lines(judged_claims()).groupby("number", sort=False):
        written = [{str(name): str(value) for name, value in row.items()} for row in rows.to_dict("records")]
        judged = judge_claim(written, cells.again(), STATISTICS)
        lines += [
            f'{number},"{part}",{effect:.6g}' for part, effect in effects(judged).items() if not math.isnan(effect)
        ]
    return "\n".join(lines) + "\n"


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


def where_reached(judged: pd.DataFrame, numbers: pd.DataFrame, profile: str) -> pd.DataFrame:
    """Committed verdicts, but *regime not reached* where none of the places of their runs passes the claim's gates.

    Verdicts that rest on stored runs are judged so by :func:`verdicts`; this is for those of runs that are elsewhere.

    Args:
        judged: as :func:`verdicts` gives it.
        numbers: of these runs, as :func:`fedcopl_lab.paper.measured` gives it; the gates are read from them too.
        profile: whose they are.
    """
    table, letters = gates(profile, numbers), judged_claims().set_index("number")["gates"]
    pairs = numbers.assign(split=numbers["column"].map(split_of))[["key", "dataset", "split"]].drop_duplicates()
    pairs = pairs[pairs["split"].isin(table["split"])]  # the same runs stand in columns of other settings too
    places: dict[str, set[Place]] = {}
    for key, dataset, split in pairs.itertuples(index=False):
        places.setdefault(key, set()).add((dataset, split))
    rows = []
    for row in judged.to_dict("records"):
        here = {place for key in row["runs"].split() for place in places.get(key, ())}
        failed = failed_gates(table, letters[row["number"]], here)
        if here and len(failed) == len(here) and row["verdict"] != "not tested":
            notes = [row["note"], *(said for said in sentences(failed) if said not in row["note"])]
            row |= {"verdict": "regime not reached", "note": " ".join(filter(None, notes))}
        rows.append(row)
    return pd.DataFrame(rows, columns=judged.columns)


def _known(numbers: Sequence[int], table: pd.DataFrame) -> list[int]:
    unknown = sorted(set(numbers) - set(table["number"]))
    if unknown:
        first, last = table["number"].iloc[[0, -1]]
        raise FedCoPLError(f"there is no claim {', '.join(map(str, unknown))}; expected {first} to {last}")
    return list(numbers)


@lru_cache(maxsize=1)
def _table() -> pd.DataFrame:
    text = read_table("claims_judged.csv")
    return text.assign(
        number=text["number"].astype(int), margin=pd.to_numeric(text["margin"].where(text["margin"] != ""))
    )
