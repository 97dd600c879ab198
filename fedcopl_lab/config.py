"""What a run is: frozen configurations, the profiles that fill them, and the key that names a result."""

import dataclasses
import difflib
import hashlib
import json
import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from fedcopl_lab._errors import FedCoPLError

NUMERICS = 1
"""Raised whenever a change of code changes a result, so that stored runs of older code are not reused."""

_T = TypeVar("_T")

Method = Literal["zero-shot", "PromptFL", "FedCoPL"]
Labeller = Literal["none", "FPL", "CoPL"]
Scheme = Literal["dirichlet", "quantity", "iid"]
Mode = Literal["paper", "authors"]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides the numbers of one federated prompt-tuning run.

    Build one with :func:`configure`, which fills it from a profile and a method's preset; change one with
    :func:`dataclasses.replace`. The letters in brackets are the papers' symbols (FedCoPL Sec. 4.1).

    >>> config = configure("smoke", method="FedCoPL", beta=0.1, seed=1)
    >>> config.rounds, config.n_clients
    (4, 5)
    """

    profile: str
    method: Method
    seed: int = 0
    seed_scope: Literal["everything", "prompts"] = "everything"  # "prompts": as the released code, row 25
    # data and federation
    dataset: str
    clip: str
    scheme: Scheme = "dirichlet"
    beta: float | None = 0.1
    fraction: float | None = None  # share of the classes a client owns; quantity split only
    partition_mode: Mode = "paper"
    test_split: Literal["own_masks", "same_proportions", "independent"] | None = None  # None: the scheme's own
    n_clients: int  # [K]
    min_train: int
    min_test: int
    participation: float = 1.0  # [R]
    # rounds and optimiser
    rounds: int  # [T]
    local_epochs: int  # [E]
    batch_size: int  # [B]
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.05
    lr_schedule: Literal["phase", "run", "round"] = "phase"
    momentum_state: Literal["reset", "per_client", "shared"] = "reset"
    # prompts
    n_text: int  # context vectors of the text prompt
    n_visual: int  # context vectors per prompted image layer
    visual_depth: int | None = None  # None: every image layer but the last
    aggregate: Literal["none", "text", "visual", "both"]  # which prompts the server averages
    weight_by: Literal["quota", "selected"] = "quota"
    # pseudo-labels
    labeller: Labeller
    refresh_every: int  # [Q]; 0: labels are made once
    relabel_with: Literal["aggregated", "local"] = "aggregated"
    q_conf: float | None = 0.5  # [tau_1] quantile level of the confidence filter; None: off
    q_ent: float | None = 0.5  # [tau_2] level of the entropy filter, kept below the (1-q) quantile; None: off
    filter_scope: Literal["client", "global"] = "client"
    allocation: Literal["paper", "authors", "none"] = "paper"
    unseen_class: Literal["zero", "authors_quota"] = "zero"
    candidates: Literal["argmax", "any"] = "argmax"
    fpl_shots: int
    # machine
    device: str = "cpu"
    threads: int = 1
    clients_per_forward: int = 1  # clients whose batches share a forward pass: changes rounding and memory
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"  # of training; labels and tests stay fp32
    weights: Literal["pretrained", "random"] = "pretrained"  # "random": for timing only, no accuracy means anything

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is int and field.type in (float, float | None):
                object.__setattr__(self, field.name, float(value))  # beta=1 and beta=1.0 are the same run
            _check_choice(field.name, value, field.type)
        _check_ranges(self)
        for field in dataclasses.fields(self):  # beta=1 and beta=1.0 are one run and must have one key
            value = getattr(self, field.name)
            if field.type in (float, float | None) and isinstance(value, numbers.Real):
                object.__setattr__(self, field.name, float(value))

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return dataclasses.asdict(self)

    @property
    def label(self) -> str:
        """A short name for progress bars and lists, such as ``FedCoPL+CoPL beta=0.1 seed=2``."""
        skew = {"dirichlet": f"β={self.beta}", "quantity": f"s={self.fraction}", "iid": "iid"}[self.scheme]
        labels = "" if self.labeller == "none" else f"+{self.labeller}"
        loud = " RANDOM WEIGHTS" if self.weights == "random" else ""
        return f"{self.method}{labels} {self.dataset} {skew}{loud} seed={self.seed}"


PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "smoke": {
            "dataset": "digits",
            "clip": "tiny",
            "n_clients": 5,
            "min_train": 10,
            "min_test": 5,
            "rounds": 4,
            "local_epochs": 3,
            "batch_size": 32,
            "refresh_every": 2,
            "n_text": 8,
            "n_visual": 5,
            # 8 shots x 10 classes x 5 clients is a third of the images: the share that 16 shots take of
            # CIFAR-100, the one set of the paper where FPL's budget neither vanishes nor takes every image.
            "fpl_shots": 8,
        },
        "paper": {
            "dataset": "cifar10",
            "clip": "ViT-B-32",
            "n_clients": 10,
            "min_train": 10,
            "min_test": 0,
            "rounds": 20,
            "local_epochs": 10,
            "batch_size": 64,
            "refresh_every": 5,
            "n_text": 16,
            "n_visual": 5,
            "fpl_shots": 16,
        },
    }
)
"""The same code at different sizes; a profile is data, and nothing branches on its name."""

METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "zero-shot": {"labeller": "none", "aggregate": "none", "rounds": 0},
        "PromptFL": {"labeller": "FPL", "aggregate": "both", "weight_by": "selected"},
        "FedCoPL": {"labeller": "CoPL", "aggregate": "visual", "weight_by": "quota"},
    }
)
"""What each method changes in a profile; PromptFL averages both prompts because main Tables 3 and 6 show it."""

AUTHORS_MODE: Mapping[str, Any] = MappingProxyType(
    {
        "partition_mode": "authors",
        "min_test": 0,
        "seed_scope": "prompts",
        "allocation": "authors",
        "unseen_class": "authors_quota",
        "weight_by": "selected",
        "momentum_state": "shared",
    }
)
"""The switches that make a run do what the released code does where it differs from the paper."""


def configure(profile: str | None = None, *, method: str = "FedCoPL", mode: str = "paper", **changes: Any) -> RunConfig:
    """A complete run configuration: the profile, then the method's preset, then the mode, then your changes.

    Args:
        profile: ``"smoke"`` or ``"paper"``; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        method: ``"zero-shot"``, ``"PromptFL"`` or ``"FedCoPL"``.
        mode: ``"paper"``, or ``"authors"`` for the released code's behaviour (:data:`AUTHORS_MODE`).
        changes: any field of :class:`RunConfig`.

    Raises:
        FedCoPLError: an unknown profile, method or field, or a value outside its range.

    >>> configure("smoke", method="PromptFL", labeller="CoPL").aggregate
    'both'

    Shown in notebook ``00_quickstart``.
    """
    name = profile or os.environ.get("FEDCOPL_LAB_PROFILE") or "smoke"
    known = {field.name for field in dataclasses.fields(RunConfig)}
    for field in changes:
        if field not in known:
            raise FedCoPLError(f"unknown setting {field!r}{did_you_mean(field, known)}")
    preset = {**pick(PROFILES, name, "profile"), **pick(METHODS, method, "method")}
    if mode not in get_args(Mode):
        raise FedCoPLError(f"mode={mode!r} is unknown; choose one of {', '.join(get_args(Mode))}")
    if mode == "authors":
        preset.update(AUTHORS_MODE)
    if changes.get("scheme", "dirichlet") != "dirichlet":
        preset["beta"] = None
    if changes.get("scheme") == "quantity":
        preset["fraction"] = 0.2
    preset.update(changes)
    return RunConfig(profile=name, method=cast(Method, method), **preset)


def run_key(config: RunConfig, *, data_sha: str, weights_sha: str) -> str:
    """The name of a result: a hash of everything that can change one of its numbers.

    Args:
        config: the run's configuration, seeds, device and thread count included.
        data_sha: sha256 of the data set's pixels, labels and split.
        weights_sha: sha256 of the frozen model's weights.

    Returns:
        16 hexadecimal digits.

    >>> config = configure("smoke")
    >>> len(run_key(config, data_sha="a", weights_sha="b"))
    16
    """
    identity = {
        "numerics": NUMERICS,
        "config": config.as_dict() | {"device": config.device.split(":")[0]},
        "data": data_sha,
        "weights": weights_sha,
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pick(options: Mapping[str, _T], name: str, what: str) -> _T:
    """The option of that name, or an error that lists the options."""
    if name not in options:
        raise FedCoPLError(f"unknown {what} {name!r}{did_you_mean(name, options)}; known: {', '.join(options)}")
    return options[name]


def did_you_mean(name: str, known: Any) -> str:
    """``"; did you mean …?"`` when a known name is close, else nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _check_choice(name: str, value: Any, annotation: Any) -> None:
    choices = _choices(annotation)
    if choices and value not in choices:
        raise FedCoPLError(f"{name}={value!r} is unknown; choose one of {', '.join(map(str, choices))}")


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    literals = [arm for arm in get_args(annotation) if get_origin(arm) is Literal]
    return (*get_args(literals[0]), None) if literals else ()


