"""One matrix: every method of both papers, run in every way that must not matter, against one plain run."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from children import Mark, call, start
from findings import Finding
from workloads import NOT_PROMISED, Files, visible, warm

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import METHODS, SAGE_METHODS
from fedcopl_lab.store import Store

FEW = ("zero-shot", "FedOTP", "FedCoPL", "FedMatch", "SAGE")
PROMPTING = {"dataset": "digits:300", "rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_clients": 3,
             "scheme": "iid", "n_text": 2, "n_visual": 1, "shots": 2}  # fmt: skip
STRICT = {"q_conf": 0.9, "q_ent": 0.9}
SEMI = {"rounds": 3, "width": 0.25, "n_probe": 20, "steps_per_epoch": 1, "threshold": 0.3, "participation": 0.2}
EARLY: dict[str, dict[str, Any]] = {"FedLabel": {"fedlabel_burn_in": 1}, "FedMatch": {"fedmatch_lookup_every": 1}}

Configs = list[lab.RunConfig]


def configs_of(methods: tuple[str, ...]) -> Configs:
    """The smallest run of each method that still has two rounds, and a memory where the method keeps one."""
    found = []
    for method in methods:
        changes: dict[str, Any] = SEMI | EARLY.get(method, {}) if method in SAGE_METHODS else PROMPTING | STRICT
        if method == "zero-shot":
            changes = {"dataset": "digits:300", "n_clients": 3, "scheme": "iid"}
        found.append(lab.configure("smoke", method=method, **changes))
    return found


def matrix(scratch: Path, short: bool) -> Iterator[Finding]:
    """Number of methods that end with the same bytes, for every way of running them."""
    configs = configs_of(FEW if short else (*METHODS, *SAGE_METHODS))
    warm(tuple(configs))
    logs = scratch / "logs"
    call(lambda: bool(compute(configs, scratch / "plain")), logs / "plain.log")
    expected = promised(scratch / "plain")
    assert len({name.split("/")[0] for name in expected}) == len(configs)
    ways: dict[str, Callable[[Path], object]] = {
        "stopped after every round and resumed": lambda to: [
            call(lambda: stopped_and_resumed(configs, to), logs / "resumed.log")
        ],
        "clients trained in another order": lambda to: call(lambda: permuted(configs, to), logs / "permuted.log"),
        "other global random states": lambda to: call(lambda: reseeded(configs, to), logs / "reseeded.log"),
        "a process with other hashes, import order and threads": lambda to: elsewhere(configs, to, 1),
        "parallel processes on one store": lambda to: side_by_side(configs, to, logs),
    }
    if not short:
        ways |= {
            "a second such process": lambda to: elsewhere(configs, to, 2),
            "a sweep with two workers": lambda to: call(
                lambda: bool(lab.sweep(configs, Store(to), jobs=2, progress=False)), logs / "sweep.log"
            ),
        }
    for number, (way, do) in enumerate(ways.items()):
        yield _finding(way, do, scratch / f"way{number}", expected, configs)


def _finding(way: str, do: Callable[[Path], object], folder: Path, expected: Files, configs: Configs) -> Finding:
    do(folder)
    found = promised(folder)
    differ = {name.split("/")[0] for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)}
    names = ", ".join(sorted({config.method for config in configs if key_of(config) in differ}))
    same = len(configs) - len(differ)
    return Finding("determinism", way, "methods with equal bytes", same, str(len(configs)), not differ, names)


def promised(folder: Path) -> Files:
    """What the run keys promise."""
    return {name: content for name, content in visible(folder).items() if not name.endswith(NOT_PROMISED)}


def compute(configs: Configs, folder: Path) -> list[lab.Run]:
    """One run after the other."""
    return [lab.run(config, Store(folder), progress=False) for config in configs]


class PowerCutError(Exception):
    """Stands for the end of the process."""


def stopped_and_resumed(configs: Configs, folder: Path) -> None:
    """A run goes one round at a time, each in what could be another process: nothing stays in memory but caches."""
    from fedcopl_lab.methods import Method

    Method.step = _one_step_a_call(Method.step)  # type: ignore[method-assign]
    for config in configs:
        for _ in range(config.rounds + 1):
            _STEPS.clear()
            try:
                lab.run(config, Store(folder), progress=False)
                break
            except PowerCutError:
                pass


_STEPS: list[int] = []


def _one_step_a_call(step: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(self: Any, state: Any) -> Any:
        if _STEPS:
            raise PowerCutError
        _STEPS.append(state.round)
        return step(self, state)

    return stepped


def permuted(configs: Configs, folder: Path) -> None:
    """A round's clients train from the last to the first; what the server receives keeps its order."""
    from fedcopl_lab.methods.protocol import InProcess

    ask = InProcess.ask

    def backwards(self: Any, letters: dict[int, Any], expected: Any) -> Any:
        return ask(self, dict(reversed(letters.items())), expected)

    InProcess.ask = backwards  # type: ignore[method-assign]
    compute(configs, folder)


def reseeded(configs: Configs, folder: Path) -> None:
    """Every global stream is somewhere else before each run."""
    import numpy as np
    import torch

    for place, config in enumerate(configs):
        random.seed(place)
        np.random.seed(place)  # noqa: NPY002  the legacy stream is what must not matter
        torch.manual_seed(1000 + place)
        torch.rand(place + 1)
        compute([config], folder)


def side_by_side(configs: Configs, folder: Path, logs: Path) -> None:
    """Three processes at once, each with all runs in an order of its own."""

    def work(order: Configs) -> Callable[[Mark], int]:
        return lambda mark: int(not compute(order, folder))

    orders = (configs, configs[::-1], configs[len(configs) // 2 :] + configs[: len(configs) // 2])
    children = [start(work(order), logs / f"side{i}.log") for i, order in enumerate(orders)]
    for child in children:
        status, _ = child.end(600)
        assert not status, child.log.read_text()


_ELSEWHERE = """
import sys, json
if int(sys.argv[3]) % 2:
    import fedcopl_lab.report, fedcopl_lab.paper, pandas, sklearn, PIL.Image
else:
    import fedcopl_lab.models, fedcopl_lab.steps
import torch
from fedcopl_lab.config import config_from
from fedcopl_lab.engine import run
from fedcopl_lab.store import Store
torch.set_num_threads(2)
for settings in json.load(sys.stdin):
    run(config_from(dict(sorted(settings.items(), reverse=True))), Store(sys.argv[2]), progress=False)
"""


def elsewhere(configs: Configs, folder: Path, number: int) -> None:
    """A fresh process whose sets are ordered otherwise, which imports in another order and has two threads."""
    environment = os.environ | {"PYTHONHASHSEED": str(number), "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    settings = json.dumps([config.as_dict() for config in configs])
    arguments = [sys.executable, "-c", _ELSEWHERE, "-", str(folder), str(number)]
    subprocess.run(arguments, input=settings, text=True, env=environment, check=True, timeout=600)
