"""Claims judged on evidence: each line names what is read, of which runs, and the rule (docs/claims.md)."""

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import pandas as pd

from fedcopl_lab._errors import FedCoPLError, check_choice, check_columns
from fedcopl_lab.paper._evidence import Evidence, Named, NotTestedError, RegimeNotReachedError, Settings, joined
from fedcopl_lab.paper._gates import sentences
from fedcopl_lab.paper._intervals import columns_of
from fedcopl_lab.paper._judge import (
    MARGIN,
    VERDICT_COLUMNS,
    Judgement,
    Verdict,
    judge_difference,
    judge_equivalence,
    judge_every_case,
    judge_no_worse,
    judge_parts,
    judge_range,
    pooled,
    slopes,
)

RULES = ("difference", "every_case", "equivalence", "no_worse", "trend", "range", "note")
"""The rules that a line may name; see docs/claims.md."""

Line = Mapping[str, str]
_T = TypeVar("_T")
_NAMED_AT_MOST = 6


def judge(
    claims: pd.DataFrame,
    evidence: Evidence,
    functions: Mapping[str, Callable[[Any], Judgement]] | None = None,
    printed: Mapping[tuple[int, str], float] | None = None,
) -> pd.DataFrame:
    """Judge the claims of a table on the runs of an experiment.

    Args:
        claims: one or more lines per claim with the columns number, claim, read and rule, and those of docs/claims.md
            that are needed; text, empty where a line does not use them.
        evidence: where the numbers are, such as :class:`TidyRows`.
        functions: judge the claims whose ``statistic`` has no line of its own, by name.
        printed: (number, part) -> the effect that the claim's authors found; None takes the column ``effect``.

    Returns:
        One line per claim, as :func:`fedcopl_lab.paper.verdicts` gives them.

    Raises:
        FedCoPLError: a column is missing, or a line that cannot be read.

    >>> rows = pd.DataFrame({"method": 3 * ["A"] + 3 * ["B"], "seed": 2 * [0, 1, 2], "metric": "accuracy",
    ...                      "value": [0.71, 0.72, 0.74, 0.70, 0.70, 0.71]})
    >>> claims = pd.DataFrame([{"number": 1, "claim": "A beats B", "read": "100 * accuracy", "rule": "difference",
    ...                         "own": "method=A", "other": "method=B"}])
    >>> judge(claims, TidyRows(rows))["statistic"].item()
    '+2.0 points [-0.5, 4.5]'
    """
    check_columns("claims", ("number", "claim", "read", "rule"), claims, "a line of claims.csv needs them")
    found = []
    for number, lines in claims.groupby("number", sort=False):
        texts = lines.astype(object).where(lines.notna(), "").astype(str)
        told = [{str(name): str(value) for name, value in line.items()} for line in texts.to_dict("records")]
        judged, runs = _where_reached(told, evidence, functions)
        own = (line for line in told if (name := line.get("part")) and f"{judged.shown}, ".startswith(f"{name}, "))
        part = next(own, told[0])
        stated = _number(part, "effect", math.nan)
        effect = stated if printed is None else printed.get((int(told[0]["number"]), judged.shown), math.nan)
        excludes = "" if math.isnan(effect + judged.low) else "no" if judged.low <= effect <= judged.high else "yes"
        keys = "" if judged.verdict == "not tested" else " ".join(sorted(runs.keys))
        line = {"number": number, "claim": lines["claim"].iloc[0], "statistic": judged.text, "runs": keys}
        found.append(vars(judged) | line | {"paper_effect": effect, "excludes_paper": excludes})
    return pd.DataFrame(found, columns=VERDICT_COLUMNS)


_NO_NUMBER = ("not tested", "regime not reached")  # of a judgement without any gate


def _where_reached(
    told: Sequence[Line], evidence: Evidence, functions: Mapping[str, Callable[[Any], Judgement]] | None
) -> tuple[Judgement, Evidence]:
    """A claim judged where the regime passes its gates; on all runs, as *regime not reached*, if that is nowhere."""
    runs = evidence.again()
    judged = judge_claim(told, runs, functions)
    failed = {} if judged.verdict in _NO_NUMBER else runs.failed_gates(told[0].get("gates", ""))
    if not failed:
        return judged, runs
    inside = evidence.again(closed=failed)
    within = judge_claim(told, inside, functions)
    if within.verdict in _NO_NUMBER:
        return replace(judged, verdict="regime not reached").with_notes(*sentences(failed)), runs
    return within.with_notes(*sentences(failed)), inside


