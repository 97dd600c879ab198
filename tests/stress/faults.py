"""Faults put in on purpose: each is answered by a sentence or by the same bytes, never by half a result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from findings import Finding
from processes import call
from workloads import SAGE, promised, warm

import fedcopl_lab as lab
from fedcopl_lab.store import Run, Store

Fault = Callable[[Path], str]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    """Enter a function in the list; it gets an empty folder, runs in a process of its own and tells the outcome."""
    return lambda function: FAULTS.setdefault(name, function)


def inject_all(scratch: Path, names: tuple[str, ...] | None = None) -> Iterator[Finding]:
    """Every fault, or those named, each in a process of its own."""
    import faults_of_runs  # noqa: F401  each enters its own
    import faults_of_storage  # noqa: F401

    warm()
    for name in names or FAULTS:
        folder = scratch / name.replace(" ", "_").replace(",", "")
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        try:
            log = scratch / "log" / f"{folder.name}.log"
            outcome, passed = call(lambda n=name, d=folder: FAULTS[n](d), log, 900), True
        except (AssertionError, TimeoutError) as error:
            outcome, passed = " ".join(str(error).split())[-400:], False
        yield Finding("faults", name, "answered as documented", int(passed), "1", passed, outcome)


def run(folder: Path, config: lab.RunConfig = SAGE) -> Run:
    """Compute, or go on."""
    return lab.run(config, Store(folder), progress=False)


def refused(work: Callable[[], object], *words: str) -> str:
    """The sentence with which a call is refused; it has to be one line with these words."""
    try:
        work()
    except lab.FedCoPLError as error:
        text = str(error)
        missing = [word for word in words if word not in text]
        assert "\n" not in text, text
        assert not missing, f"{missing} not in: {text}"
        return text
    raise AssertionError("nothing was refused")


@contextmanager
def recovering(folder: Path, config: lab.RunConfig = SAGE) -> Iterator[Path]:
    """A store in which something fails; the next call has to end with the bytes of an undisturbed run."""
    run(folder / "whole", config)
    yield folder / "store"
    run(folder / "store", config)
    assert promised(folder / "store") == promised(folder / "whole")
