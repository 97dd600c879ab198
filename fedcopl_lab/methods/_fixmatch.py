"""FixMatch in a federation: the local step that most methods share, with labels of the local or the global model."""

from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.methods._step_requests import Descend, Pass, Step
from fedcopl_lab.steps import CorrectedLabels, confident_labels, consistency_loss


def joint_step(task: LocalTask, batch: Batch) -> Step:
    """Labelled, weak and strong views in one forward pass in training mode; supervised + unsupervised loss."""
    config, recipe = task.config, task.recipe
    labelled, *of_pool = yield Pass(batch.joint_views)
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
    yield Descend(total)
    return losses


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
