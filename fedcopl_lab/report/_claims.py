"""What holds of the papers' claims and what does not, for the report, the README and notebooks."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError, check_columns
from fedcopl_lab.paper import (
    LEVEL,
    VERDICT_COLUMNS,
    VERDICTS,
    gate_place,
    gate_value,
    gates,
    image_error,
    judged_claims,
    limits,
    measured_claims,
    seeds_for,
    survivors,
)
from fedcopl_lab.report._words import PAPERS

SYMBOLS: dict[str, str] = dict(zip(VERDICTS, "✓✗≈○–", strict=True))
"""Verdict -> the sign before it, so that colour is never needed to read it."""
_WIDTH = 110
_UNTESTED = "not tested"


def claim_tables(verdicts: pd.DataFrame, elsewhere: Mapping[str, pd.DataFrame] | None = None) -> list[dict[str, Any]]:
    """Per paper: its name, how many claims got which verdict, those judged in any profile, and the others.

    ``elsewhere`` has the verdicts of other profiles by their names; each stands in a line of its own, under the first.
    """
    others = defaultdict[int, list[dict[Hashable, Any]]](list)
    for profile, table in (elsewhere or {}).items():
        for line in table[table["verdict"] != _UNTESTED].assign(profile=profile).to_dict("records"):
            others[line["number"]].append(line)
    tables = []
    for paper, rows in _with_sources(verdicts).groupby("paper", sort=False):
        counts = rows["verdict"].value_counts()
        lines = [line | {"elsewhere": others[line["number"]], "beside": beside_paper(line)}
                 for line in rows.to_dict("records")]  # fmt: skip
        untested = [line for line in lines if line["verdict"] == _UNTESTED and not line["elsewhere"]]
        tables.append({
            "name": PAPERS[str(paper)], "many": many_tests(rows), "untested": untested,
            "counts": [(verdict, int(counts.get(verdict, 0))) for verdict in SYMBOLS],
            "judged": [line for line in lines if line["verdict"] != _UNTESTED or line["elsewhere"]],
        })  # fmt: skip
    return tables


def gate_lines(profile: str) -> list[dict[str, str]]:
    """The gates of a profile's committed numbers as text: gate, place, quantity, measured, needed, state.

    >>> gate_lines("smoke")[0]["needed"]
    'at least ...'
    """
    return [
        {
            "gate": line["gate"], "place": gate_place(line), "quantity": line["quantity"],
            "needed": f"{limits(line)} {line['unit']}".strip(), "state": line["state"],
            "measured": f"{gate_value(line)}, n = {line['n_seeds']}" if line["n_seeds"] else "–",
        }
        for line in gates(profile).to_dict("records")
    ]  # fmt: skip


def seeds_needed(
    claim: int | pd.Series | Sequence[float],
    effect: float | int | None = None,
    profile: str = "smoke",
    verdicts: pd.DataFrame | None = None,
) -> int | None:
    """How many seeds a 95 % interval narrower than an effect needs, from the paired spread of the stored ones.

    Args:
        claim: the number of a claim, or paired differences, one per seed.
        effect: half width wanted, in the claim's unit; None takes the paper's effect, for a claim of no difference its
            margin.
        profile: whose committed verdicts.
        verdicts: as :func:`fedcopl_lab.paper.verdicts` gives them, instead of those.

    Returns:
        Three or more; None where more seeds than a thousand, or more test images, would be needed.

    Raises:
        FedCoPLError: an unknown claim, one without a spread, or no effect to compare with.

    >>> seeds_needed([1.0, 3.0, 2.0], effect=1.5)
    5

    Shown in the report.
    """
    if not isinstance(claim, Integral):
        values = pd.Series(claim, dtype=float)
        if len(values) < 2 or effect is None:
            raise FedCoPLError("differences need two seeds or more, and effect=, the half width wanted")
        return seeds_for(float(values.std()), float(effect), image_error(values))
    table = _with_sources(measured_claims(profile) if verdicts is None else verdicts)
    line = next(iter(table[table["number"] == claim].to_dict("records")), None)
    if line is None or math.isnan(line["spread"]):
        raise FedCoPLError(f"claim {claim} has no spread over seeds; export the verdicts again or pass verdicts=")
    wanted = _effect(line) if effect is None else float(effect)
    if effect is None and not wanted:
        raise FedCoPLError(f"the paper prints no number for claim {claim}; pass effect=, the half width wanted")
    return seeds_for(line["spread"], wanted, line["image_error"])


def _effect(line: Mapping[Hashable, Any]) -> float:
    """What an interval should be narrower than; 0 where nothing says."""
    found = abs(line["paper_effect"]) if math.isnan(line["margin"]) else line["margin"]
    return 0.0 if math.isnan(found) else float(found)


def beside_paper(line: Mapping[Hashable, Any]) -> str:
    """The paper's effect beside a claim's interval, and the seeds that would tell it; empty where nothing is known."""
    said = []
    if not math.isnan(line["paper_effect"]) and line["verdict"] != _UNTESTED:
        left_out = {"yes": ", left out by the interval", "no": ", inside the interval"}.get(line["excludes_paper"], "")
        said.append(f"paper's effect {line['paper_effect']:+.3g} {line['unit']}{left_out}")
    if line["spread"] > 0 and _effect(line):
        found = seeds_for(line["spread"], _effect(line), line["image_error"])
        why = "no number of seeds" if found is None else f"{found} seeds"
        said.append(f"{why} for an interval narrower than {_effect(line):.3g}")
    return "; ".join(said)


def many_tests(verdicts: pd.DataFrame) -> str:
    """How many claims stay significant when all are counted, in one line; empty where no p-value is known.

    >>> many_tests(pd.DataFrame({"verdict": 2 * ["holds"], "p": [0.001, 0.04], "low": [1, 1], "high": [2, 2]}))
    'Of 2 tested differences 2 are significant at 5 % each, 2 after Benjamini-Hochberg, 2 after Holm.'
    """
    judged = verdicts[verdicts["verdict"].isin(VERDICTS[:3]) & (verdicts["high"] > verdicts["low"])]
    p = judged["p"].dropna().tolist()
    if not p:
        return ""
    rates = [f"{survivors(p, step)} after {step}" for step in ("Benjamini-Hochberg", "Holm")]
    single = sum(one <= 1 - LEVEL for one in p)
    return f"Of {len(p)} tested differences {single} are significant at 5 % each, {', '.join(rates)}."


def claim_text(verdicts: pd.DataFrame, numbers: Sequence[int]) -> str:
    """Some claims as text for a notebook: what is claimed, the verdict, what was measured and why.

    Args:
        verdicts: as :func:`fedcopl_lab.paper.verdicts` or :func:`fedcopl_lab.paper.measured_claims` gives them.
        numbers: which claims, in the order wanted.

    Raises:
        FedCoPLError: columns are missing, or no verdict has such a number.

    >>> print(claim_text(measured_claims("smoke"), [12]))
    12. ...

    Shown in notebook ``fedcopl_main_table1``.
    """
    lines = {int(line["number"]): line for line in _with_sources(verdicts).to_dict("records")}
    unknown = sorted(set(numbers) - set(lines))
    if unknown:
        known = ", ".join(map(str, lines)) or "none"
        raise FedCoPLError(f"there is no verdict on claim {', '.join(map(str, unknown))}; these have one: {known}")
    return "\n\n".join(_claim_text(lines[number]) for number in numbers)


def _claim_text(line: Mapping[Hashable, Any]) -> str:
    parts = [
        f"{SYMBOLS[line['verdict']]} {line['verdict']}",
        f"asked: {line['claimed']}",
        f"measured: {line['statistic']}; {line['n_seeds']} seeds" if line["statistic"] else "",
        beside_paper(line),
        f"printed: {line['printed']}" if line["printed"] else "",
        line["note"],
    ]
    told = [textwrap.fill(part, _WIDTH, initial_indent="   ", subsequent_indent="     ") for part in parts if part]
    return "\n".join([f"{line['number']}. {line['claim']} ({line['source']})", *told])


def _with_sources(verdicts: pd.DataFrame) -> pd.DataFrame:
    check_columns("verdicts", VERDICT_COLUMNS, verdicts, "pass what verdicts() gives")
    sources = judged_claims()[["number", "paper", "source", "claimed", "printed", "margin"]]
    return sources.merge(verdicts, on="number")
