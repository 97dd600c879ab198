"""One matrix: every method of both papers, run in every way that must not matter, against one plain run."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from findings import Finding
from processes import all_end_well, call, start
from seams import last_client_first, patched
from workloads import compute, promised, warm

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import METHODS, SAGE_METHODS
from fedcopl_lab.store import Run, Store

FEW = ("zero-shot", "FedOTP", "FedCoPL", "FedMatch", "SAGE")
ZERO_SHOT = {"dataset": "digits:300", "n_clients": 3, "scheme": "iid"}
PROMPTING = ZERO_SHOT | {"rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_text": 2, "n_visual": 1, "shots": 2,
                         "q_conf": 0.9, "q_ent": 0.9}  # fmt: skip
SEMI = {"rounds": 3, "width": 0.25, "n_probe": 20, "steps_per_epoch": 1, "threshold": 0.3, "participation": 0.2}
EARLY: dict[str, dict[str, Any]] = {"FedLabel": {"fedlabel_burn_in": 1}, "FedMatch": {"fedmatch_lookup_every": 1}}

Configs = list[lab.RunConfig]


def config_of(method: str) -> lab.RunConfig:
    """The smallest run of a method that still has two rounds, and a memory where the method keeps one."""
    changes = SEMI | EARLY.get(method, {}) if method in SAGE_METHODS else PROMPTING
    return lab.configure("smoke", method=method, **(ZERO_SHOT if method == "zero-shot" else changes))


def matrix(scratch: Path, short: bool) -> Iterator[Finding]:
    """Number of methods that end with the same bytes, for every way of running them."""
    configs = [config_of(method) for method in (FEW if short else (*METHODS, *SAGE_METHODS))]
    warm(tuple(configs))
    inside: dict[str, Callable[[Path], object]] = {
        "stopped after every round and resumed": lambda to: stopped_and_resumed(configs, to),
        "clients trained in another order": lambda to: permuted(configs, to),
        "other global random states": lambda to: reseeded(configs, to),
        "a process with other hashes, import order and threads": lambda to: elsewhere(configs, to, 1),
        "parallel processes on one store": lambda to: side_by_side(configs, to),
    }
    if not short:
        inside |= {
            "a second such process": lambda to: elsewhere(configs, to, 2),
            "a sweep with two workers": lambda to: bool(lab.sweep(configs, Store(to), jobs=2, progress=False)),
        }
    call(lambda: bool(compute(*configs)(scratch / "plain")), scratch / "logs" / "plain.log")
    expected = promised(scratch / "plain")
    assert len({name.split("/")[0] for name in expected}) == len(configs)
    for number, (way, work) in enumerate(inside.items()):
        folder = scratch / f"way{number}"
        call(lambda w=work, f=folder: bool(w(f)), scratch / "logs" / f"{folder.name}.log", 900)
        found = promised(folder)
        names = {name.split("/")[0] for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)}
        differ = sorted(config.method for config in configs if key_of(config) in names)
        same, passed = len(configs) - len(names), not names
        yield Finding(
            "determinism", way, "methods with equal bytes", same, str(len(configs)), passed, ", ".join(differ)
        )


class PowerCutError(Exception):
    """Stands for the end of the process."""


def stopped_and_resumed(configs: Configs, folder: Path) -> None:
    """A run goes one round at a time, each in what could be another process: nothing stays in memory but caches."""
    commit, stored = Run.commit, []

    def commit_one(self: Run, *args: Any) -> None:
        if stored:
            raise PowerCutError
        stored.append(commit(self, *args))

    with patched((Run, "commit", commit_one)):
        for config in configs:
            for _ in range(config.rounds + 1):
                stored.clear()
                try:
                    compute(config)(folder)
                    break
                except PowerCutError:
                    pass


def permuted(configs: Configs, folder: Path) -> None:
    """A round's clients train from the last to the first."""
    with last_client_first():
        compute(*configs)(folder)


def reseeded(configs: Configs, folder: Path) -> None:
    """Every global stream is somewhere else before each run."""
    for place, config in enumerate(configs):
        random.seed(place)
        np.random.seed(place)  # noqa: NPY002  the legacy stream is what must not matter
        torch.manual_seed(1000 + place)
        torch.rand(place + 1)
        compute(config)(folder)


def side_by_side(configs: Configs, folder: Path) -> None:
    """Three processes at once, each with all runs in an order of its own."""
    middle = len(configs) // 2
    orders = (configs, configs[::-1], configs[middle:] + configs[:middle])
    logs = folder.with_name("logs")
    all_end_well(
        [start(lambda mark, o=order: compute(*o)(folder), logs / f"side{n}.log") for n, order in enumerate(orders)], 600
    )


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