def _check_ranges(config: RunConfig) -> None:
    whole = ("n_clients", "local_epochs", "batch_size", "n_text", "n_visual", "fpl_shots", "threads",
             "clients_per_forward")  # fmt: skip
    for name in whole:
        _check(name, getattr(config, name), lambda v: isinstance(v, int) and v >= 1, "a whole number, 1 or more")
    for name in ("rounds", "refresh_every", "min_train", "min_test", "seed"):
        _check(name, getattr(config, name), lambda v: isinstance(v, int) and v >= 0, "a whole number, 0 or more")
    for name in ("q_conf", "q_ent"):
        level = getattr(config, name)
        _check(name, level, lambda v: v is None or 0 <= v <= 1, "a quantile level in [0, 1], or None for off")
    _check("participation", config.participation, lambda v: 0 < v <= 1, "a share of the clients in (0, 1]")
    _check("lr", config.lr, lambda v: 0 < v < math.inf, "a positive learning rate")
    _check("momentum", config.momentum, lambda v: 0 <= v < 1, "in [0, 1)")
    _check("weight_decay", config.weight_decay, lambda v: 0 <= v < math.inf, "0 or more")
    _check("rounds", config.rounds, lambda v: (v == 0) == (config.method == "zero-shot"),
           "0 for zero-shot and at least 1 for a method that trains")  # fmt: skip
    _check("labeller", config.labeller, lambda v: (v == "none") == (config.method == "zero-shot"),
           "none for zero-shot, and FPL or CoPL for a method that trains")  # fmt: skip
    if config.momentum_state == "shared":
        _check("clients_per_forward", config.clients_per_forward, lambda v: v == 1,
               "1 with momentum_state='shared', where one buffer goes from client to client")  # fmt: skip
    if config.scheme == "dirichlet":
        _check("beta", config.beta, lambda v: v is not None and 0 < v < math.inf, "a positive Dirichlet concentration")
    if config.scheme == "quantity":
        _check("fraction", config.fraction, lambda v: v is not None and 0 < v <= 1, "a share of the classes in (0, 1]")


def _check(name: str, value: Any, holds: Any, expected: str) -> None:
    try:
        good = bool(holds(value))
    except TypeError:
        good = False
    if not good:
        raise FedCoPLError(f"{name}={value!r} is not valid; expected {expected}")
