"""What the training of every embedded model shares: weight decay on matrices only."""

from collections.abc import Iterable
from typing import Any

from torch import nn


def decay_groups(weights: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """An optimiser's two groups: matrices, which decay, and the rest, which does not."""
    weights = list(weights)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
