"""The one family of errors that users are meant to read."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_T = TypeVar("_T")


class FedCoPLError(ValueError):
    """A bad value, what was expected instead, and what to do, in one line.

    The command line prints it without a traceback and exits with status 2.

    >>> raise FedCoPLError("q_conf=1.5 is outside [0, 1]; choose a quantile level such as 0.5")
    Traceback (most recent call last):
    fedcopl_lab._errors.FedCoPLError: q_conf=1.5 is outside [0, 1]; choose a quantile level such as 0.5
    """


def check_choice(name: str, value: object, known: Iterable[object]) -> None:
    """Refuse a word that is not among the known ones.

    >>> check_choice("mode", "code", ("paper", "authors"))
    Traceback (most recent call last):
    fedcopl_lab._errors.FedCoPLError: mode='code' is unknown; choose one of paper, authors
    """
    words = list(known)
    if value not in words:
        raise FedCoPLError(f"{name}={value!r} is unknown; choose one of {', '.join(map(str, words))}")


def pick(options: Mapping[str, _T], name: str, what: str) -> _T:
    """The option of that name, or an error that lists the options."""
    check_known(name, options, what)
    return options[name]


def check_known(name: str, known: Iterable[str], what: str) -> None:
    """Refuse a name that is not among the known ones; the error lists them."""
    names = list(known)
    if name not in names:
        raise FedCoPLError(f"unknown {what} {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}")


def did_you_mean(name: str, known: Any) -> str:
    """``"; did you mean …?"`` when a known name is close, else nothing."""
    spelled = {str(one).lower(): one for one in known}
    close = difflib.get_close_matches(str(name).lower(), spelled, n=1)
    return f"; did you mean {spelled[close[0]]!r}?" if close else ""


def check_columns(name: str, columns: Iterable[str], table: Iterable[object], remedy: str) -> None:
    """Refuse a table without some of these columns."""
    there = set(table)
    if missing := [column for column in columns if column not in there]:
        raise FedCoPLError(f"the {name} lack the columns {', '.join(missing)}; {remedy}")


class StoreError(FedCoPLError):
    """The run store cannot be read or written as it must be."""
