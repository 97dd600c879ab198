"""FixMatch in a federation: the local step that most methods share, with labels of the local or the global model."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.steps import CorrectedLabels, confident_labels, consistency_loss

Losses = Mapping[str, Tensor]
"""Scalar losses of one step by name, for the report."""


def joint_step(task: LocalTask, batch: Batch) -> Losses:
    """Labelled, weak and strong views in one forward pass in training mode; supervised + unsupervised loss."""
    total, losses = joint_loss(task, batch, task.scores(task.model, torch.cat(batch.joint_views)))
    task.descend(total)
    return losses


def joint_loss(task: LocalTask, batch: Batch, scores: Tensor) -> tuple[Tensor, Losses]:
    """The loss of :func:`joint_step` and its parts, from the model's scores of the batch's joint views, [n, C]."""
    config, recipe = task.config, task.recipe
    labelled, *of_pool = scores.split([len(views) for views in batch.joint_views])
    total = F.cross_entropy(labelled, batch.labels)
    losses = {"supervised": total}
    if of_pool:
        weak, strong = of_pool
        views = task.weak_scores(batch, weak)
        labels = recipe.label(task, views)
        task.note(views, labels)
        losses["unsupervised"] = consistency_loss(strong, labels.target, labels.used, config.kl)
        total = total + config.lambda_u * losses["unsupervised"]
    if recipe.regulariser is not None:
        losses["regulariser"] = recipe.regulariser(task)
        total = total + losses["regulariser"]
    return total, losses


def local_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """FixMatch with the local model's labels (LPL)."""
    return confident_labels(scores.local, task.config.threshold, soft=task.config.target == "soft", look=False)


def global_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """FixMatch with the global model's labels (GPL)."""
    return confident_labels(global_of(scores), task.config.threshold, soft=task.config.target == "soft", look=False)


def global_of(scores: WeakScores) -> Tensor:
    """The global model's scores, which a method has to ask for."""
    if scores.global_ is None:
        raise FedCoPLError("the recipe needs the global model's scores; set uses_global=True in its Recipe")
    return scores.global_
