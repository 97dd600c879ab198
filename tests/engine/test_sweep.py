"""Many runs at once: in order, and no worker that outlives its sweep.

That runs in worker processes have the bytes of single calls stands in tests/methods/test_register.py.
"""

import multiprocessing
import os
import subprocess
import sys
from multiprocessing import connection

import pytest

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.engine import computed
from fedcopl_lab.store import Store

SHORT = {"dataset": "digits:600", "rounds": 3, "local_epochs": 1, "refresh_every": 2}


def test_runs_are_computed_in_the_order_given_and_asked_for_late(store):
    wanted = [lab.configure("smoke", method="zero-shot", seed=seed) for seed in (2, 0, 1)]
    asked = []

    def late():
        for config in wanted:
            asked.append(config)
            yield config

    for number, config in enumerate(computed(late(), store, jobs=1)):
        assert asked == wanted[: number + 1]
        assert config == wanted[number]
        assert store.run(key_of(config)).complete


@pytest.mark.long
def test_a_closed_sweep_leaves_no_worker_behind(store):
    others = multiprocessing.active_children()
    runs = computed(iter([lab.configure("smoke", rounds=50, seed=seed) for seed in range(4)]), store, jobs=2)
    assert next(runs) is None
    runs.close()
    # a sentinel, not is_alive(): the pool's own thread may be collecting the same process at this moment
    left = [process.sentinel for process in multiprocessing.active_children() if process not in others]
    assert all(connection.wait([sentinel], timeout=20) for sentinel in left)


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import fedcopl_lab as lab\n"
        "lab.sweep([lab.configure('smoke', rounds=1, seed=s) for s in (0, 1)], jobs=2, progress=False)\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=240,
        env={**os.environ, "FEDCOPL_LAB_HOME": str(tmp_path / "runs")},
    )  # fmt: skip
    assert ended.returncode == 1
    assert "put the call under `if __name__ == '__main__':`" in ended.stderr
    assert "ended by an error that it printed" in ended.stderr


def test_sweep_raises_the_error_of_a_run_and_keeps_the_others(tmp_path):
    good = lab.configure("smoke", **SHORT)
    bad = lab.configure("smoke", **SHORT, n_clients=50)
    with pytest.raises(FedCoPLError, match="clients"):
        lab.sweep([good, bad], Store(tmp_path), jobs=1, progress=False)
    assert Store(tmp_path).run(key_of(good)).complete


def test_a_sweep_takes_any_iterable_and_refuses_no_worker(tmp_path):
    store = Store(tmp_path)
    runs = lab.sweep((lab.configure("smoke", method="zero-shot", seed=seed) for seed in (1, 2)), store, 1, False)
    assert [run.complete for run in runs] == [True, True]
    with pytest.raises(FedCoPLError, match="jobs=-1 is below 1"):
        lab.sweep([], store, jobs=-1)


def test_a_setting_that_the_key_leaves_out_is_no_other_run(tmp_path):
    store = Store(tmp_path)
    plain, beside = (lab.configure("smoke", method="zero-shot", **own) for own in ({}, {"class_order": "by_number"}))
    assert key_of(plain) == key_of(beside)
    first = lab.run(beside, store, progress=False)
    assert lab.run(plain, store, progress=False).rows.equals(first.rows)
