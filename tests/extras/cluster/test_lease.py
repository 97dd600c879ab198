"""A run is computed by one worker: leases are taken once, renewed, and lapse."""

import os
import signal
import subprocess
import sys
import threading

import pytest
import torch
from filelock import Timeout

from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab._identity import key_of
from fedcopl_lab.engine import shard_of
from fedcopl_lab.extras.cluster import lease, run_claimed
from fedcopl_lab.store import Store

QUICK = {"rounds": 1, "local_epochs": 1, "n_clients": 3, "dataset": "digits:240", "scheme": "iid"}


HOLDER = """
import sys
from pathlib import Path
from fedcopl_lab.extras.cluster import lease
with lease(Path(sys.argv[1]), "run", 1.0):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lease until it reads a line."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_holder_keeps_it_for_longer_than_the_patience(tmp_path, holder):
    assert lease(tmp_path, "run").pid == holder.pid
    with pytest.raises(Timeout):
        lease(tmp_path, "run", 1.0).acquire(timeout=2.0)
    with lease(tmp_path, "another run", 1.0) as free:
        assert free.pid == os.getpid()


def test_a_silent_holder_loses_it_and_leaves_the_next_ones_alone(tmp_path, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    with lease(tmp_path, "run", 1.0) as mine:
        os.kill(holder.pid, signal.SIGCONT)
        holder.communicate("go\n", timeout=60)
        assert holder.returncode == 0
        assert mine.pid == os.getpid()
    assert mine.pid is None


def test_a_dead_holder_of_this_machine_is_noticed_at_once(tmp_path, holder):
    holder.kill()
    holder.wait(60)
    with lease(tmp_path, "run", 1000.0).acquire(timeout=30):
        pass
    assert list((tmp_path / ".leases").iterdir()) == []


def test_a_store_that_cannot_be_written(tmp_path):
    (tmp_path / ".leases").touch()
    with pytest.raises(FedCoPLError, match=r"cannot write to .*; make it writable"):
        run_claimed(configure("smoke", method="PromptFL", **QUICK), tmp_path)


def test_the_former_holder_of_a_run_leaves_newer_states(tmp_path):
    former, later = (Store(tmp_path).run("run") for _ in range(2))
    for number in (1, 2, 3):
        later.commit({"round": number}, {"value": torch.tensor(number)}, 0.0)
    former.commit({"round": 2}, {"value": torch.tensor(2)}, 0.0)
    assert int(later.load_state()["value"]) == 3


def test_who_waits_gets_the_run_of_who_computes(tmp_path):
    config = configure("smoke", method="PromptFL", **QUICK)
    key = key_of(config)
    with lease(tmp_path, key):
        waiter = threading.Thread(target=run_claimed, args=(config, tmp_path))
        waiter.start()
        waiter.join(0.3)
        assert waiter.is_alive()
        assert not Store(tmp_path).run(key).complete
    waiter.join(60)
    assert Store(tmp_path).run(key).complete


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_shards_are_all_runs_once_whatever_is_stored(parts):
    configs = [configure("smoke", seed=s, rounds=r) for s in range(4) for r in (1, 2)]
    shards = [shard_of([*configs, *configs], part, parts) for part in range(1, parts + 1)]
    assert sorted((c.seed, c.rounds) for shard in shards for c in shard) == sorted((c.seed, c.rounds) for c in configs)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize(("part", "parts"), [(0, 2), (3, 2), (1, 0)])
def test_a_shard_that_does_not_exist(part, parts):
    with pytest.raises(FedCoPLError, match=f"shard {part}/{parts} does not exist"):
        shard_of([configure("smoke")], part, parts)
