"""Typed access to the fields of a TOML file; every complaint names the file, the field and what it should be."""

import re
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fedcopl_lab._errors import FedCoPLError

Value = TypeVar("Value")


class Fields:
    """The contents of one file, or of one table inside it."""

    def __init__(self, path: Path, table: dict[str, Any], prefix: str = "") -> None:
        self.path, self._table, self._prefix = path, table, prefix

    def get(
        self, field: str, expected: str, convert: Callable[[Any], Value | None], default: Value | None = None
    ) -> Value:
        """A field that ``convert`` accepts, that is, does not answer with None; ``default`` where it is missing."""
        value: Any = self._table
        for key in field.split("."):
            if not isinstance(value, dict) or key not in value:
                if default is not None:
                    return default
                raise self.problem(field, f"is missing; expected {expected}")
            value = value[key]
        converted = convert(value)
        if converted is None:
            raise self.problem(field, f"is {reprlib.repr(value)}; expected {expected}")
        return converted

    def text(self, field: str, default: str | None = None) -> str:
        """A text that is not empty."""
        return self.get(field, "a text that is not empty", lambda v: v if _is_text(v) and v.strip() else None, default)

    def count(self, field: str, default: int | None = None) -> int:
        """A whole number of 1 or more."""
        return self.get(field, "a whole number of 1 or more", lambda v: v if _is_int(v) and v >= 1 else None, default)

    def texts(self, field: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of texts; an empty one is accepted only where a default is given."""
        return self.get(field, "a list of texts", lambda v: default if v == [] else _tuple_of(v, _is_text), default)

    def indices(self, field: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A list of whole numbers from 0."""
        expected = "a list of whole numbers from 0"
        return self.get(field, expected, lambda v: _tuple_of(v, lambda x: _is_int(x) and x >= 0), default)

    def numbers(self, field: str, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """A list of numbers."""
        return tuple(map(float, self.get(field, "a list of numbers", lambda v: _tuple_of(v, _is_number), default)))

    def checksum(self, field: str, digits: int) -> str:
        """A checksum in lower-case hexadecimal digits, or ``""`` when the field is not there."""
        shape = re.compile(rf"[0-9a-f]{{{digits}}}")
        expected = f"{digits} hexadecimal digits"
        return self.get(field, expected, lambda v: v if _is_text(v) and shape.fullmatch(v) else None, "")

    def counts_by_share(self, field: str) -> tuple[tuple[float, int], ...]:
        """Pairs of a share and a whole number, from a table; none when the field is not there."""
        return self.get(field, "a table from shares in (0, 1) to whole numbers of 1 or more", _counts_by_share, ())

    def tables(self, field: str) -> tuple["Fields", ...]:
        """A list of tables, each with its own typed access; none when the field is not there."""
        tables: tuple[dict[str, Any], ...] = self.get(
            field, "a list of tables", lambda v: _tuple_of(v, lambda x: isinstance(x, dict)), ()
        )
        return tuple(Fields(self.path, table, f"{self._prefix}{field}[{i}].") for i, table in enumerate(tables))

    def problem(self, field: str, what: str) -> FedCoPLError:
        """The error that says what is wrong with a field."""
        return FedCoPLError(f"{self.path}: field {self._prefix + field!r} {what}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or isinstance(value, float)


def _counts_by_share(value: object) -> tuple[tuple[float, int], ...] | None:
    if not isinstance(value, dict):
        return None
    try:
        pairs = tuple((float(share), count) for share, count in value.items())
    except ValueError:
        return None
    return pairs if all(0 < share < 1 and _is_int(count) and count >= 1 for share, count in pairs) else None


def _tuple_of(value: object, accepts: Callable[[Any], bool]) -> tuple[Any, ...] | None:
    return tuple(value) if isinstance(value, list) and value and all(map(accepts, value)) else None
