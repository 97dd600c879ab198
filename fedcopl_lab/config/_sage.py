"""SAGE's half: the settings of federated semi-supervised learning, its profiles, methods and modes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from fedcopl_lab.config._baselines import BaselineConfig
from fedcopl_lab.config._checks import check, check_counts
from fedcopl_lab.config._switches import check_is_read

SageMethodName = Literal[
    "FedAvg", "FedProx", "FedAvg-SL", "FixMatch-LPL", "FixMatch-GPL", "FedProx+FixMatch", "FedAvg+FlexMatch",
    "FedMatch", "FedLabel", "FedLoKe", "FedDure", "FedDB", "SAGE",
]  # fmt: skip

KAPPA_STAR = math.log(2) / 0.05
"""[kappa*] the rate at which a confidence discrepancy of 0.05 halves the local label's weight."""

STEM_CHANNELS = 16
"""Channels of the first convolution at width 1."""


@dataclass(frozen=True, kw_only=True)
class SageConfig(BaselineConfig):
    """Everything that decides the numbers of one federated semi-supervised run (SAGE Sec. 4-5, supplement A).

    ``batch_size`` counts the labelled images of a step. The comments name what paper and released code say
    where they differ. A setting that the method does not read must keep its default (:data:`READERS`).

    >>> config = configure("smoke", method="SAGE", alpha=0.5, kappa=10.0)
    >>> config.n_clients, config.unlabelled_batch_size
    (20, 16)
    """

    method: SageMethodName
    weight_decay: float = 1e-4
    # data and federation
    image_size: int | None = None  # None: the data set's own
    scheme: Literal["pairwise_balanced", "dirichlet", "iid"] = "pairwise_balanced"  # code; the paper's text: dirichlet
    partition_mode: Literal["paper", "authors"] = "paper"  # "authors" replays the released code's streams
    alpha: float | None = 0.1  # Dirichlet concentration; None with scheme="iid"
    label_share: float = 0.1  # labelled share of every class
    labelled_per_class: int | None = None  # labelled images of every class instead of a share
    labelled_in_pool: bool = True  # the labelled images join the unlabelled pool, without their labels
    # views of an image
    flip: bool = True  # the code flips digits too
    cutout: Literal["17_inclusive", "16"] = "17_inclusive"  # the code draws a closed rectangle, one pixel larger
    norm: Literal["matched", "authors"] = "matched"  # "authors": CIFAR-10's constants in training, others in tests
    # model
    width: float = 4.0  # of ResNet-8: 16 * width channels in the stem
    bn: Literal["average", "local", "recalibrate"] = "average"  # whose running statistics tests and p_g use
    bn_momentum: float = 0.1  # weight of a step in the running statistics
    # local training
    unlabelled_batch_size: int  # [mu * B]
    epoch_rule: Literal["authors", "one_pass"] = "authors"  # steps: pool over the labelled, or the unlabelled batch
    supervised_schedule: Literal["matched_iterations", "labelled_epochs"] = "matched_iterations"  # methods without pool
    steps_per_epoch: int | None = None  # at most so many; None: what epoch_rule says
    momentum_state: Literal["reset", "carry"] = "reset"  # "carry": one optimiser for all clients and rounds (code)
    weight_by: Literal["images", "authors", "uniform"] = "images"  # "authors": labelled images count 2000 times
    # (FedDB solves for weights instead; FedLabel weighs its second copies by their pseudo-labels)
    # pseudo-labels
    threshold: float = 0.95  # [tau]
    kappa: float = KAPPA_STAR  # [kappa]
    fixed_weight: float | None = None  # takes the place of lambda(u)
    use_cpg: bool = True  # False: no label where only the global model is confident
    use_cdsc: bool = True  # False: the local label stands uncorrected
    target: Literal["hard", "soft"] = "hard"  # "soft": the same model's probabilities instead of its argmax
    pl_bn: Literal["joint", "eval"] = "joint"  # BN statistics behind the local pseudo-label
    kl: Literal["forward", "reverse"] = "forward"  # Alg. 1 prints "reverse"
    lambda_u: float = 1.0  # weight of the unsupervised loss
    n_probe: int = 512  # images of the test set and of each pool on which the log compares models
    log_both: bool = True  # score weak views with the global model too, where only the log needs it
    # machine
    channels_last: bool = True
    precision: Literal["fp32", "bf16"] = "fp32"  # of training; pseudo-labels, losses and tests stay fp32
    compile: bool = False

    @property
    def label(self) -> str:
        """A short name for progress bars and lists, such as ``SAGE digits α=0.1 10% seed=2``."""
        skew = "iid" if self.scheme == "iid" else f"α={self.alpha}"
        share = f"{self.label_share:.0%}" if self.labelled_per_class is None else f"{self.labelled_per_class}/class"
        soft = "" if self.target == "hard" else " soft"
        return f"{self.method}{soft} {self.dataset} {skew} {share} seed={self.seed}"

    @property
    def channels(self) -> int:
        """Channels of the first convolution."""
        return int(STEM_CHANNELS * self.width)

    def _check_ranges(self) -> None:
        super()._check_ranges()
        check_counts(self, ("unlabelled_batch_size", "rounds"), least=1)
        check_counts(self, ("n_probe",), least=0)
        for name, least in (("steps_per_epoch", 1), ("labelled_per_class", 1), ("image_size", 8)):
            if getattr(self, name) is not None:
                check_counts(self, (name,), least=least)
        check("bn_momentum", self.bn_momentum, lambda v: 0 < v <= 1, "in (0, 1]")
        for name in ("threshold", "fixed_weight"):
            value = getattr(self, name)
            optional = name == "fixed_weight"
            check(name, value, lambda v, optional=optional: (v is None and optional) or 0 <= v <= 1, "in [0, 1]")
        for name in ("kappa", "lambda_u"):
            check(name, getattr(self, name), lambda v: 0 <= v < math.inf, "0 or more")
        check("label_share", self.label_share, lambda v: 0 < v < 1, "a share in (0, 1), such as 0.1")
        check("width", self.width, lambda v: v > 0 and (v * STEM_CHANNELS).is_integer(),
              f"a multiple of 1/{STEM_CHANNELS} above 0, such as 4")  # fmt: skip
        if self.scheme == "iid":
            check("alpha", self.alpha, lambda v: v is None, "None with scheme='iid'")
        else:
            check("alpha", self.alpha, lambda v: v is not None and 0 < v < math.inf, "a positive concentration")
        check_is_read(self)


