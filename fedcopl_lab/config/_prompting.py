"""FedCoPL's half: the settings of federated prompt tuning, its profiles, methods and modes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from fedcopl_lab.config._checks import check, check_counts
from fedcopl_lab.config._run import RunConfig

PromptMethodName = Literal["zero-shot", "PromptFL", "FedCoPL"]
Labeller = Literal["none", "FPL", "CoPL"]
Scheme = Literal["dirichlet", "quantity", "iid"]
Mode = Literal["paper", "authors"]


@dataclass(frozen=True, kw_only=True)
class PromptConfig(RunConfig):
    """Everything that decides the numbers of one federated prompt-tuning run (FedCoPL Sec. 4.1).

    >>> config = configure("smoke", method="FedCoPL", beta=0.1, seed=1)
    >>> config.rounds, config.n_clients
    (4, 5)
    """

    method: PromptMethodName
    seed_scope: Literal["everything", "prompts"] = "everything"  # "prompts": as the released code, row 25
    # data and federation
    clip: str
    scheme: Scheme = "dirichlet"
    beta: float | None = 0.1
    fraction: float | None = None  # share of the classes a client owns; quantity split only
    partition_mode: Mode = "paper"
    test_split: Literal["own_masks", "same_proportions", "independent"] | None = None  # None: the scheme's own
    min_train: int
    min_test: int
    # optimiser
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
    clients_per_forward: int = 1  # clients whose batches share a forward pass: changes rounding and memory
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"  # of training; labels and tests stay fp32
    weights: Literal["pretrained", "random"] = "pretrained"  # "random": for timing only, no accuracy means anything

    @property
    def label(self) -> str:
        """A short name for progress bars and lists, such as ``FedCoPL+CoPL digits β=0.1 seed=2``."""
        skew = {"dirichlet": f"β={self.beta}", "quantity": f"s={self.fraction}", "iid": "iid"}[self.scheme]
        labels = "" if self.labeller == "none" else f"+{self.labeller}"
        loud = " RANDOM WEIGHTS" if self.weights == "random" else ""
        return f"{self.method}{labels} {self.dataset} {skew}{loud} seed={self.seed}"

    def _check_ranges(self) -> None:
        super()._check_ranges()
        check_counts(self, ("n_text", "n_visual", "fpl_shots", "clients_per_forward"), least=1)
        check_counts(self, ("refresh_every", "min_train", "min_test"), least=0)
        for name in ("q_conf", "q_ent"):
            level = getattr(self, name)
            check(name, level, lambda v: v is None or 0 <= v <= 1, "a quantile level in [0, 1], or None for off")
        check("rounds", self.rounds, lambda v: (v == 0) == (self.method == "zero-shot"),
              "0 for zero-shot and at least 1 for a method that trains")  # fmt: skip
        check("labeller", self.labeller, lambda v: (v == "none") == (self.method == "zero-shot"),
              "none for zero-shot, and FPL or CoPL for a method that trains")  # fmt: skip
        if self.momentum_state == "shared":
            check("clients_per_forward", self.clients_per_forward, lambda v: v == 1,
                  "1 with momentum_state='shared', where one buffer goes from client to client")  # fmt: skip
        if self.scheme == "dirichlet":
            check("beta", self.beta, lambda v: v is not None and 0 < v < math.inf, "a positive Dirichlet concentration")
        if self.scheme == "quantity":
            check("fraction", self.fraction, lambda v: v is not None and 0 < v <= 1, "a share of the classes in (0, 1]")


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
