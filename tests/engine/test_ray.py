"""Sweeps on Ray: every run once, also when a worker is killed."""

import os
import signal
import threading

import pytest

from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab.store import Store

pytest.importorskip("ray", reason="the extra cluster is not installed")
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

QUICK = {"method": "PromptFL", "n_clients": 3, "dataset": "digits:240", "scheme": "iid", "local_epochs": 1}


def kill_a_worker(store, configs, killed):
    """Kill the process that computes one of these runs, once a round of it is stored."""
    from fedcopl_lab._identity import key_of
    from fedcopl_lab.engine._lease import holder_of

    waiting = threading.Event()
    for _ in range(2400):
        for config in configs:
            key = key_of(config)
            holder = holder_of(store.root, key)
            if holder and store.run(key).rounds_done() and not store.run(key).complete:
                os.kill(holder["pid"], signal.SIGKILL)
                killed.append(key)
                return
        waiting.wait(0.05)


def test_a_lost_worker_costs_no_run_and_doubles_none(tmp_path):
    from fedcopl_lab.engine import ray_sweep

    store = Store(tmp_path)
    configs = [configure("smoke", seed=s, rounds=4, **QUICK) for s in range(6)]
    killed = []
    killer = threading.Thread(target=kill_a_worker, args=(store, configs, killed))
    killer.start()
    runs = ray_sweep([*configs, configs[0]], store, jobs=2, progress=False)
    killer.join()
    assert len(killed) == 1
    assert all(run.complete for run in runs)
    assert len({run.key for run in runs}) == len(store.runs()) == 6
    assert all(run.rows["round"].tolist() == [1, 2, 3, 4] for run in runs)
    assert not list((tmp_path / ".leases").iterdir())


def test_the_error_of_a_run_is_told_and_the_others_stay(tmp_path):
    from fedcopl_lab.engine import ray_sweep

    good = configure("smoke", rounds=1, **QUICK)
    bad = configure("smoke", rounds=1, **QUICK | {"n_clients": 200})
    with pytest.raises(FedCoPLError, match="n_clients=200"):
        ray_sweep([good, bad], Store(tmp_path), jobs=1, progress=False)


def test_a_run_that_no_machine_can_hold_is_refused(tmp_path, monkeypatch):
    from fedcopl_lab.engine import _ray, ray_sweep
    from fedcopl_lab.engine._needs import Needs

    monkeypatch.setattr(_ray, "needs_of", lambda config: Needs(1, 0, 10**15))
    with pytest.raises(FedCoPLError, match="needs memory 1,000,000,000,000,000"):
        ray_sweep([configure("smoke", rounds=1, **QUICK)], Store(tmp_path), jobs=1, progress=False)