SAGE_PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "smoke": {
            "dataset": "digits",
            "n_clients": 20,
            "participation": 0.4,
            "rounds": 8,
            "local_epochs": 1,
            "batch_size": 8,
            "unlabelled_batch_size": 16,
            "width": 1.0,
            "n_probe": 60,
            "bn_momentum": 0.5,  # 7 steps a round forget the statistics as far as the 95 of the paper do at 0.1
        },
        "mini": {
            "dataset": "cifar10",
            "n_clients": 20,
            "participation": 0.4,
            "rounds": 20,  # and so few steps, because a round takes half a minute of one core
            "local_epochs": 1,
            "batch_size": 32,
            "unlabelled_batch_size": 64,
            "steps_per_epoch": 10,
            "bn_momentum": 0.35,  # as in smoke, for 10 steps
            "n_probe": 128,
            "width": 1.0,
        },
        "paper": {
            "dataset": "cifar10",
            "n_clients": 20,
            "participation": 0.4,
            "rounds": 300,
            "local_epochs": 5,
            "batch_size": 128,
            "unlabelled_batch_size": 256,
            "width": 4.0,
        },
    }
)
"""The same code at three sizes; a profile is data, and nothing branches on its name."""

PAPER_ROUNDS: Mapping[str, int] = MappingProxyType({"cifar10": 300, "cifar100": 500, "svhn": 150, "cinic10": 400})
"""[T] rounds of each data set in the profile ``"paper"``."""

SAGE_METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "FedAvg": {},
        "FedProx": {},
        "FedAvg-SL": {},
        "FixMatch-LPL": {},
        "FixMatch-GPL": {},
        "FedProx+FixMatch": {},
        "FedAvg+FlexMatch": {},
        "FedMatch": {},
        "FedLabel": {},
        "FedLoKe": {},
        "FedDure": {},
        "FedDB": {},
        "SAGE": {},
    }
)
"""What each method changes in a profile."""

SAGE_AUTHORS_MODE: Mapping[str, Any] = MappingProxyType(
    {"partition_mode": "authors", "norm": "authors", "momentum_state": "carry", "weight_by": "authors"}
)
"""The switches that make a run do what SAGE's released code does where it differs from the paper."""
