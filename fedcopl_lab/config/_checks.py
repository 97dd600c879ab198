"""What every configuration checks: names that exist, choices, ranges; each error says what would be right."""

import difflib
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from fedcopl_lab._errors import FedCoPLError

_T = TypeVar("_T")


def pick(options: Mapping[str, _T], name: str, what: str) -> _T:
    """The option of that name, or an error that lists the options."""
    if name not in options:
        raise FedCoPLError(f"unknown {what} {name!r}{did_you_mean(name, options)}; known: {', '.join(options)}")
    return options[name]


def did_you_mean(name: str, known: Any) -> str:
    """``"; did you mean …?"`` when a known name is close, else nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_choice(name: str, value: Any, annotation: Any) -> None:
    """Refuse a value that the field's Literal does not list."""
    choices = _choices(annotation)
    if choices and value not in choices:
        raise FedCoPLError(f"{name}={value!r} is unknown; choose one of {', '.join(map(str, choices))}")


def check(name: str, value: Any, holds: Any, expected: str) -> None:
    """Refuse a value for which ``holds`` is false, or which it cannot even compare."""
    try:
        good = bool(holds(value))
    except TypeError:
        good = False
    if not good:
        raise FedCoPLError(f"{name}={value!r} is not valid; expected {expected}")


def check_counts(config: Any, names: tuple[str, ...], least: int) -> None:
    """Refuse any of these fields that is not a whole number of at least ``least``."""
    for name in names:
        check(name, getattr(config, name), lambda v: isinstance(v, int) and v >= least,
              f"a whole number, {least} or more")  # fmt: skip


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    literals = [arm for arm in get_args(annotation) if get_origin(arm) is Literal]
    return (*get_args(literals[0]), None) if literals else ()
