"""What makes one semi-supervised method differ from the next: a handful of hooks around one local task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState, Sent
from fedcopl_lab.methods._sage_together import Descend, Pass, Step
from fedcopl_lab.methods.protocol import Tensors
from fedcopl_lab.steps import CorrectedLabels, average_models, confident_labels, consistency_loss


@dataclass(frozen=True)
class RoundEnd:
    """What the server has in its hands when the clients are done."""

    setting: SemiSetting  # data and federation
    before: SemiState  # the state the round started from
    updates: Mapping[int, Sent]  # client -> what it sent, in the order of client numbers
    weights: Tensor  # aggregation weight of each of them, [M]


def no_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """No pseudo-label at all."""
    local = scores.local
    n, c = local.shape
    return CorrectedLabels(local.new_zeros(n, c), local.new_ones(n), local.new_zeros(n, dtype=torch.bool))


def nothing(task: LocalTask) -> None:
    """No work before or after the steps."""


def send_extras(setting: SemiSetting, state: SemiState, participants: Sequence[int]) -> dict[int, Tensors]:
    """Beside the model every participant receives all that the server keeps."""
    return dict.fromkeys(participants, state.extras)


def merge_models(end: RoundEnd) -> SemiState:
    """The server's new model is the weighted mean of the clients' models; nothing else is kept."""
    states = [update.model for update in end.updates.values()]
    return replace(end.before, model=average_models(states, end.weights))


def joint_step(task: LocalTask, batch: Batch, follow: Callable[[LocalTask, Tensor], None] | None = None) -> Step:
    """Labelled, weak and strong views in one forward pass in training mode; supervised + unsupervised loss.

    ``follow`` sees the strong views' scores once the weak ones have their labels.
    """
    config, recipe = task.config, task.recipe
    labelled, *of_pool = yield Pass(batch.joint_views)
    total = F.cross_entropy(labelled, batch.labels)
    losses = {"supervised": total}
    if of_pool:
        weak, strong = of_pool
        views = task.weak_scores(batch, weak)
        labels = recipe.label(task, views)
        task.note(views, labels)
        if follow is not None:
            follow(task, strong.detach())
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


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One method: which images it uses, and its hooks.

    A round: ``message`` -> per participant ``begin``, all ``step``s, ``end`` -> ``merge``. Every hook gets the
    :class:`LocalTask` with the models, the optimiser and three stores: ``task.received`` (from the server),
    ``task.memory`` (kept by this client until it takes part again), ``task.send`` (to the server).

    Attributes:
        labels: ``"few"`` labelled images of a client, or ``"all"`` its training images with their labels.
        uses_pool: whether steps get weak and strong views of unlabelled images.
        uses_global: whether labels need the global model's scores.
        labelled_strong: whether steps get strong views of labelled images too.
        label: weak views' scores -> targets and mask.
        regulariser: a term of the loss beside the two; None for none.
        begin: before the first step: make further models, read what the server sent.
        step: one optimiser step: yields what it needs (:class:`Pass`, :class:`Descend`), returns its losses.
        end: after the last step: put what is sent or kept where it belongs.
        message: what the server sends to each participant beside the model.
        merge: what the server makes of the clients' updates.
    """

    labels: Literal["few", "all"] = "few"
    uses_pool: bool = True
    uses_global: bool = False
    labelled_strong: bool = False
    label: Callable[[LocalTask, WeakScores], CorrectedLabels] = no_labels
    regulariser: Callable[[LocalTask], Tensor] | None = None
    begin: Callable[[LocalTask], None] = nothing
    step: Callable[[LocalTask, Batch], Step] = joint_step
    end: Callable[[LocalTask], None] = nothing
    message: Callable[[SemiSetting, SemiState, Sequence[int]], dict[int, Tensors]] = send_extras
    merge: Callable[[RoundEnd], SemiState] = merge_models
