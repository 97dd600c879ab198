"""What training any model of the package takes: a fixed number of threads, and decay on matrices only."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with so many threads, as a recipe or a run key names them: another count may round sums differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def decay_groups(weights: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """An optimiser's two groups: matrices, which decay, and the rest, which does not."""
    weights = list(weights)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
