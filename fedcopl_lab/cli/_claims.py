"""``fedcopl-lab claims``: what the papers claim in words, and what our runs say to it."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Hashable, Mapping

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli.options import add_profile, refuse_beside
from fedcopl_lab.config import profile_name
from fedcopl_lab.paper import (
    gate_place,
    gate_rows,
    gate_value,
    gates,
    judge,
    judged_claims,
    limits,
    measured_claims,
    read_study,
    verdicts,
)
from fedcopl_lab.store import Store

_COLOURS = {"holds": "32", "does not hold": "31", "within noise": "33", "regime not reached": "34", "not tested": "90"}
_VERDICT_WIDTH = max(map(len, _COLOURS))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``claims``."""
    parser.description = "Shows the committed verdicts; with --stored, judges the runs that are stored here."
    add_profile(parser)
    parser.add_argument("--paper", choices=("fedcopl", "sage"), help="one of the two (default: both)")
    parser.add_argument("--stored", action="store_true", help="judge the stored runs instead")
    parser.add_argument("--gates", action="store_true", help="the gates that the runs must pass, instead of the claims")
    parser.add_argument("--study", metavar="FOLDER", help="judge another study's claims; see docs/claims.md")
    parser.set_defaults(command=show_claims)


def show_claims(options: argparse.Namespace) -> int:
    """Print the verdicts: the committed ones, or those of the runs stored here."""
    if options.study:
        refuse_beside("--study", **{name: getattr(options, name) for name in ("profile", "paper", "stored", "gates")})
        title, claims, numbers = read_study(options.study)
        judged = judge(claims, numbers)
        print(f"{title}: {_counts(judged)}\n{_lines(judged)}")
        return 0
    name = profile_name(options.profile)
    if options.gates:
        print(_gates(name, options.paper, options.stored))
        return 0
    table, origin = _verdicts(name, options.paper, options.stored)
    print(f"profile {name}, {origin}")
    for group, rows in table.groupby("paper", sort=False):
        print(f"\n{'FedCoPL' if group == 'fedcopl' else 'SAGE'}: {_counts(rows)}\n{_lines(rows)}")
        from fedcopl_lab.report import many_tests  # with it comes all that draws

        if said := many_tests(rows):
            print(said)
    return 0


def _lines(rows: pd.DataFrame) -> str:
    width, colour = shutil.get_terminal_size((110, 24)).columns, sys.stdout.isatty()
    return "\n".join(_line(row, width, colour) for row in rows.to_dict("records"))


def _verdicts(profile: str, paper: str | None, stored: bool) -> tuple[pd.DataFrame, str]:
    wanted = judged_claims(paper)[["number", "paper"]]
    if not stored:
        try:
            return wanted.merge(measured_claims(profile), on="number"), "committed verdicts"
        except FedCoPLError:
            pass  # nothing is committed for this profile
    return wanted.merge(verdicts(profile, paper=paper), on="number"), "judged on the runs stored here"


def _gates(profile: str, paper: str | None, stored: bool) -> str:
    table = gates(profile, gate_rows(profile, Store()) if stored else None)
    if paper:
        table = table[(table["gate"] == "D") == (paper == "sage")]
    lines = [f"profile {profile}, {'stored runs, committed ones for the rest' if stored else 'committed numbers'}"]
    for row in table.to_dict("records"):
        number = f"{gate_value(row)} ({limits(row)}), n = {row['n_seeds']}" if row["n_seeds"] else ""
        lines.append(f"{row['gate']}  {row['state'].ljust(12)}  {gate_place(row)}: {row['quantity']} {number}".rstrip())
    return "\n".join(lines)


def _counts(rows: pd.DataFrame) -> str:
    found = rows["verdict"].value_counts()
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in _COLOURS if verdict in found)


def _line(row: Mapping[Hashable, object], width: int, colour: bool) -> str:
    verdict = str(row["verdict"]).ljust(_VERDICT_WIDTH)
    shown = f"\033[{_COLOURS[str(row['verdict'])]}m{verdict}\033[0m" if colour else verdict
    excluded = {"yes": "leaves out the paper's", "no": "includes the paper's"}.get(str(row["excludes_paper"]), "")
    theirs = f"{excluded} {row['paper_effect']:+.3g}" if excluded and row["statistic"] else ""
    text = " · ".join(filter(None, (str(row["claim"]), str(row["statistic"]), theirs)))
    indent = _VERDICT_WIDTH + 6
    lines = textwrap.wrap(text, max(width - indent, 40))
    return "\n".join([f"{row['number']:>3}  {shown} {lines[0]}", *(" " * indent + line for line in lines[1:])])
