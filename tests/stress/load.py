"""Large federations and large stores: what time and memory grow by when the size doubles."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from findings import Finding
from processes import call
from workloads import SAGE, compute

import fedcopl_lab as lab
from fedcopl_lab._files import to_json
from fedcopl_lab.paper import find_items, run_table, runs_of
from fedcopl_lab.store import Store

IMAGES_PER_CLIENT, CLASSES, WIDTH = 200, 200, 512
SEVERAL_TIMES = 6  # the inputs that a step may take beside them
SLACK_BYTES = 200_000_000

Measured = tuple[float, int, int]  # seconds of the processor, bytes beyond the start, bytes of the input
Step = tuple[Callable[[], object], int]  # the work, bytes of its input


def measure(scratch: Path, short: bool) -> Iterator[Finding]:
    """Growth of every step over doubling numbers of clients, a large store, a large plan."""
    sizes = (250, 1000) if short else (125, 250, 500, 1000)
    for name, step in STEPS.items():
        measured = [call(lambda s=step, n=n: _measured(*s(n)), scratch / f"{name}.log") for n in sizes]
        yield from _growth(name, sizes, measured)
    yield from _store(scratch, 1_000 if short else 10_000)
    yield _plan()


def _growth(name: str, sizes: tuple[int, ...], measured: list[Measured]) -> list[Finding]:
    seconds, peaks, inputs = zip(*measured, strict=True)
    exponent = float(np.polyfit(np.log(sizes), np.log(np.maximum(seconds, 1e-4)), 1)[0])
    bound = SEVERAL_TIMES * inputs[-1] + SLACK_BYTES
    note = f"{sizes[-1]} clients × {CLASSES} classes: {seconds[-1]:.2f} s, {peaks[-1] / 1e6:.0f} MB"
    return [
        # a busy machine bends the curve a little; squares would give 2
        Finding("load", name, "growth exponent of time", exponent, "1.3 or less", exponent <= 1.3, note),
        Finding("load", name, "MB beyond the start", peaks[-1] / 1e6, f"{bound / 1e6:.0f} or less", peaks[-1] <= bound),
    ]


def _measured(work: Callable[[], object], size: int) -> Measured:
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before, start = _memory("VmRSS"), time.process_time()
    work()
    return time.process_time() - start, max(_memory("VmHWM") - before, 0), size


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def _partition(n: int) -> Step:
    train, test = np.random.default_rng(0).integers(0, CLASSES, n * IMAGES_PER_CLIENT), np.arange(n * 10) % CLASSES
    return lambda: lab.dirichlet_partition(train, test, n, 0.5, min_train=1), 2 * train.nbytes


def _logits() -> torch.Tensor:
    return torch.randn(IMAGES_PER_CLIENT, CLASSES, generator=torch.Generator().manual_seed(0))


def _filter(n: int) -> Step:
    logits = _logits()
    return lambda: [lab.filter_confident(logits).counts for _ in range(n)], logits.nbytes


def _counts(n: int) -> torch.Tensor:
    return torch.randint(0, 20, (n, CLASSES), generator=torch.Generator().manual_seed(0))


def _allocate(n: int) -> Step:
    counts = _counts(n)
    return lambda: [lab.allocate(counts) for _ in range(50)], counts.nbytes


def _select(n: int) -> Step:
    logits, quota = _logits(), _counts(n)
    return lambda: [lab.select_top(logits, own) for own in quota], logits.nbytes + quota.nbytes


def _aggregate(n: int) -> Step:
    stacked = torch.ones(n, 16, WIDTH)
    return lambda: lab.aggregate(stacked, torch.arange(1, n + 1)), stacked.nbytes


STEPS = {"partition": _partition, "filter": _filter, "allocate": _allocate, "select": _select, "aggregate": _aggregate}


def _store(scratch: Path, n_runs: int) -> list[Finding]:
    """A store of so many runs, made of one: listed, filtered, read for a report."""
    folder = scratch / "store"
    call(lambda: bool(compute(SAGE)(folder)), scratch / "store.log")
    store = Store(folder)
    (model,) = store.runs()
    for seed in range(1, n_runs):
        path = folder / f"{seed:016x}"
        shutil.copytree(model.path, path, ignore=shutil.ignore_patterns("state-*", "split.json"))
        (path / "config.json").write_text(to_json(replace(SAGE, seed=seed).as_dict()))
    return [
        _timed(f"{n_runs} runs listed", lambda: len(lab.runs(store)), n_runs, 30),
        _timed(f"{n_runs} runs filtered to one", lambda: len(lab.runs(store, seed=n_runs - 1)), 1, 20),
        _timed(f"{n_runs} runs looked through for a key", lambda: len([store.find(model.key)]), 1, 5),
        _timed(f"{n_runs} runs as origins of a report", lambda: len(run_table(store.runs())), n_runs, 40),
    ]


def _plan() -> Finding:
    def plan() -> int:
        return len({config for _, _, config in runs_of(find_items(["all"]), "paper")})

    n = plan()  # reads the items
    return _timed(f"{n} configurations of the paper profile built", plan, n, 2)


def _timed(name: str, work: Callable[[], int], wanted: int, limit: float) -> Finding:
    start = time.process_time()  # of the processor: other work on the machine does not count
    number = work()
    seconds = time.process_time() - start
    passed = number == wanted and seconds < limit
    return Finding("load", name, "seconds", round(seconds, 2), f"below {limit:g}", passed, f"{number} of {wanted}")
