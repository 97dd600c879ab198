"""What a claim may ask of runs, one number per seed, and the same of any table of tidy rows."""

import ast
import operator
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, Self, TypeVar

import pandas as pd

from fedcopl_lab._errors import FedCoPLError, check_columns
from fedcopl_lab.paper._intervals import columns_of, with_image_error
from fedcopl_lab.paper._judge import LEAST_SEEDS

Rows = Any
"""What is known of one run: its stored rounds, first to last, or metric -> value."""

Read = Callable[[Rows], float]
"""One number from a run; None or NaN comes out as NaN, what was not logged as KeyError."""

Settings = Mapping[str, Any]
Named = Mapping[str, Settings]
"""Rows or columns: name -> settings."""

Found = TypeVar("Found")

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv
}  # fmt: skip


def joined(*names: str) -> str:
    """The name of a cell from those of its row and column; empty ones are left out."""
    return ", ".join(filter(None, names))


class NotTestedError(FedCoPLError):
    """A claim cannot be judged here; the text says why."""


class RegimeNotReachedError(NotTestedError):
    """The runs of a cell are of a regime that does not pass its gate."""


class Evidence:
    """Runs by their settings, as one claim sees them; remembers which it used and what it did without.

    Args:
        seeds: which seeds to look for; seeds without a run are left out.
    """

    about = "this table"
    """What the runs are of, for messages."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(dict.fromkeys(seeds))
        self._start()

    def _start(self, closed: Container[Hashable] = ()) -> None:
        """Nothing is used and nothing left out yet; runs of the closed places are not to be used."""
        self.keys: set[str] = set()
        self.left_out: list[str] = []
        self.not_reached: list[str] = []
        self._spare: tuple[str, ...] = ()
        self._closed = closed

    def again(self, closed: Container[Hashable] = ()) -> Self:
        """The same runs for another claim, with the rows that were read."""
        fresh = copy(self)
        fresh._start(closed)
        return fresh

    def image_error(self, read: Read, *rows: Rows) -> float | None:
        """The standard error that test images leave in a number of one run or a gap of two; None where unknown."""
        return None

    def failed_gates(self, letters: str) -> Mapping[Any, Sequence[str]]:
        """The places of the runs used whose regime does not pass its gates, with what was measured, in sentences."""
        return {}

    def rows_of(self, seed: int, settings: Settings) -> tuple[str, Rows | None]:
        """The key of one seed's run, and what is known of it; None where it is missing."""
        raise NotImplementedError

    def reader(self, name: str) -> Read:
        """The reader of that name."""
        raise NotImplementedError

    def group(self, name: str) -> Named | None:
        """The rows or columns that a table of claims calls by one name; None for a name that is not known."""
        return None

    def named(self, settings: Settings) -> str:
        """Settings in words, such as ``method=A, beta=0.1``."""
        return ", ".join(f"{name}={value}" for name, value in settings.items())

    def remarks(self) -> tuple[str, ...]:
        """Sentences for the note of every claim judged on this evidence."""
        return ()

    def read(self, text: str) -> Read:
        """A reader by its name, or arithmetic with several, such as ``100 * (accuracy - early.accuracy)``."""
        if text.isidentifier():
            return self.reader(text)
        try:
            return self._compiled(ast.parse(text, mode="eval").body)
        except (SyntaxError, KeyError) as error:
            raise FedCoPLError(f"read={text!r} is not valid; expected names with + - * / and numbers") from error

    def _compiled(self, node: ast.expr) -> Read:
        if isinstance(node, ast.BinOp):
            combine, left, right = _OPERATORS[type(node.op)], self._compiled(node.left), self._compiled(node.right)
            return lambda rows: combine(left(rows), right(rows))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self._compiled(node.operand)
            return lambda rows: -inner(rows)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            number = node.value
            return lambda rows: number
        if isinstance(node, ast.Name | ast.Attribute):
            return self.reader(ast.unparse(node))
        raise SyntaxError(ast.unparse(node))

    def values(self, read: Read, **settings: Any) -> pd.Series:
        """One number per seed with a run of these settings, at least three, indexed by seed.

        Raises:
            NotTestedError: fewer than three seeds are there, the settings do not exist in this version, or the runs
                lack what is read.
        """
        return self._values(lambda rows: read(*rows), settings, of=read)

    def paired(self, read: Callable[[Rows, Rows], float], own: Settings, other: Settings) -> Callable[[], pd.Series]:
        """One number per seed from two runs of that seed, read when called."""
        return lambda: self._values(lambda rows: read(*rows), own, other)

    def gap(
        self, read: Read, own: Settings, other: Settings, read_other: Read | None = None
    ) -> Callable[[], pd.Series]:
        """What one run is ahead of another, paired over seeds, read when called."""
        return lambda: self._values(lambda rows: read(rows[0]) - (read_other or read)(rows[1]), own, other, of=read)

    def gaps(self, read: Read, pairs: Mapping[str, tuple[Settings, Settings]], least: int = 1) -> dict[str, pd.Series]:
        """:meth:`gap` in every cell whose runs are there; see :meth:`cells`."""
        return self.cells({name: self.gap(read, own, other) for name, (own, other) in pairs.items()}, least)

    def lead(
        self, read: Read, own: Settings, others: Named, less_is_better: bool = False, /, **column: Any
    ) -> Callable[[], pd.Series]:
        """What one run is ahead of the best of several rows whose regime is reached; settings of a row win.

        The best is the row that it is least ahead of, by the mean over the seeds of both; of what is better where it is
        less, the row that it is least behind.
        """

        def ahead() -> pd.Series:
            found = dict[str, pd.Series]()
            for name, row in others.items():
                with suppress(RegimeNotReachedError):
                    # a row is named first, and wins
                    found[name] = self.gap(read, {**own, **column, **own}, {**row, **column, **row})()
            if not found:
                raise RegimeNotReachedError(f"the regime of {', '.join(others)} is not reached")
            self.not_reached += [name for name in others if name not in (*found, *self.not_reached)]
            empty = [name for name, lead in found.items() if lead.isna().all()]
            if empty:
                raise NotTestedError(f"{', '.join(empty)} without a number at the same seeds")
            return (max if less_is_better else min)(found.values(), key=lambda lead: float(lead.mean()))

        return ahead

    def in_columns(self, read: Read, columns: Named, least: int = 1, **settings: Any) -> dict[str, pd.Series]:
        """The same number in every column whose runs are there; see :meth:`cells`."""
        wanted = {name: partial(self.values, read, **{**settings, **there}) for name, there in columns.items()}
        return self.cells(wanted, least)

    def cells(self, wanted: Mapping[str, Callable[[], Found]], least: int = 1) -> dict[str, Found]:
        """The cells whose runs are there; the others are remembered as left out.

        With fewer than ``least`` (0 for what only adds to a note and may be missing) the claim is not tested, for the
        reason of the first missing one, if any is wanted.
        """
        found: dict[str, Found] = {}
        missing: dict[str, NotTestedError] = {}
        for name, compute in wanted.items():
            try:
                found[name] = compute()
            except NotTestedError as why:
                missing[name] = why
        if len(found) < least:
            nothing = NotTestedError(f"about a comparison that {self.about} does not have")
            raise next(iter(missing.values()), nothing)
        for name, reason in missing.items():
            told = self.not_reached if isinstance(reason, RegimeNotReachedError) else self.left_out
            if least and name not in told and not any(spare in name for spare in self._spare):
                told.append(name)
        return found

    def sweep(self, read: Read, field: str, levels: Sequence[Any], least: int = 2, **settings: Any) -> pd.DataFrame:
        """One line per seed, one column per value of a setting that is there, for seeds that have all of them."""
        names = {f"{field} = {level}": level for level in levels}
        found = self.in_columns(read, {name: {field: level} for name, level in names.items()}, least, **settings)
        return columns_of(found).rename(columns=names)

    def between(self, read: Read, field: str, **settings: Any) -> Callable[[Any, Any], pd.Series]:
        """The difference of a number between two values of a setting, paired over seeds."""
        return lambda one, two: self.gap(read, {**settings, field: one}, {**settings, field: two})()

    def _values(
        self, read: Callable[[list[Rows]], float], *wanted: Settings, of: Read | None = None,
        rows_of: Callable[[int, Settings], tuple[str, Rows | None]] | None = None,
    ) -> pd.Series:  # fmt: skip
        found, keys = dict[int, float](), set[str]()
        errors: list[float | None] = []
        for seed in self.seeds:
            runs = [(rows_of or self.rows_of)(seed, settings) for settings in wanted]
            if all(rows is not None for _, rows in runs):
                found[seed] = self._number(read, [rows for _, rows in runs], wanted)
                errors.append(self.image_error(of, *(rows for _, rows in runs)) if of else None)
                keys |= {key for key, _ in runs if key}
        if len(found) < LEAST_SEEDS:
            which = " and ".join(map(self.named, wanted))
            raise NotTestedError(f"needs {LEAST_SEEDS} seeds of {which}; {len(found)} stored")
        self.keys |= keys
        known = [error for error in errors if error is not None]
        values = pd.Series(found, dtype=float)
        return with_image_error(values, sum(known) / len(known)) if len(known) == len(found) else values

    def _number(self, read: Callable[[list[Rows]], float], rows: list[Rows], wanted: Sequence[Settings]) -> float:
        try:
            value = read(rows)
        except KeyError as missing:
            which = " or ".join(map(self.named, wanted))
            raise NotTestedError(f"the stored rows of {which} lack {missing}") from missing
        return float("nan") if value is None else float(value)


