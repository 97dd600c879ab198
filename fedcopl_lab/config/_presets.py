"""What fills a run's settings, read from ``presets.toml``: profiles, methods, modes, and CPL's levels."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedcopl_lab.config._prompt_config import PromptConfig

Preset = Mapping[str, Any]
Presets = Mapping[str, Preset]

_ALL = tomllib.loads((Path(__file__).parent / "presets.toml").read_text(encoding="utf-8"))
_PROMPTING, _SAGE = _ALL["prompting"], _ALL["sage"]

EXPECTED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        paper: {name: preset.pop("expected") for name, preset in _ALL[paper]["profiles"].items()}
        for paper in ("prompting", "sage")
    }
)
"""``"prompting"`` or ``"sage"`` -> profile -> what its own method reaches there, how fast and on what machine."""

PROFILES: Presets = MappingProxyType(_PROMPTING["profiles"])
"""The same code at different sizes; a profile is data, and nothing branches on its name."""

METHODS: Presets = MappingProxyType(_PROMPTING["methods"])
"""What each method changes in a profile, as main Table 1 compares them: both prompts and one optimiser for all.

PromptFL averages both prompts because main Tables 3 and 6 show it; we read the other baselines alike. FedOTP
averages its global text prompt and keeps a second, local one.
"""

AUTHORS_MODE: Preset = MappingProxyType(_PROMPTING["authors"])
"""The switches that make a run do what the released code does where it differs from the paper."""

NATIVE_MODE: Presets = MappingProxyType(_PROMPTING["native"])
"""Each baseline's own optimiser and prompts, from its public code; rounds and prompt lengths stay the profile's.

PromptProx as in FedOTP's repository, the one public implementation; pFedPrompt has none and takes PromptFL's.
The codes also crop and flip training images at random and compute in half precision; here neither is done.
"""

PAPER_CLIENTS: Mapping[str, int] = MappingProxyType(_PROMPTING["paper_clients"])
"""[K] clients of the data sets in FedCoPL's profile ``"paper"`` that have other numbers than the profile says."""

SAGE_PROFILES: Presets = MappingProxyType(_SAGE["profiles"])
"""The profiles of SAGE and its baselines."""

SAGE_METHOD_PRESETS: Presets = MappingProxyType(_SAGE["methods"])
"""What each of SAGE's methods changes in every profile."""

SAGE_PAPER_METHODS: Presets = MappingProxyType(_SAGE["paper_methods"])
"""What each of SAGE's methods changes in the profile ``"paper"``: its public code's numbers of rounds."""

PAPER_ROUNDS: Mapping[str, int] = MappingProxyType(_SAGE["paper_rounds"])
"""[T] rounds of each data set in SAGE's profile ``"paper"``."""

SAGE_AUTHORS_MODE: Preset = MappingProxyType(_SAGE["authors"])
"""The switches that make a run do what SAGE's released code does where it differs from the paper."""

CPL_LEVELS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {name: (low, high) for name, (low, high) in _ALL["cpl_levels"].items()}
)
"""CPL's two quantiles (alpha, beta) per data set, as its code sets them for learning without labels."""


def cpl_levels(config: PromptConfig, n_classes: int) -> tuple[float, float]:
    """CPL's quantiles (alpha, beta) of a run: its own, else the data set's, else (0.75, 1 - gamma / C).

    The last is CPL's advice for new data, with gamma from 1 to 3.

    >>> cpl_levels(configure("smoke"), 10)
    (0.75, 0.9)
    """
    alpha, beta = CPL_LEVELS.get(config.dataset, (0.75, 1 - config.cpl_gamma / n_classes))
    return (
        alpha if config.cpl_alpha is None else config.cpl_alpha,
        max(beta, 0.0) if config.cpl_beta is None else config.cpl_beta,
    )
