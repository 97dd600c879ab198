"""FedAvg+FlexMatch: FixMatch whose threshold is lower for classes that are learned more slowly.

From the paper (FlexMatch, NeurIPS 2021): thresholds tau * beta / (2 - beta) with beta a class's share of the
most frequent one, and the warm-up that lets images without any label yet count as a class of their own.
From public code: an image's class is the one it was last predicted with a confidence of tau or more, and
thresholds come from what was known before the batch. Our port: every client remembers the classes of its pool
from round to round; without that, each round would start with thresholds of 0.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.steps import CorrectedLabels, confident_labels

_LEARNED = "learned classes"
NOT_YET = -1
"""Class of an image that was never predicted with confidence."""


def flexible_thresholds(
    learned: Int[Tensor, "n"],
    n_classes: int,
    threshold: float,
    mapping: Literal["convex", "linear"] = "convex",
    warm_up: bool = True,
) -> Float[Tensor, "c"]:
    """The confidence in [0, tau] that each class demands (FlexMatch Eqs. 5-8).

    With beta a class's share of the most frequent one: tau * beta / (2 - beta), or with ``"linear"`` tau * beta. In the
    warm-up, while most images were never selected, beta is a share of their number.

    >>> flexible_thresholds(torch.tensor([0, 0, 1, -1]), 3, 0.9)
    tensor([0.9000, 0.3000, 0.0000])
    """
    numbers = learned.new_zeros(n_classes + 1).scatter_add_(0, learned - NOT_YET, torch.ones_like(learned))
    never, counts = numbers[0], numbers[1:]  # neither bincount nor a mask: both make a GPU tell how long they are
    most = torch.maximum(counts.max(), never) if warm_up else counts.max()
    share = counts / most.clamp(min=1)
    return threshold * (share / (2 - share) if mapping == "convex" else share)


def forget_between_rounds(task: LocalTask) -> None:
    """A pool starts with nothing learned: in a client's first round, or in each."""
    if _LEARNED not in task.memory or task.config.flexmatch.memory == "round":
        task.memory[_LEARNED] = torch.full_like(task.pool, NOT_YET)


def flexible_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """The local model's labels where its confidence reaches the threshold of their class."""
    config, learned = task.config, task.memory[_LEARNED]
    confidence, labels = scores.local.softmax(dim=1).max(dim=1)
    demanded = flexible_thresholds(
        learned, scores.local.shape[1], config.threshold, config.flexmatch.mapping, config.flexmatch.warm_up
    )
    fixed = confident_labels(scores.local, config.threshold, soft=config.target == "soft", look=False)
    learned[scores.places] = torch.where(fixed.used, labels, learned[scores.places])
    return CorrectedLabels(target=fixed.target, weight=fixed.weight, used=confidence >= demanded[labels])


FLEXMATCH = Recipe(begin=forget_between_rounds, label=flexible_labels)
"""FedAvg with FlexMatch on every client."""
