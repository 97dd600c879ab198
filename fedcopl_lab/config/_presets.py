"""What fills a prompt-tuning run's settings: profiles, methods, modes, and CPL's levels."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from fedcopl_lab.config._prompting import PromptConfig

Mode = Literal["paper", "authors", "native"]

PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "smoke": {
            "dataset": "digits",
            "clip": "tiny",
            "n_clients": 5,
            "min_train": 10,
            "min_test": 5,
            "rounds": 4,
            "local_epochs": 2,
            "batch_size": 32,
            "refresh_every": 2,
            "n_text": 8,
            "n_visual": 5,
            # 8 shots x 10 classes x 5 clients is a third of the images: the share that 16 shots take of
            # CIFAR-100, the one set of the paper where FPL's budget neither vanishes nor takes every image.
            "shots": 8,
            "clients_per_forward": 5,  # so small a model spends much of a step on starting operations
        },
        "mini": {
            "dataset": "cifar10:unseen:6000",  # 5,000 training and 1,000 test images that mini was not trained on
            "clip": "mini",
            "n_clients": 10,
            "min_train": 10,
            "min_test": 5,
            "rounds": 6,
            "local_epochs": 2,
            "batch_size": 32,
            "refresh_every": 2,
            "n_text": 8,
            "n_visual": 5,
            "shots": 16,  # the paper's; x 10 classes x 10 clients a third of the images, as on the paper's CIFAR-100
            "clients_per_forward": 5,
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
            "shots": 16,
        },
    }
)
"""The same code at different sizes; a profile is data, and nothing branches on its name."""

METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "zero-shot": {"labeller": "none", "aggregate": "none", "rounds": 0},
        "PromptFL": {"labeller": "FPL", "aggregate": "both", "weight_by": "selected"},
        "PromptProx": {"labeller": "FPL", "aggregate": "both", "weight_by": "selected"},
        "pFedPrompt": {"labeller": "FPL", "aggregate": "both", "weight_by": "selected"},
        "FedOTP": {"labeller": "FPL", "aggregate": "both", "weight_by": "selected"},
        "FedCoPL": {"labeller": "CoPL", "aggregate": "visual", "weight_by": "quota"},
    }
)
"""What each method changes in a profile, as main Table 1 compares them: both prompts and one optimiser for all.

PromptFL averages both prompts because main Tables 3 and 6 show it; we read the other baselines alike. FedOTP
averages its global text prompt and keeps a second, local one.
"""

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

_COOP = {"modalities": "text", "lr": 0.001, "weight_decay": 5e-4, "batch_size": 32}

NATIVE_MODE: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "zero-shot": {},
        "PromptFL": {**_COOP, "local_epochs": 5, "lr_schedule": "run", "warmup_epochs": 1},
        "PromptProx": {**_COOP, "local_epochs": 1, "lr_schedule": "constant"},
        "pFedPrompt": {**_COOP, "local_epochs": 5, "lr_schedule": "run", "warmup_epochs": 1},
        "FedOTP": {**_COOP, "local_epochs": 1, "lr_schedule": "constant"},
        "FedCoPL": {},
    }
)
"""Each baseline's own optimiser and prompts, from its public code; rounds and prompt lengths stay the profile's.

PromptProx as in FedOTP's repository, the one public implementation; pFedPrompt has none and takes PromptFL's.
The codes also crop and flip training images at random and compute in half precision; here neither is done.
"""

CPL_LEVELS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"dtd": (0.75, 0.95), "resisc45": (0.90, 0.97), "cub": (0.75, 0.99)}
)
"""CPL's two quantiles (alpha, beta) per data set, as its code sets them for learning without labels."""


def cpl_levels(config: PromptConfig, n_classes: int) -> tuple[float, float]:
    """CPL's quantiles (alpha, beta) of a run: its own, else the data set's, else (0.75, 1 - 2 / C).

    The last is CPL's advice for new data, beta = 1 - g / C with g from 1 to 3.

    >>> cpl_levels(configure("smoke"), 10)
    (0.75, 0.8)
    """
    alpha, beta = CPL_LEVELS.get(config.dataset, (0.75, 1 - 2 / n_classes))
    return (
        alpha if config.cpl_alpha is None else config.cpl_alpha,
        max(beta, 0.0) if config.cpl_beta is None else config.cpl_beta,
    )