def judge_claim(
    lines: Sequence[Line], runs: Evidence, functions: Mapping[str, Callable[[Any], Judgement]] | None = None
) -> Judgement:
    """The judgement of one claim from its lines, or from the function that they name; with remarks on the evidence."""
    own, known = lines[0].get("statistic", ""), functions or {}
    try:
        if lines[0]["rule"]:
            judged = _judge_lines(lines, runs)
        elif own in known:
            judged = known[own](runs)
        else:
            return Judgement("not tested", note="No statistic of this version settles it.")
    except NotTestedError as why:
        text = str(why)
        verdict: Verdict = "regime not reached" if isinstance(why, RegimeNotReachedError) else "not tested"
        return Judgement(verdict, note=text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))
    same = judged.verdict != "not tested" and judged.low == judged.high
    return judged.with_notes(
        "Every seed gives the same number, so the interval has no width." if same else "",
        *runs.remarks(),
        _left_out([name for name in runs.left_out if name not in runs.not_reached], "not stored"),
        _left_out(runs.not_reached, "the regime is not reached there"),
    )


def _left_out(names: Sequence[str], why: str) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
    return f"Omitted, as {why}: {'; '.join(names[:_NAMED_AT_MOST])}{more}."


def _judge_lines(lines: Sequence[Line], runs: Evidence) -> Judgement:
    """Lines of one part and rule share their cells, ``row`` makes a part of each row; several parts must all hold."""
    parts: dict[str, Judgement] = {}
    notes: list[str] = []
    for (rule, part), group in groupby(lines, key=lambda line: (line["rule"], line.get("part", ""))):
        own = list(group)
        check_choice("rule", rule, RULES)
        if rule == "note":
            notes += [_note(line, runs) for line in own]
        elif rule == "range":
            for line in own:
                _add(parts, {joined(part, name): one for name, one in _ranges(line, runs).items()})
        elif part == "row":
            one_row = {row: partial(_judge_cells, rule, own, runs, row) for row in _named(own[0]["rows"], runs)}
            _add(parts, runs.cells(one_row, _number(own[0], "least", 1)))
        else:
            _add(parts, {part: _judge_cells(rule, own, runs)})
    if all(line["rule"] == "note" for line in lines):
        raise FedCoPLError("rule='note' judges nothing; give the claim a line of another rule beside it")
    judged = judge_parts(parts) if len(parts) != 1 else next(iter(parts.values()))
    return judged.with_notes(*notes)


def _add(found: dict[str, _T], more: Mapping[str, _T]) -> None:
    """Take in further parts or cells of a claim, none under the name of another."""
    if twice := ", ".join(map(repr, found.keys() & more.keys())):
        raise FedCoPLError(f"two lines of a claim give the part or cell {twice}; name each in part, rows or columns")
    found.update(more)


def _number(line: Line, name: str, default: float) -> Any:
    """What a line says of a number, as the default's type."""
    try:
        return type(default)(line.get(name) or default)
    except ValueError as error:
        raise FedCoPLError(f"{name}={line[name]!r} is no number; give one, or leave it empty") from error


def _how(rule: str, line: Line) -> tuple[float, str, float, int]:
    """Scale, unit, margin where the rule has one, and least of a line."""
    margin = _number(line, "margin", MARGIN) if rule in ("equivalence", "no_worse") else MARGIN
    return _number(line, "scale", 1.0), line.get("unit") or "points", margin, _number(line, "least", 1)


def _judge_cells(rule: str, lines: Sequence[Line], runs: Evidence, only: str = "") -> Judgement:
    scale, unit, margin, least = how = _how(rule, lines[0])
    if any(_how(rule, line) != how for line in lines):
        raise FedCoPLError("lines of one rule and part have other scales, units, margins or least; name each in part")
    if rule == "trend":
        if len(lines) > 1 or (lines[0].get("rows") and not only):
            raise FedCoPLError("rule='trend' takes one line and one row; part='row' makes a part of each row")
        return judge_difference(scale * _trend(lines[0], runs, only), unit)
    wanted: dict[str, Callable[[], pd.Series]] = {}
    for line in lines:
        _add(wanted, _cells(line, runs, only))
    found = runs.cells(wanted, 1 if only else least)
    if rule == "every_case":
        return judge_every_case({name: scale * values for name, values in found.items()}, unit)
    values = scale * pooled(found)
    if rule == "difference":
        return judge_difference(values, unit)
    return (judge_equivalence if rule == "equivalence" else judge_no_worse)(values, margin, unit)


