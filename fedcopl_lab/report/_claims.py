"""What holds of the papers' claims and what does not, for the report, the README and notebooks."""

import textwrap
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import VERDICT_COLUMNS, judged_claims, measured_claims
from fedcopl_lab.report._words import PAPERS

SYMBOLS = {"holds": "✓", "does not hold": "✗", "within noise": "≈", "not tested": "–"}
"""Verdict -> the sign before it, so that colour is never needed to read it."""
_WIDTH = 110
_UNTESTED = "not tested"


def claim_tables(verdicts: pd.DataFrame, elsewhere: Mapping[str, pd.DataFrame] | None = None) -> list[dict[str, Any]]:
    """Per paper: its name, how many claims got which verdict, those judged in any profile, and the others.

    Args:
        verdicts: as :func:`fedcopl_lab.paper.verdicts` or :func:`fedcopl_lab.paper.measured_claims` gives them.
        elsewhere: verdicts of other profiles by their names; each stands in a line of its own, under the first.

    Raises:
        FedCoPLError: columns are missing.
    """
    others: dict[int, list[dict[Hashable, Any]]] = {}
    for profile, table in (elsewhere or {}).items():
        for line in table[table["verdict"] != _UNTESTED].assign(profile=profile).to_dict("records"):
            others.setdefault(line["number"], []).append(line)
    tables = []
    for paper, rows in _with_sources(verdicts).groupby("paper", sort=False):
        counts = rows["verdict"].value_counts()
        lines = [line | {"elsewhere": others.get(line["number"], [])} for line in rows.to_dict("records")]
        settled = [line["verdict"] != _UNTESTED or bool(line["elsewhere"]) for line in lines]
        tables.append(
            {
                "name": PAPERS[str(paper)],
                "counts": [(verdict, int(counts.get(verdict, 0))) for verdict in SYMBOLS],
                "judged": [line for line, known in zip(lines, settled, strict=True) if known],
                "untested": [line for line, known in zip(lines, settled, strict=True) if not known],
            }
        )
    return tables


def claims_markdown(profile: str) -> str:
    """The claims that a profile's committed runs settle, as Markdown: claim, verdict, what was measured.

    >>> print(claims_markdown("smoke"))
    | claim | verdict | measured |...
    """
    lines = ["| claim | verdict | measured |", "|---|---|---|"]
    for line in _with_sources(measured_claims(profile)).query("verdict != @_UNTESTED").to_dict("records"):
        claim = f"{line['number']}. {line['claim']} ({line['source']})"
        verdict = f"{SYMBOLS[line['verdict']]} {line['verdict']}"
        lines.append(f"| {claim} | {verdict} | {line['statistic']}; {line['n_seeds']} seeds |")
    return "\n".join(lines)


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
        f"printed: {line['printed']}" if line["printed"] else "",
        line["note"],
    ]
    told = [textwrap.fill(part, _WIDTH, initial_indent="   ", subsequent_indent="     ") for part in parts if part]
    return "\n".join([f"{line['number']}. {line['claim']} ({line['source']})", *told])


def _with_sources(verdicts: pd.DataFrame) -> pd.DataFrame:
    missing = [column for column in VERDICT_COLUMNS if column not in verdicts.columns]
    if missing:
        raise FedCoPLError(f"the verdicts lack the columns {', '.join(missing)}; pass what verdicts() gives")
    return judged_claims()[["number", "paper", "source", "claimed", "printed"]].merge(verdicts, on="number")
