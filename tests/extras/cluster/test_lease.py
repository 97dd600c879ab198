"""A run is computed by one worker: leases are taken once, renewed, and lapse."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
import torch

from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab._identity import key_of
from fedcopl_lab.engine import shard_of
from fedcopl_lab.extras import cluster as _lease
from fedcopl_lab.extras.cluster import holder_of, lease, run_claimed
from fedcopl_lab.store import Store

QUICK = {"rounds": 1, "local_epochs": 1, "n_clients": 3, "dataset": "digits:240", "scheme": "iid"}


@pytest.fixture
def path(tmp_path):
    """The lease's file."""
    return tmp_path / ".leases" / "run.json"


def backdate(path, seconds):
    """As if the holder had been silent for so long, on another machine."""
    path.write_text(path.read_text().replace(socket.gethostname(), "another-machine"))
    age = path.stat().st_mtime - seconds
    os.utime(path, (age, age))


def test_one_of_many_gets_it(tmp_path):
    start, got = threading.Barrier(16), []

    def worker():
        start.wait()
        with lease(tmp_path, "run") as mine:
            got.append(mine)
            done.wait(10)

    done = threading.Event()
    workers = [threading.Thread(target=worker) for _ in range(16)]
    for one in workers:
        one.start()
    while len(got) < 16:
        done.wait(0.01)
    done.set()
    for one in workers:
        one.join()
    assert sorted(got) == [False] * 15 + [True]
    assert holder_of(tmp_path, "run") == {}
    assert list((tmp_path / ".leases").iterdir()) == []


def test_it_says_who_holds_it(tmp_path):
    with lease(tmp_path, "run") as mine, lease(tmp_path, "run") as second, lease(tmp_path, "another run") as other:
        assert (mine, second, other) == (True, False, True)
        holder = holder_of(tmp_path, "run")
        assert (holder["host"], holder["pid"]) == (socket.gethostname(), os.getpid())


def test_a_silent_holder_loses_it_and_does_not_take_it_along(tmp_path, path):
    with lease(tmp_path, "run", patience=1000.0):
        backdate(path, 900)
        with lease(tmp_path, "run", patience=1000.0) as too_early:
            assert not too_early
        backdate(path, 1200)
        with lease(tmp_path, "run", patience=1000.0) as mine:
            assert mine
            taken = path.read_text()
    assert "another-machine" not in taken
    assert not path.exists()


def test_the_former_holder_leaves_the_new_ones_lease_alone(tmp_path, path):
    first = lease(tmp_path, "run", patience=1000.0)
    first.__enter__()
    backdate(path, 1200)
    with lease(tmp_path, "run", patience=1000.0) as mine:
        assert mine
        first.__exit__(None, None, None)
        assert holder_of(tmp_path, "run")["host"] == socket.gethostname()


def test_a_damaged_lease_lapses_too(tmp_path, path):
    path.parent.mkdir()
    path.touch()
    with lease(tmp_path, "run", patience=1000.0) as too_early:
        assert not too_early
    os.utime(path, (path.stat().st_mtime - 1200,) * 2)
    with lease(tmp_path, "run", patience=1000.0) as mine:
        assert mine


def test_who_judged_an_old_lease_leaves_a_quicker_workers_fresh_one(tmp_path, path, monkeypatch):
    old = lease(tmp_path, "run", patience=1000.0)
    old.__enter__()
    backdate(path, 1200)
    judge = _lease._lapsed

    def overtaken(path, patience):
        judged = judge(path, patience)
        monkeypatch.setattr(_lease, "_lapsed", judge)
        quicker.__enter__()
        return judged

    quicker = lease(tmp_path, "run", patience=1000.0)
    monkeypatch.setattr(_lease, "_lapsed", overtaken)
    with lease(tmp_path, "run", patience=1000.0) as mine:
        assert not mine
        assert holder_of(tmp_path, "run")["host"] == socket.gethostname()
    quicker.__exit__(None, None, None)
    assert list(path.parent.iterdir()) == []


def test_the_former_holder_of_a_run_leaves_newer_states(tmp_path):
    former, later = (Store(tmp_path).run("run") for _ in range(2))
    for number in (1, 2, 3):
        later.commit({"round": number}, {"value": torch.tensor(number)}, 0.0)
    former.commit({"round": 2}, {"value": torch.tensor(2)}, 0.0)
    assert int(later.load_state()["value"]) == 3


def test_a_holder_renews_it(tmp_path, path):
    with lease(tmp_path, "run", patience=0.4):
        old = path.stat().st_mtime_ns
        waiting = threading.Event()
        for _ in range(100):
            waiting.wait(0.05)
            if path.stat().st_mtime_ns > old:
                break
        assert path.stat().st_mtime_ns > old


def test_a_dead_holder_of_this_machine_is_noticed_at_once(tmp_path, path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    with lease(tmp_path, "run"):
        held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"pid": ended.pid}))
    with lease(tmp_path, "run") as mine:
        assert mine


def test_who_waits_gets_the_run_of_who_computes(tmp_path):
    config = configure("smoke", method="PromptFL", **QUICK)
    key = key_of(config)
    with lease(tmp_path, key) as mine:
        assert mine
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