def _cells(line: Line, runs: Evidence, only: str = "") -> dict[str, Callable[[], pd.Series]]:
    """Cell name, of one row or all -> what computes it: a number, a difference, or a lead over the best of several."""
    read, own, other = runs.read(line["read"]), _settings(line.get("own", "")), line.get("other", "")
    made: dict[str, Callable[[], pd.Series]] = {}
    rows = _named(line.get("rows", ""), runs)
    for row_name, row in ({only: rows[only]} if only else rows).items():
        for column_name, column in _named(line.get("columns", ""), runs).items():
            name, first = joined(row_name, column_name), _run(row, column, own)
            if not other:
                made[name] = partial(runs.values, read, **first)
            elif other.startswith("best of "):
                rivals = _named(other.removeprefix("best of "), runs)
                made[name] = runs.lead(read, {**row, **own}, rivals, _number(line, "scale", 1.0) < 0, **column)
            else:
                made[name] = runs.gap(read, first, _run(row, column, {} if other == "row" else _settings(other)))
    return made


def _run(row: Settings, column: Settings, own: Settings) -> Settings:
    """The settings of one run; a line that names a method of its own replaces the row."""
    return {**own, **column} if "method" in own else {**row, **column, **own}


def _trend(line: Line, runs: Evidence, only: str) -> pd.Series:
    """Per seed, the slope over the columns, a step of 1 from each to the next; all of them are needed."""
    table = columns_of({name: compute() for name, compute in _cells(line, runs, only).items()})
    return slopes(table, list(range(table.shape[1])))


def _ranges(line: Line, runs: Evidence) -> dict[str, Judgement]:
    """Column -> how much the best of the levels is ahead of the worst."""
    by_row = ["part=row"] if line.get("part") == "row" else []
    if unread := [name for name in ("rows", "other", "least") if line.get(name)] + by_row:
        raise FedCoPLError(f"rule='range' does not read {', '.join(unread)}; name the run in own and columns")
    field, _, levels = line.get("levels", "").partition("=")
    if len(levels.split()) < 2:
        raise FedCoPLError("rule='range' needs levels, a setting and its values, such as alpha=0.1 1.0")
    values, unit = list(map(_value, levels.split())), line.get("unit") or "points"
    read, own, scale = runs.read(line["read"]), _settings(line.get("own", "")), _number(line, "scale", 1.0)
    margin = _number(line, "margin", MARGIN)

    def of(there: Settings) -> Judgement:
        table = scale * runs.sweep(read, field, values, least=len(values), **{**own, **there})
        between = runs.between(read, field, **{**own, **there})
        return judge_range(table, margin, unit, lambda best, worst: scale * between(best, worst))

    return runs.cells({name: partial(of, there) for name, there in _named(line.get("columns", ""), runs).items()})


def _note(line: Line, runs: Evidence) -> str:
    """The text with the mean over cells and seeds; empty where ``least`` is 0 and no cell is there."""
    if not line["read"]:
        return line["text"]
    found = runs.cells(_cells(line, runs), _number(line, "least", 1))
    return line["text"].format(_number(line, "scale", 1.0) * float(pooled(found).mean())) if found else ""


def _named(text: str, runs: Evidence) -> Named:
    """Rows or columns: a name that the evidence knows, or settings with | between, each after a name and a colon."""
    if not text:
        return {"": {}}
    known = runs.group(text)
    if known is not None:
        return known
    named = (one.rpartition(": ") for one in text.split(" | "))
    return {name or rest: _settings(rest) for name, _, rest in named}


def _settings(text: str) -> Settings:
    """``"method=A, beta=0.1, q_conf=None"`` -> a dictionary; what is no Python literal is text."""
    found = {}
    for part in filter(None, re.split(r",\s*", text)):
        name, equals, value = part.partition("=")
        if not equals:
            raise FedCoPLError(f"{text!r} is no name of rows or columns and no settings such as method=A, beta=0.1")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    """A Python literal, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
