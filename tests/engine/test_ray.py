"""Sweeps on Ray: every run once, also when a worker is killed."""

import json

import pytest

from fedcopl_lab import configure
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Store

pytest.importorskip("ray", reason="the extra cluster is not installed")
pytestmark = [pytest.mark.cluster, pytest.mark.slow]

QUICK = {"method": "PromptFL", "n_clients": 3, "dataset": "digits:240", "scheme": "iid", "local_epochs": 1}


KILLED = """
import json, os, signal, sys, threading
from pathlib import Path
from fedcopl_lab import configure
from fedcopl_lab._identity import key_of
from fedcopl_lab.engine import ray_sweep
from fedcopl_lab.engine._lease import holder_of
from fedcopl_lab.store import Store

store, quick = Store(Path(sys.argv[1])), json.loads(sys.argv[2])
configs = [configure("smoke", seed=s, rounds=3, **quick) for s in range(4)]
killed = []

def kill_a_worker():
    # the process that computes one of these runs, once a round of it is stored
    while not killed:
        for key in map(key_of, configs):
            holder, run = holder_of(store.root, key), store.run(key)
            if holder and run.rounds_done() and not run.complete:
                os.kill(holder["pid"], signal.SIGKILL)
                killed.append(key)
                return
        waiting.wait(0.02)

waiting = threading.Event()
threading.Thread(target=kill_a_worker, daemon=True).start()
runs = ray_sweep([*configs, configs[0]], store, jobs=2, progress=False)
print("killed", *killed)
print("runs", *(run.key for run in runs))
"""

FAILS = """
import json, sys
from pathlib import Path
from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab.engine import _ray, ray_sweep
from fedcopl_lab.engine._needs import Needs
from fedcopl_lab.engine.flower import need
from fedcopl_lab.store import Store

need("ray").init(num_cpus=1, include_dashboard=False, log_to_driver=False)  # once for both
store, quick = Store(Path(sys.argv[1])), json.loads(sys.argv[2])
good = configure("smoke", rounds=1, **quick)
bad = configure("smoke", rounds=1, **quick | {"n_clients": 200})
try:
    ray_sweep([good, bad], store, progress=False)
except FedCoPLError as error:
    print("bad run:", error)
_ray.needs_of = lambda config: Needs(1, 0, 10**15)
try:
    ray_sweep([configure("smoke", rounds=1, seed=1, **quick)], store, progress=False)
except FedCoPLError as error:
    print("large run:", error)
"""


def test_a_lost_worker_costs_no_run_and_doubles_none(tmp_path, apart):
    told = dict(line.split(" ", 1) for line in apart(KILLED, tmp_path, json.dumps(QUICK)).splitlines()[-2:])
    store = Store(tmp_path)
    configs = [configure("smoke", seed=s, rounds=3, **QUICK) for s in range(4)]
    assert len(told["killed"].split()) == 1
    assert told["runs"].split() == [key_of(config) for config in [*configs, configs[0]]]
    runs = [store.run(key_of(config)) for config in configs]
    assert all(run.complete for run in runs)
    assert len(store.runs()) == 4
    assert all(run.rows["round"].tolist() == [1, 2, 3] for run in runs)
    assert not list((tmp_path / ".leases").iterdir())


def test_what_cannot_be_run_is_told_and_the_others_stay(tmp_path, apart):
    told = apart(FAILS, tmp_path, json.dumps(QUICK))
    assert "bad run: n_clients=200" in told
    assert "needs memory 1,000,000,000,000,000" in told.split("large run:")[1]
    assert Store(tmp_path).run(key_of(configure("smoke", rounds=1, **QUICK))).complete
