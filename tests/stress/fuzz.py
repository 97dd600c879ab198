"""Bad input of every kind: each generated case ends soon, with a result or with a documented error."""

import contextlib
import io
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from findings import Finding
from processes import call

import fedcopl_lab as lab

SECONDS_EACH = 20
Case = Callable[[], object]
Target = Callable[[random.Random, Path], Case]
"""(random numbers, a folder) -> a case, ready to be tried."""
TARGETS: dict[str, Target] = {}

WORDS = ("", " ", "digits", "FedCoPL", "SAGE", "smoke", "nan", "-1", "1e400", "../..", "<script>alert(1)</script>", "é",
         "\0", "a" * 300, "{}", "null", "true", "cifar10:", "cifar10:0", "digits:20", "folder:", "folder:/nowhere",
         "%s", "$(touch x)", "cuda:99", "None")  # fmt: skip
NUMBERS = (0, 1, 2, 5, -1, 10**9, 2**63, -(2**70), 0.0, 0.5, 1.0, 1.5, -0.1, 1e-300, 1e300, float("nan"), float("inf"))
VALUES = (*WORDS, *NUMBERS, None, True, False, [], {}, [1], {"a": 1}, (), b"bytes")


def target(name: str) -> Callable[[Target], Target]:
    """Enter a function in the list."""
    return lambda function: TARGETS.setdefault(name, function)


def fuzz_all(scratch: Path, seed: int, cases: int) -> Iterator[Finding]:
    """So many generated cases for every target, each target in a process of its own."""
    import fuzz_files  # noqa: F401  enters its own
    import fuzz_functions  # noqa: F401  enters its own

    total = 0
    for name, make in TARGETS.items():
        folder = scratch / name.replace(" ", "_")
        folder.mkdir()
        draw = random.Random(f"{seed} {name}")
        work = partial(_try_all, make, draw, folder, cases)
        ends, problems = call(work, scratch / f"{folder.name}.log", 1200)
        note = "; ".join(problems)[:600] or ", ".join(f"{n} {kind}" for kind, n in ends)
        yield Finding("fuzz", name, "cases", cases, "documented errors only", not problems, note)
        total += cases
    yield Finding("fuzz", "everything", "cases", total, "", True)


def _try_all(make: Target, draw: random.Random, folder: Path, cases: int) -> tuple[list[tuple[str, int]], list[str]]:
    ends: Counter[str] = Counter()
    problems: dict[str, None] = {}
    for number in range(cases):
        case = make(draw, folder)
        try:
            with _soon(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                case()
            ends["answered"] += 1
        except lab.FedCoPLError as error:
            ends["refused"] += 1
            if not str(error) or len(str(error)) > 5000:
                problems[f"case {number}: no sentence: {error!r}"] = None
        except BaseException as error:
            where = _place(error)
            problems.setdefault(f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:120]}")
    return sorted(ends.items()), list(problems)


def _place(error: BaseException) -> str:
    trace, place = error.__traceback__, "?"
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if "fedcopl_lab/" in name:
            place = f"{name.rsplit('fedcopl_lab/', 1)[1]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


@contextmanager
def _soon() -> Iterator[None]:
    def hangs(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS_EACH} s")

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS_EACH)
    try:
        yield
    finally:
        signal.alarm(0)


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damaged(draw: random.Random, content: bytes) -> bytes:
    """The same bytes with one injury: cut, flipped, doubled, overwritten or emptied."""
    data = bytearray(content)
    at = draw.randrange(len(data)) if data else 0
    kind = draw.randrange(6)
    if kind == 0:
        del data[at:]
    elif kind == 1 and data:
        data[at] ^= 1 << draw.randrange(8)
    elif kind == 2:
        data[at:at] = data[: draw.randrange(1, 50)]
    elif kind == 3:
        data[at : at + 8] = bytes(draw.randrange(256) for _ in range(8))
    elif kind == 4:
        data[:] = bytes(draw.randrange(256) for _ in range(draw.randrange(100)))
    else:
        del data[at : at + draw.randrange(1, 40)]
    return bytes(data)


def plain(draw: random.Random, depth: int = 2) -> Any:
    """Any value that JSON can hold."""
    kind = draw.randrange(8 if depth else 5)
    if kind < 5:
        return draw.choice([value for value in VALUES if isinstance(value, str | int | float | bool | None)])
    if kind == 5:
        return [plain(draw, depth - 1) for _ in range(draw.randrange(4))]
    return {draw.choice(WORDS): plain(draw, depth - 1) for _ in range(draw.randrange(4))}
