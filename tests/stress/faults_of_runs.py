"""Faults inside the work itself: numbers that are none, clients with nothing to do, a worker that is killed."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from children import start, void
from faults import content, fault, refused, run, whole
from workloads import PROMPTING, SAGE, patched

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.methods import PromptClient
from fedcopl_lab.methods.protocol import Letter, Tensors
from fedcopl_lab.store import Store

N_IMAGES = 300


@fault("a loss that is no number, prompts")
def _nan_loss(folder: Path) -> str:
    text = refused(lambda: run(folder / "store", replace(PROMPTING, lr=1e30)), "finite numbers")
    assert not [name for name in content(folder / "store") if "rounds/" in name]
    return text


@fault("a loss that is no number, every method of SAGE's tables")
def _nan_loss_of_sage(folder: Path) -> str:
    from fedcopl_lab.config import SAGE_METHODS

    texts = set()
    for method in SAGE_METHODS:
        config = lab.configure(
            "smoke", method=method, lr=1e30, rounds=2, width=0.25, n_probe=20, steps_per_epoch=2, participation=0.1
        )
        texts.add(refused(lambda c=config: run(folder / "store", c), "finite numbers").split(";")[0][-60:])
    assert not [name for name in content(folder / "store") if "rounds/" in name]
    return f"{len(SAGE_METHODS)} methods refuse the round, nothing is stored"


@fault("infinite and NaN images")
def _bad_images(folder: Path) -> str:
    from fedcopl_lab.methods import _setting

    for value in (float("nan"), float("inf")):
        logits = torch.full((N_IMAGES, 10), value)
        with patched((_setting._Frozen, "zero_shot_logits", logits)):
            text = refused(lambda: run(folder / "store", PROMPTING), "NaN or infinite", "look at the images")
    return text.split(";")[0]


@fault("a client left without selected samples")
def _nothing_selected(folder: Path) -> str:
    with patched((PromptClient, "_select", _selecting_nothing(lambda client, letter: client.client == 0))):
        done = run(folder / "store", PROMPTING)
    assert all(row["participants"] == [1, 2] for row in done.records())
    return "left out of the round, the others train and are averaged"


def _selecting_nothing(hit: Callable[[PromptClient, Letter], bool]) -> Callable[[PromptClient, Letter], Tensors]:
    select = PromptClient._select

    def selected(self: PromptClient, letter: Letter) -> Tensors:
        entry = select(self, letter)
        if not hit(self, letter):
            return entry
        empty = {name: entry[name][:0] for name in ("indices", "labels")}
        return entry | empty | {"selected": torch.tensor(0)}

    return selected


@fault("a shard without test images")
def _no_tests(folder: Path) -> str:
    from fedcopl_lab.methods import _setting

    partition = _setting.partition

    def without_tests(*args: object, **kwargs: object) -> lab.Federation:
        drawn = partition(*args, **kwargs)  # type: ignore[arg-type]
        first, *others = drawn.shards
        return replace(drawn, shards=(lab.Shard(first.train, np.array([], dtype=np.int64)), *others))

    with patched((_setting, "partition", without_tests)):
        done = run(folder / "store", PROMPTING)
    for row in done.records():
        first, *others = row["clients"]["accuracy"]
        assert first is None
        assert row["accuracy"] == float(np.mean(others))
    return "no accuracy for it, left out of the means"


@fault("all clients of a round failing")
def _all_fail(folder: Path) -> str:
    expected = whole(folder / "whole", PROMPTING)
    with patched((PromptClient, "_select", _selecting_nothing(lambda client, letter: letter.round == 1))):
        text = refused(lambda: run(folder / "store", PROMPTING), "round 2", "0 pseudo-labelled images")
    assert Store(folder / "store").runs()[0].rounds_done() == 1
    run(folder / "store", PROMPTING)
    assert content(folder / "store") == expected
    return f"{text.split(';')[0]}; the round before is kept, the next call ends with the same bytes"


@fault("an error of one client")
def _one_fails(folder: Path) -> str:
    from fedcopl_lab.methods import prompt_client

    config = replace(PROMPTING, clients_per_forward=1)  # the fifth call is that of client 1 in round 2
    expected = whole(folder / "whole", config)
    train, calls = prompt_client.train_round, [0]

    def fails(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        if calls[0] == 5:
            raise MemoryError("no memory for client 1")
        return train(*args, **kwargs)  # type: ignore[call-overload]

    with patched((prompt_client, "train_round", fails)):
        try:
            run(folder / "store", config)
        except MemoryError as error:
            text = str(error)
    assert Store(folder / "store").runs()[0].rounds_done() == 1
    run(folder / "store", config)
    assert content(folder / "store") == expected
    return f"{text}: the round is not stored, the next call ends with the same bytes"


@fault("a worker killed as by lack of memory in a parallel sweep")
def _killed_worker(folder: Path) -> str:
    configs = [replace(SAGE, seed=seed, rounds=40) for seed in range(2)]
    keys = [key_of(config) for config in configs]
    store = Store(folder / "store")
    killed: list[int] = []

    def kill_one() -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not killed:
            if any(store.run(key).rounds_done() for key in keys):
                killed.append(_workers()[0])
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.02)

    thread = threading.Thread(target=kill_one)
    thread.start()
    text = refused(lambda: lab.sweep(configs, store, jobs=2, progress=False), "killed from outside", "fewer jobs")
    thread.join()
    kept = [store.run(key).rounds_done() for key in keys]
    assert killed
    assert sum(kept)
    deadline = time.monotonic() + 30
    while _workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _workers(), "a worker outlived the sweep"
    assert all(one.complete for one in lab.sweep(configs, store, jobs=1, progress=False))
    alone = [run(folder / "alone", config) for config in configs]
    assert content(folder / "store") == content(folder / "alone")
    return f"{text.split(',')[0]}; {sum(kept)} rounds kept, the next call ends with the same bytes of {len(alone)} runs"


@fault("a parallel sweep killed as a whole")
def _killed_sweep(folder: Path) -> str:
    configs = [replace(SAGE, seed=seed, rounds=40) for seed in range(2)]
    store = Store(folder / "store")
    sweeping = start(lambda mark: void(lab.sweep(configs, store, jobs=2, progress=False)), folder / "sweep.log")
    deadline = time.monotonic() + 300
    while not sum(one.rounds_done() for one in store.runs()) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = _workers(sweeping.pid)
    os.kill(sweeping.pid, signal.SIGKILL)
    sweeping.end()
    while any(map(_lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(workers) == 2
    assert not any(map(_lives, workers)), "a worker outlived the sweep"
    kept = sum(one.rounds_done() for one in store.runs())
    lab.sweep(configs, store, jobs=1, progress=False)
    for config in configs:
        run(folder / "alone", config)
    assert content(folder / "store") == content(folder / "alone")
    return f"its workers ended with it; {kept} rounds kept, the next call ends with the same bytes"


def _lives(process: int) -> bool:
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def _workers(parent: int | None = None) -> list[int]:
    """Worker processes of this or another one, from the kernel's list."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            above = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if above == (parent or os.getpid()) and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (OSError, ValueError):
            continue
    return found
