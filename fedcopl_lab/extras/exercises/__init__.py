"""Exercises: write a step yourself; :func:`check` finds the smallest case where yours differs from a slow reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, pick
from fedcopl_lab._html import table
from fedcopl_lab.extras.exercises._cases import EXERCISES, Arguments, Exercise
from fedcopl_lab.seeding import torch_generator

__all__ = ["EXERCISES", "Checked", "Exercise", "check"]


@dataclass(frozen=True, repr=False)
class Checked:
    """What a check found.

    Attributes:
        name: of the exercise.
        n_cases: cases that were tried.
        n_wrong: cases in which the function differs from the reference.
        arguments: of the smallest of these; empty when all is right.
        expected: what the reference gives there.
        found: what the function gave there, or its error.
        hint: what to think of.
    """

    name: str
    n_cases: int
    n_wrong: int
    arguments: Arguments
    expected: Any = None
    found: Any = None
    hint: str = ""

    @property
    def passed(self) -> bool:
        """Whether every case is right."""
        return not self.n_wrong

    def _lines(self) -> list[tuple[str, str]]:
        given = [(name, str(_plain(value))) for name, value in self.arguments.items()]
        return [*given, ("expected", str(self.expected)), ("yours", str(self.found)), ("hint", self.hint)]

    def __repr__(self) -> str:
        if self.passed:
            return f"{self.name}: right in all {self.n_cases} cases"
        head = f"{self.name}: wrong in {self.n_wrong} of {self.n_cases} cases; the smallest:"
        return "\n".join([head, *(f"  {name:>9}: {value}" for name, value in self._lines())])

    def _repr_html_(self) -> str:
        if self.passed:
            return table([["all right", f"{self.n_cases} cases"]], caption=self.name)
        return table(self._lines(), caption=f"{self.name}: wrong in {self.n_wrong} of {self.n_cases} cases")


def check(name: str, mine: Callable[..., Any], cases: int = 200, seed: int = 0) -> Checked:
    """Compare your function with a slow reference on generated cases, and show the smallest one where they differ.

    Args:
        name: ``"filter_confident"``, ``"allocate"``, ``"select_top"``, ``"aggregate"`` or
            ``"correct_pseudo_labels"``; :data:`EXERCISES` says what each takes and gives.
        mine: your function; it may also be the library's own.
        cases: how many cases.
        seed: of the cases.

    Returns:
        Whether all is right; else the smallest case, what was expected, what came, and a hint.

    Raises:
        FedCoPLError: no such exercise, or something that cannot be called.

    >>> lab.exercises.check("allocate", lab.allocate)
    allocate: right in all 200 cases
    >>> lab.exercises.check("aggregate", lambda stacked, weights: stacked.mean(dim=0)).passed
    False

    Shown in notebook ``exercises``.
    """
    exercise = pick(EXERCISES, name, "exercise")
    if not callable(mine):
        raise FedCoPLError(f"{mine!r} cannot be called; pass the function itself: check({name!r}, mine)")
    if cases < 1:
        raise FedCoPLError(f"cases={cases}; expected 1 or more")
    generator, wrong = torch_generator(seed, "exercise", name), []
    for _ in range(cases):
        arguments = exercise.draw(generator)
        expected = exercise.reference(**arguments)
        found, right = _tried(exercise, mine, arguments, expected)
        if not right:
            size = sum(one.numel() if isinstance(one, Tensor) else 1 for one in arguments.values())
            wrong.append((size, arguments, expected, found))
    if not wrong:
        return Checked(name, cases, 0, {})
    _, arguments, expected, found = min(wrong, key=lambda case: case[0])
    hint = " ".join(text for fits, text in exercise.hints if fits(arguments))
    return Checked(name, cases, len(wrong), arguments, _plain(expected), _plain(found), hint)


def _tried(
    exercise: Exercise, mine: Callable[..., Any], arguments: Arguments, expected: Sequence[Tensor]
) -> tuple[Any, bool]:
    """What a function gave, and whether that is right; its error where it raised one."""
    copies = {name: one.clone() if isinstance(one, Tensor) else one for name, one in arguments.items()}
    try:
        found = mine(**copies)
        if found is None:
            return "nothing: the function returns None", False
        parts = exercise.answer(found)
    except Exception as error:  # whatever a reader's function raises belongs to the answer
        return f"{type(error).__name__}: {error}", False
    return parts, len(parts) == len(expected) and all(map(_close, parts, expected))


def _close(found: Any, expected: Tensor) -> bool:
    try:
        same = torch.as_tensor(found).shape == expected.shape
        return bool(same and torch.allclose(torch.as_tensor(found).double(), expected.double(), rtol=1e-4, atol=1e-5))
    except (TypeError, ValueError, RuntimeError):
        return False


def _plain(value: Any) -> Any:
    """Numbers and lists, rounded for reading."""
    if isinstance(value, tuple):
        plain = [_plain(one) for one in value]
        return plain[0] if len(plain) == 1 else plain
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value
