"""The one place where the stress run reaches inside the package: what is struck, replaced, slowed or fed."""

import importlib
import os
import pkgutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from fedcopl_lab.methods import PromptClient, PromptServer, SageClient
from fedcopl_lab.methods.protocol import InProcess, Letter, Tensors
from fedcopl_lab.store import Run

Place = tuple[Any, str]
LABELLING: tuple[Place, ...] = ((PromptServer, "_label"),)
TRAINING: tuple[Place, ...] = ((PromptClient, "work_together"), (SageClient, "work"))


@cache
def places(package: str, name: str) -> tuple[Place, ...]:
    """Every module of a package of the library that holds a name: where it is defined, and where it is imported to."""
    root = importlib.import_module(f"fedcopl_lab.{package}")
    inside = pkgutil.walk_packages(getattr(root, "__path__", ()), f"{root.__name__}.")
    modules = [root, *(importlib.import_module(found.name) for found in inside)]
    return tuple((module, name) for module in modules if name in vars(module))


def internal(package: str, name: str) -> Any:
    """A private function or class of a package."""
    return getattr(*places(package, name)[0])


@contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes of modules or classes that are others meanwhile."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def everywhere(package: str, name: str, value: Any) -> list[tuple[Any, str, Any]]:
    """The changes that :func:`patched` needs for a name in all modules of a package."""
    return [(*place, value) for place in places(package, name)]


def committing(after: Callable[[Run], object]) -> Any:
    """Rounds are stored as ever, and then this is called."""
    commit = Run.commit

    def commit_and_more(self: Run, *args: Any) -> None:
        commit(self, *args)
        after(self)

    return patched((Run, "commit", commit_and_more))


def last_client_first() -> Any:
    """A round's clients train from the last to the first; what the server receives keeps its order."""
    ask = InProcess.ask

    def backwards(self: Any, letters: dict[int, Any], expected: Any) -> Any:
        trains = next(iter(letters.values())).kind == "train"
        return ask(self, dict(reversed(letters.items())) if trains else letters, expected)

    return patched((InProcess, "ask", backwards))


def without_labels(client: int | None, round_index: int | None = None) -> Any:
    """A label phase selects nothing for a client, or for all of them; in one round, or in every one."""
    select = PromptClient._select

    def selected(self: PromptClient, letter: Letter) -> Tensors:
        entry = select(self, letter)
        if client not in (None, self.client) or round_index not in (None, letter.round):
            return entry
        empty = {name: entry[name][:0] for name in ("indices", "labels")}
        return entry | empty | {"selected": torch.tensor(0)}

    return patched((PromptClient, "_select", selected))


def slow_disk() -> None:
    """Make this process's files take as long as on a bad disk, so that a kill can fall between their steps."""
    sync, replace_file = os.fsync, os.replace

    def slow_sync(descriptor: int) -> None:
        time.sleep(0.004)
        sync(descriptor)

    def slow_replace(source: Any, target: Any) -> None:
        time.sleep(0.002)
        replace_file(source, target)

    os.fsync, os.replace = slow_sync, slow_replace
