"""The explorers as one HTML file: data and a little script, no Python, no network."""

import base64
import json
from dataclasses import replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.config import configure
from fedcopl_lab.engine import run as stored_run
from fedcopl_lab.methods import PromptSetting
from fedcopl_lab.store import Run
from fedcopl_lab.widgets._allocation import AllocationParams
from fedcopl_lab.widgets._kappa import KappaParams
from fedcopl_lab.widgets._partition import SCHEMES, PartitionParams, federation_of
from fedcopl_lab.widgets._sources import WeakViewScores, prompt_config
from fedcopl_lab.widgets._thresholds import ThresholdParams

FILE = "explorer.html"
CLIENTS, SEEDS = (5, 10, 20), (0, 1, 2)
_CONCENTRATIONS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_LEVELS: dict[str, tuple[str, tuple[float, ...]]] = {  # of each scheme: its field, and the values that it can take
    "dirichlet": ("beta", _CONCENTRATIONS), "quantity": ("fraction", (0.2, 0.5)), "iid": ("", (0,)),
    "sage dirichlet": ("alpha", _CONCENTRATIONS), "sage pairwise_balanced": ("alpha", _CONCENTRATIONS),
}  # fmt: skip
_VIEWS = 128  # weak views at most, as far as one local step has no more
_SYMBOLS = {"beta": "β", "fraction": "s", "alpha": "α", "": ""}
_PARTS = ("training images", "test images")
_START = {"clients": 0, "seed": 0, "label": 0, "added": 0, "threshold": 0.5, "step": 0, "image": 0}


def write_explorer(folder: Path | str, sage: Run | None = None) -> Path:
    """Write ``explorer.html``: the explorers of thresholds, allocation, κ and the division, for any browser.

    The numbers are those of the ``smoke`` profile: FedCoPL Eqs. 2 and 3, SAGE Eqs. 1 to 6. The file opens from disk.

    Args:
        folder: where to write; made when missing.
        sage: a complete run of SAGE whose views are shown; None takes the profile's, computed where it is not stored.

    Returns:
        The file.

    Raises:
        FedCoPLError: a run that is not complete or of another method, or a folder that cannot be written.

    >>> run = lab.run(lab.configure("smoke", method="SAGE", rounds=1), progress=False)
    >>> write_explorer("figures", run).name
    'explorer.html'

    Shown in notebook ``explore``.
    """
    data = explorer_data(sage or stored_run(configure("smoke", method="SAGE"), progress=False))
    parts = {name: _own_file(f"explorer_{name}.js") for name in ("page", "steps")}
    page = _own_file("explorer.html")
    for name, text in {**parts, "data": json.dumps(data, ensure_ascii=False, separators=(",", ":"))}.items():
        page = page.replace(f"{{{{ {name} }}}}", text)
    path = Path(folder) / FILE
    write_atomic(path, page)
    return path


def explorer_data(sage: Run) -> dict[str, Any]:
    """What the page's script reads: scores, divisions and weak views, arrays as base64."""
    config = prompt_config()
    setting = PromptSetting.of(config)
    train = setting.dataset.train_indices
    thresholds, levels = ThresholdParams(), _LEVELS["dirichlet"][1]
    start = {"scheme": "dirichlet", "level": levels.index(0.1), "q_conf": thresholds.q_conf, "q_ent": thresholds.q_ent,
             "client": thresholds.client, "mode": AllocationParams().mode, "kappa": KappaParams().kappa}  # fmt: skip
    views = WeakViewScores.of(sage)
    shown = views.batch * max(1, _VIEWS // views.batch)  # whole local steps
    return {
        "names": setting.dataset.class_names,
        "logits": _text(setting.zero_shot_logits[train].numpy(), "<f4"),
        "true": _text(setting.dataset.labels[train].numpy(), "u1"),
        "clients": CLIENTS,
        "seeds": SEEDS,
        "schemes": {
            name: {"label": label, "symbol": _SYMBOLS[_LEVELS[name][0]], "levels": _LEVELS[name][1],
                   "parts": ("unlabelled images", "labelled images") if name.startswith("sage") else _PARTS}
            for label, name in SCHEMES.items() if name in _LEVELS
        },
        "divisions": {
            f"{scheme}|{level}|{clients}|{seed}": _division(scheme, float(level), clients, seed, train.numpy())
            for scheme, (_, values) in _LEVELS.items()
            for level, clients, seed in product(values, CLIENTS, SEEDS)
        },
        "views": {
            "local": _text(views.local[:shown].numpy(), "<f4"), "global": _text(views.global_[:shown].numpy(), "<f4"),
            "true": _text(views.true[:shown].numpy(), "u1"), "pixels": _text(views.images[:shown, 0].numpy(), "u1"),
            "side": views.images.shape[-1], "batch": views.batch,
        },
        "start": _START | start,
    }  # fmt: skip


def _division(scheme: str, level: float, clients: int, seed: int, train: Any) -> dict[str, Any]:
    """One division: FedCoPL's by the owner of each training image, SAGE's by counts; or why there is none."""
    field = _LEVELS[scheme][0]
    swept: dict[str, Any] = {field: level} if field else {}
    try:
        federation = federation_of(replace(PartitionParams(scheme=scheme, n_clients=clients, seed=seed), **swept))
    except FedCoPLError as refused:
        return {"error": str(refused)}
    if scheme.startswith("sage"):
        parts = {"train": federation.class_counts("unlabelled"), "other": federation.class_counts("labelled")}
        return {name: _text(counts, "u1") for name, counts in parts.items()} | {"redraws": federation.redraws}
    owner = np.zeros(len(federation.dataset), dtype=int)
    for client, shard in enumerate(federation.shards):
        owner[shard.train] = client
    letters = "".join(np.base_repr(client, 36).lower() for client in owner[train])
    return {"owner": letters, "other": _text(federation.class_counts("test"), "u1"), "redraws": federation.redraws}


def _own_file(name: str) -> str:
    return resources.files("fedcopl_lab.widgets").joinpath(name).read_text(encoding="utf-8")


def _text(values: Any, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
