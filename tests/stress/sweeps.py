"""Sweeps on Ray: with one worker, with two, and with two of which one is killed in the middle of a run."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from findings import Finding
from processes import call

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Store

LIMIT = 1200.0  # seconds for a sweep


def sweep_all(scratch: Path, n_runs: int, timed: bool) -> Iterator[Finding]:
    """Every run whole, whatever becomes of a worker; and what a second worker gains, where that is asked for."""
    killed, whole, leases = call(lambda: _lose_a_worker(scratch / "lossy", n_runs), scratch / "lossy.log", LIMIT)
    name = "a worker killed within a run"
    yield Finding("ray", name, "workers killed", killed, "1", killed == 1)
    yield Finding("ray", name, "runs stored whole", whole, str(n_runs), whole == n_runs)
    yield Finding("ray", name, "leases left", leases, "0", leases == 0)
    if timed:
        one, two = (call(lambda j=j: _timed(scratch / f"{j}", n_runs, j), scratch / f"{j}.log", LIMIT) for j in (1, 2))
        yield Finding("ray", f"{n_runs} runs, Ray's start and end included", "speed-up of two workers over one",
                      one / two, "", True, f"{one:.0f} s and {two:.0f} s")  # fmt: skip


def _configs(n_runs: int) -> list[lab.RunConfig]:
    return [lab.configure("smoke", seed=seed, local_epochs=1, rounds=3) for seed in range(n_runs)]


def _timed(root: Path, n_runs: int, jobs: int) -> float:
    start = time.perf_counter()
    _sweep(Store(root), _configs(n_runs), jobs)
    return time.perf_counter() - start


def _lose_a_worker(root: Path, n_runs: int) -> tuple[int, int, int]:
    """Workers killed, runs that hold each of their rounds, leases left."""
    from fedcopl_lab.extras.cluster import lease

    store, configs, over, killed = Store(root), _configs(n_runs), threading.Event(), []

    def kill() -> None:
        # the worker that computes the middle run or a later one, once a round of it is stored
        while not killed and not over.wait(0.02):
            for key in map(key_of, configs[n_runs // 2 :]):
                holder, run = lease(store.root, key).pid, store.run(key)
                if holder and run.rounds_done() and not run.complete:
                    os.kill(holder, signal.SIGKILL)
                    killed.append(key)
                    return

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    _sweep(store, [*configs, configs[0]], 2)
    over.set()
    killer.join()
    stored = [run for run in store.runs() if run.complete and run.rows["round"].tolist() == [1, 2, 3]]
    return len(killed), len({run.key for run in stored}), len(list((root / ".leases").iterdir()))


def _sweep(store: Store, configs: list[lab.RunConfig], jobs: int) -> None:
    from fedcopl_lab.extras.cluster import ray_sweep

    logging.getLogger("ray").setLevel(logging.ERROR)
    runs = ray_sweep(configs, store, jobs=jobs, progress=False)
    assert [run.key for run in runs] == [key_of(config) for config in configs]
