"""Faults inside the work itself: numbers that are none, clients with nothing to do, a worker that is killed."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from faults import fault, recovering, refused, run
from processes import start
from seams import everywhere, patched, without_labels
from workloads import PROMPTING, SAGE, compute, promised

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import SAGE_METHODS
from fedcopl_lab.store import Store

TWO_LONG_RUNS = [replace(SAGE, seed=seed, rounds=40) for seed in range(2)]


def rounds_stored(store: Path) -> int:
    return sum(one.rounds_done() for one in Store(store).runs())


@fault("a loss that is no number, prompts")
def _nan_loss(folder: Path) -> str:
    text = refused(lambda: run(folder / "store", replace(PROMPTING, lr=1e30)), "finite numbers")
    assert not rounds_stored(folder / "store")
    return text


@fault("a loss that is no number, every method of SAGE's tables")
def _nan_loss_of_sage(folder: Path) -> str:
    small = {"lr": 1e30, "rounds": 2, "width": 0.25, "n_probe": 20, "steps_per_epoch": 2, "participation": 0.1}
    for method in SAGE_METHODS:
        config = lab.configure("smoke", method=method, **small)
        refused(lambda c=config: run(folder / "store", c), "finite numbers")
    assert not rounds_stored(folder / "store")
    return f"{len(SAGE_METHODS)} methods refuse the round, nothing is stored"


@fault("a client left without selected samples")
def _nothing_selected(folder: Path) -> str:
    with without_labels(client=0):
        done = run(folder / "store", PROMPTING)
    assert all(row["participants"] == [1, 2] for row in done.records())
    return "left out of the round, the others train and are averaged"


@fault("a shard without test images")
def _no_tests(folder: Path) -> str:
    def without_tests(*args: object, **kwargs: object) -> lab.Federation:
        drawn = lab.partition(*args, **kwargs)  # type: ignore[arg-type]
        first, *others = drawn.shards
        return replace(drawn, shards=(lab.Shard(first.train, np.array([], dtype=np.int64)), *others))

    with patched(*everywhere("methods", "partition", without_tests)):
        done = run(folder / "store", PROMPTING)
    for row in done.records():
        first, *others = row["clients"]["accuracy"]
        assert first is None
        assert row["accuracy"] == float(np.mean(others))
    return "no accuracy for it, left out of the means"


@fault("all clients of a round failing")
def _all_fail(folder: Path) -> str:
    with recovering(folder, PROMPTING) as store:
        with without_labels(client=None, round_index=1):
            text = refused(lambda: run(store, PROMPTING), "round 2", "0 pseudo-labelled images")
        assert rounds_stored(store) == 1
    return f"{text.split(';')[0]}; the round before is kept, the next call ends with the same bytes"


@fault("an error of one client")
def _one_fails(folder: Path) -> str:
    config = replace(PROMPTING, clients_per_forward=1)  # the fifth call is that of client 1 in round 2
    calls = [0]

    def fails(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        if calls[0] == 5:
            raise MemoryError("no memory for client 1")
        return lab.train_round(*args, **kwargs)

    with recovering(folder, config) as store:
        with patched(*everywhere("methods", "train_round", fails)):
            try:
                run(store, config)
            except MemoryError as error:
                text = str(error)
        assert rounds_stored(store) == 1
    return f"{text}: the round is not stored, the next call ends with the same bytes"


@fault("a worker killed as by lack of memory in a parallel sweep")
def _killed_worker(folder: Path) -> str:
    store, killed = Store(folder / "store"), []
    keys = [key_of(config) for config in TWO_LONG_RUNS]

    def kill_one() -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not killed:
            if any(store.run(key).rounds_done() for key in keys):
                killed.append(_workers()[0])
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.02)

    thread = threading.Thread(target=kill_one)
    thread.start()
    sweep = {"store": store, "progress": False}
    text = refused(lambda: lab.sweep(TWO_LONG_RUNS, jobs=2, **sweep), "killed from outside", "fewer jobs")
    thread.join()
    kept = rounds_stored(store.root)
    assert killed
    assert kept
    _wait_until_gone(_workers())
    _sweep_to_the_same_bytes(folder)
    return f"{text.split(',')[0]}; {kept} rounds kept, the next call ends with the same bytes of 2 runs"


@fault("a parallel sweep killed as a whole")
def _killed_sweep(folder: Path) -> str:
    store = Store(folder / "store")
    sweeping = start(lambda mark: lab.sweep(TWO_LONG_RUNS, store, jobs=2, progress=False), folder / "sweep.log")
    deadline = time.monotonic() + 300
    while not rounds_stored(store.root) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = _workers(sweeping.pid)
    os.kill(sweeping.pid, signal.SIGKILL)
    sweeping.end()
    assert len(workers) == 2
    _wait_until_gone(workers)
    kept = rounds_stored(store.root)
    _sweep_to_the_same_bytes(folder)
    return f"its workers ended with it; {kept} rounds kept, the next call ends with the same bytes"


def _sweep_to_the_same_bytes(folder: Path) -> None:
    assert all(one.complete for one in lab.sweep(TWO_LONG_RUNS, Store(folder / "store"), jobs=1, progress=False))
    compute(*TWO_LONG_RUNS)(folder / "alone")
    assert promised(folder / "store") == promised(folder / "alone")


def _wait_until_gone(workers: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(_lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_lives, workers)), "a worker outlived the sweep"


def _stat(process: Path) -> list[str]:
    """State, parent, … of a process, from the kernel."""
    return (process / "stat").read_text().rsplit(")", 1)[1].split()


def _lives(process: int) -> bool:
    try:
        return _stat(Path("/proc") / str(process))[0] not in "ZX"
    except OSError:
        return False


def _workers(parent: int | None = None) -> list[int]:
    """Worker processes of this or another one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int(_stat(path)[1]) == (parent or os.getpid()) and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (OSError, ValueError):
            continue
    return found