class TidyRows(Evidence):
    """Numbers of any experiment: one line per seed, settings and metric.

    Args:
        numbers: the columns seed, metric and value (an infinite one counts as missing); every other is a setting.
        remarks: sentences for the note of every claim.

    Raises:
        FedCoPLError: one of the three columns is missing, or a value or seed is none.

    >>> rows = pd.DataFrame({"method": "A", "seed": [0, 1, 2], "metric": "accuracy", "value": [0.5, 0.6, 0.7]})
    >>> evidence = TidyRows(rows)
    >>> evidence.values(evidence.read("100 * accuracy"), method="A").tolist()
    [50.0, 60.0, 70.0]
    """

    def __init__(self, numbers: pd.DataFrame, remarks: Sequence[str] = ()) -> None:
        check_columns("numbers", ("seed", "metric", "value"), numbers, "expected seed, metric and value")
        value = pd.to_numeric(numbers["value"].astype(object), errors="coerce").astype(float)
        for word in numbers[value.isna() & numbers["value"].notna()].to_dict("records"):
            raise FedCoPLError(f"{word['metric']}={word['value']!r} at seed {word['seed']} is no number")
        if numbers["seed"].isna().any():
            raise FedCoPLError("a line of the numbers has no seed; give every line one")
        super().__init__(sorted(numbers["seed"].unique().tolist(), key=lambda seed: (isinstance(seed, str), seed)))
        self._numbers, self._remarks = numbers.assign(value=value.where(value.abs() < float("inf"))), tuple(remarks)
        self._found: dict[Hashable, pd.DataFrame] = {}

    def remarks(self) -> tuple[str, ...]:
        """See :meth:`Evidence.remarks`."""
        return self._remarks

    def reader(self, name: str) -> Read:
        """A metric's value."""
        return lambda rows: float(rows[name])

    def rows_of(self, seed: int, settings: Settings) -> tuple[str, Rows | None]:
        """Metric -> value of the lines with these settings.

        Raises:
            FedCoPLError: an unknown setting, or one that is not named and has several values, of which one comes twice.
        """
        name = frozenset((setting, repr(value)) for setting, value in settings.items())
        if name not in self._found:
            self._found[name] = self._lines(settings)
        lines = self._found[name][self._found[name]["seed"] == seed]
        if lines["metric"].duplicated().any():
            raise FedCoPLError(f"several lines at seed {seed} have {self.named(settings)}; name more settings")
        return "", (dict(zip(lines["metric"], lines["value"], strict=True)) if len(lines) else None)

    def _lines(self, settings: Settings) -> pd.DataFrame:
        """The lines of all seeds with these settings."""
        lines = self._numbers
        for name, value in settings.items():
            if name not in lines:
                raise FedCoPLError(f"the numbers have no column {name!r}; they have {', '.join(lines.columns)}")
            text, number = lines[name].astype(str), pd.to_numeric(lines[name], errors="coerce")
            lines = lines[lines[name].isna() if value is None else (text == str(value)) | (number == value)]
        for column in sorted(set(map(str, lines.columns)) - {"seed", "metric", "value", *settings}):
            values = lines.groupby("metric")[column]
            if values.nunique(dropna=False).between(2, values.size() - 1).any():  # one for each line is no setting
                told = f"the lines of {self.named(settings)} have several values of {column}"
                raise FedCoPLError(f"{told}; name one, or leave the column out where it is no setting")
        return lines
