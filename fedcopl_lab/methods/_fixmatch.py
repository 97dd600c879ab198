"""FixMatch in a federation: the local step that most methods share, with labels of the local or the global model."""

from collections.abc import Mapping

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
    config, recipe = task.config, task.recipe
    if batch.weak is None:
        losses = {"supervised": F.cross_entropy(task.scores(task.model, batch.labelled), batch.labels)}
        total = losses["supervised"]
    else:
        views, strong_views, _ = batch.pool_views
        labelled, weak, strong = task.joint_scores(task.model, batch.labelled, views, strong_views)
        scores = task.weak_scores(batch, weak)
        labels = recipe.label(task, scores)
        task.note(scores, labels)
        supervised = F.cross_entropy(labelled, batch.labels)
        unsupervised = consistency_loss(strong, labels.target, labels.used, config.kl)
        losses = {"supervised": supervised, "unsupervised": unsupervised}
        total = supervised + config.lambda_u * unsupervised
    if recipe.regulariser is not None:
        losses["regulariser"] = recipe.regulariser(task)
        total = total + losses["regulariser"]
    task.descend(total)
    return losses


def local_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """FixMatch with the local model's labels (LPL)."""
    return confident_labels(scores.local, task.config.threshold, soft=task.config.target == "soft")


def global_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """FixMatch with the global model's labels (GPL)."""
    return confident_labels(global_of(scores), task.config.threshold, soft=task.config.target == "soft")


def global_of(scores: WeakScores) -> Tensor:
    """The global model's scores, which a method has to ask for."""
    if scores.global_ is None:
        raise FedCoPLError("the recipe needs the global model's scores; set uses_global=True in its Recipe")
    return scores.global_
