"""Generators derived from a run's seed and a purpose; nothing here touches a global random state."""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derived_seed(seed: int, purpose: str, *parts: int | str) -> int:
    """A 63-bit seed for one purpose of one run.

    Distinct (seed, purpose, parts) give independent streams, so that a result does not depend on the
    order in which clients are visited, on the engine, or on a resume.

    Args:
        seed: the run's seed.
        purpose: what the numbers are for, such as ``"batches"``.
        parts: round, client or other indices that separate streams.

    >>> derived_seed(0, "batches", 3, 1) == derived_seed(0, "batches", 3, 1)
    True
    """
    text = "/".join(str(part) for part in (seed, purpose, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def torch_generator(seed: int, purpose: str, *parts: int | str) -> "torch.Generator":
    """A CPU ``torch.Generator`` for one purpose of one run; see :func:`derived_seed`."""
    import torch  # kept out of the module top: figures and plans must not load torch

    return torch.Generator().manual_seed(derived_seed(seed, purpose, *parts))


def numpy_generator(seed: int, purpose: str, *parts: int | str) -> np.random.Generator:
    """A ``numpy.random.Generator`` for one purpose of one run; see :func:`derived_seed`."""
    return np.random.default_rng(derived_seed(seed, purpose, *parts))
