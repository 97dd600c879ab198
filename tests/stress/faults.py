"""Faults put in on purpose: each is answered by a sentence or by the same bytes, never by half a result."""

from collections.abc import Callable, Iterator
from pathlib import Path

from children import call
from findings import Finding
from workloads import NOT_PROMISED, SAGE, visible, warm

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.store import Run, Store

Fault = Callable[[Path], str]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    """Enter a function in the list; it gets an empty folder, runs in a process of its own and tells the outcome."""

    def enter(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return enter


def inject_all(scratch: Path, names: tuple[str, ...] | None = None) -> Iterator[Finding]:
    """Every fault, or those named, each in a process of its own."""
    import faults_of_disks  # noqa: F401  each enters its own
    import faults_of_runs  # noqa: F401
    import faults_of_stores  # noqa: F401

    warm()
    for name, function in FAULTS.items():
        if names is not None and name not in names:
            continue
        folder = scratch / name.replace(" ", "_").replace(",", "")
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        try:
            outcome, passed = call(lambda f=function, d=folder: f(d), scratch / "log" / f"{folder.name}.log", 900), True
        except (AssertionError, TimeoutError) as error:
            outcome, passed = " ".join(str(error).split())[-400:], False
        yield Finding("faults", name, "answered as documented", int(passed), "1", passed, outcome)


def content(folder: Path) -> dict[str, bytes]:
    """What is promised of a store."""
    return {name: data for name, data in visible(folder).items() if not name.endswith(NOT_PROMISED)}


def run(folder: Path, config: lab.RunConfig = SAGE) -> Run:
    """Compute, or go on."""
    return lab.run(config, Store(folder), progress=False)


def refused(work: Callable[[], object], *words: str) -> str:
    """The sentence with which a call is refused; it has to be one line with these words."""
    try:
        work()
    except FedCoPLError as error:
        text = str(error)
        missing = [word for word in words if word not in text]
        assert "\n" not in text, text
        assert not missing, f"{missing} not in: {text}"
        return text
    raise AssertionError("nothing was refused")


def whole(folder: Path, config: lab.RunConfig = SAGE) -> dict[str, bytes]:
    """The promised bytes of an undisturbed run."""
    run(folder, config)
    return content(folder)
