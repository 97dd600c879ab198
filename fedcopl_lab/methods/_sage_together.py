"""Several clients' rounds in one: one forward and backward pass and one optimiser step for all of them."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn

from fedcopl_lab._card import tf32_in
from fedcopl_lab.methods._fixmatch import joint_loss
from fedcopl_lab.methods._sage_local_task import ClientUpdate, LocalTask
from fedcopl_lab.models import StackedResNet8, load_values, placed, single_values, stacked_values


def run_together(tasks: Sequence[LocalTask]) -> list[ClientUpdate]:
    """What :meth:`LocalTask.run` gives for each task, up to rounding, where steps are :func:`joint_step`.

    Every client keeps its own weights, batch statistics, labels and losses: convolutions run in groups, and the sum of
    the clients' losses has for each client's weights the gradient of its own loss.

    Args:
        tasks: of one round and setting, with equal numbers of steps; the global model is the same for all.
    """
    first, n = tasks[0], len(tasks)
    config = first.config
    model = _shared_stack(
        n, first.setting.dataset.n_classes, config.channels, config.bn_momentum, config.device, config.channels_last
    )
    load_values(model, stacked_values([task.start for task in tasks]))
    optimiser = first.sgd(model.train().parameters())
    for client, task in enumerate(tasks):
        task.recipe.begin(task)
        task.trained = partial(_own_parameters, model, n, client)
    with tf32_in(convolutions=config.precision != "fp32"):
        for batches in zip(*(task.batches() for task in tasks), strict=True):
            images = torch.cat([torch.cat(batch.joint_views) for batch in batches], dim=1)
            scores = first.scores(model, images)
            parts = [joint_loss(task, batch, own) for task, batch, own in zip(tasks, batches, scores, strict=True)]
            first.descend(torch.stack([total for total, _ in parts]).sum(), optimiser)
            for task, (_, losses) in zip(tasks, parts, strict=True):
                task.count(losses)
    trained, updates = model.state_dict(), []
    for client, task in enumerate(tasks):
        load_values(task.model, single_values(trained, n, client))
        updates.append(task.update())
    return updates


def _own_parameters(model: nn.Module, n: int, client: int) -> list[torch.Tensor]:
    return list(single_values(dict(model.named_parameters()), n, client).values())


@lru_cache(maxsize=2)  # a process works through runs of one shape after the other
def _shared_stack(n: int, n_classes: int, channels: int, bn_momentum: float, device: str, channels_last: bool) -> Any:
    """A model whose values every round overwrites."""
    return placed(StackedResNet8(n, n_classes, channels, bn_momentum), device, channels_last)
