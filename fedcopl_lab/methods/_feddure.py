"""FedDure: two regulators watch the pseudo-labels, a copy of the model coarsely, a small network image by image.

From the paper (AAAI 2024): the coarse regulator, a copy of the round's start, takes a step on the model's labels,
and the change d of its loss on labelled images weighs a further term of the model's loss; the fine regulator, a
network of 100 hidden units on a prediction, weighs single images and descends on the labelled loss after a virtual
step of the model (a bi-level problem). From public code: d is the loss after less the loss before (the usual
theory has the other sign, ``feddure_feedback="fall"``), hard labels of strong views; there the fine regulator is
drawn anew every round and never trained (``feddure_fine=False`` weighs all images alike). Our port: both parts are
on; the client keeps its fine regulator from round to round; every step is joint (public code: 5 labelled steps,
then 5 joint ones); tau as in the other methods (public code 0.6); no soft consistency term; the virtual step is one
of plain gradient descent over the strong views; the common optimiser (public code: Adam).
"""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._joint import joint_scores, pool_views
from fedcopl_lab.methods._local_task import LocalTask, WeakScores
from fedcopl_lab.methods._recipe import Losses, Recipe
from fedcopl_lab.methods._semi_state import copied
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import CorrectedLabels, confident_labels

_COARSE, _FINE = "coarse", "fine"
_KEPT = "fine/"
_HIDDEN = 100
_NO_WEIGHT = 1e-12


class Weighting(nn.Module):
    """The fine regulator: predictions [n, C] -> weights in (0, 1), [n].

    >>> Weighting(10)(torch.full((2, 10), 0.1)).shape
    torch.Size([2])
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_classes, _HIDDEN)
        self.out = nn.Linear(_HIDDEN, 1)

    def forward(self, predictions: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
        """[n, C] -> [n]."""
        return self.out(F.relu(self.hidden(predictions))).squeeze(1).sigmoid()


def draw_weighting(n_classes: int, generator: torch.Generator) -> Weighting:
    """A freshly drawn fine regulator, uniform in ±1/sqrt(inputs).

    >>> sum(p.numel() for p in draw_weighting(10, torch.Generator().manual_seed(0)).parameters())
    1201
    """
    with torch.device("meta"):
        empty = Weighting(n_classes)
    net = empty.to_empty(device="cpu")
    with torch.no_grad():
        for layer in (net.hidden, net.out):
            bound = 1 / math.sqrt(layer.in_features)
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)
    return net


def weighted_mean(losses: Float[Tensor, "n"], weights: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    """sum w_u l_u / sum w_u; 0 where all weights are 0.

    >>> weighted_mean(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
    tensor(2.)
    """
    return (weights * losses).sum() / weights.sum().clamp(min=_NO_WEIGHT)


def loss_after_virtual_step(
    model: nn.Module, strong: Float[Tensor, "n 3 h w"], labels: Int[Tensor, "n"], weights: Float[Tensor, "n"],
    labelled: Float[Tensor, "b 3 h w"], true: Int[Tensor, "b"], lr: float,
) -> Float[Tensor, ""]:  # fmt: skip
    """Labelled loss of the model after a step down the weighted loss, as a function of the weights (FedDure Eq. 8).

    The model and its running statistics stay as they are; the result carries a gradient to ``weights``.

    Args:
        model: the model in its mode.
        strong: strong views, [n, 3, h, w].
        labels: their pseudo-labels, [n].
        weights: weight of each, [n].
        labelled: labelled images, [b, 3, h, w].
        true: their classes, [b].
        lr: length of the virtual step.

    >>> loss_after_virtual_step(model, strong, labels, weights, labelled, true, lr=0.1).requires_grad
    True

    Shown in notebook ``sage_methods``.
    """
    parameters = dict(model.named_parameters())
    per_image = F.cross_entropy(_scores(model, parameters, strong), labels, reduction="none")
    slopes = torch.autograd.grad(weighted_mean(per_image, weights), list(parameters.values()), create_graph=True)
    moved = {name: value - lr * slope for (name, value), slope in zip(parameters.items(), slopes, strict=True)}
    return F.cross_entropy(_scores(model, moved, labelled), true)


def appoint_regulators(task: LocalTask) -> None:
    """The coarse regulator starts as the round's model, the fine one as the client left it."""
    config = task.config
    if config.feddure.coarse:
        coarse = task.copy_of(task.start).train()
        task.models[_COARSE] = coarse
        task.optimisers[_COARSE] = task.sgd(coarse.parameters())
    if config.feddure.fine:
        generator = torch_generator(config.seed, "fine regulator", task.client)
        fine = draw_weighting(task.setting.dataset.n_classes, generator).to(config.device)
        kept = {name.removeprefix(_KEPT): value for name, value in task.memory.items() if name.startswith(_KEPT)}
        if kept:
            fine.load_state_dict(kept)
        task.models[_FINE] = fine
        task.optimisers[_FINE] = task.sgd(fine.parameters())


def regulated_step(task: LocalTask, batch: Batch) -> Losses:
    """Labels, weighted pseudo-labels, and the coarse regulator's feedback on the model's own labels."""
    config = task.config
    views, strong_views, places = pool_views(batch)
    labelled, weak, strong = joint_scores(task, task.model, batch.labelled, views, strong_views)
    local = task.eval_scores(task.model, views) if config.pl_bn == "eval" else weak.detach()
    tau = config.threshold if config.feddure.threshold is None else config.feddure.threshold
    chosen = confident_labels(local, tau)
    labels = chosen.target.argmax(dim=1)
    losses = {}
    weight = chosen.weight
    if config.feddure.fine:
        losses["fine"] = _train_fine(task, batch, strong_views, local, labels, chosen.used)
        with torch.no_grad():
            weight = task.models[_FINE](local.softmax(dim=1))
    seen = WeakScores(local=local, global_=task.global_scores_of(batch), places=places)
    task.note(seen, CorrectedLabels(target=chosen.target, weight=torch.ones_like(weight), used=chosen.used))
    losses["supervised"] = F.cross_entropy(labelled, batch.labels)
    per_image = F.cross_entropy(strong, labels, reduction="none")
    losses["unsupervised"] = weighted_mean(per_image, weight * chosen.used)
    total = losses["supervised"] + config.lambda_u * losses["unsupervised"]
    if config.feddure.coarse:
        own = strong.detach().argmax(dim=1)
        losses["feedback"] = _feedback(task, batch, strong_views, own)
        total = total + losses["feedback"] * F.cross_entropy(strong, own)
    task.descend(total)
    return losses


def keep_fine_regulator(task: LocalTask) -> None:
    """The fine regulator stays with the client."""
    if task.config.feddure.fine:
        kept = copied(task.models[_FINE].state_dict())
        task.memory |= {f"{_KEPT}{name}": value for name, value in kept.items()}


def _train_fine(
    task: LocalTask, batch: Batch, strong: Tensor, local: Tensor, labels: Tensor, used: Bool[Tensor, "n"]
) -> Tensor:
    """One step of the fine regulator; none where no image has a label."""
    if not bool(used.any()):
        return local.new_zeros(())
    weights = task.models[_FINE](local.softmax(dim=1)) * used
    loss = loss_after_virtual_step(task.model, strong, labels, weights, batch.labelled, batch.labels, task.config.lr)
    fine, optimiser = task.models[_FINE], task.optimisers[_FINE]
    slopes = torch.autograd.grad(loss, list(fine.parameters()))
    for parameter, slope in zip(fine.parameters(), slopes, strict=True):
        parameter.grad = slope
    optimiser.step()
    return loss


def _feedback(task: LocalTask, batch: Batch, strong: Tensor, own: Tensor) -> Tensor:
    """d: how the coarse regulator's labelled loss changes when it takes a step on the model's labels."""
    coarse = task.models[_COARSE]
    with torch.no_grad():
        before = F.cross_entropy(task.scores(coarse, batch.labelled), batch.labels)
    task.descend(F.cross_entropy(task.scores(coarse, strong), own), task.optimisers[_COARSE])
    with torch.no_grad():
        after = F.cross_entropy(task.scores(coarse, batch.labelled), batch.labels)
    return after - before if task.config.feddure.feedback == "rise" else before - after


def _scores(model: nn.Module, parameters: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """Scores with other parameters, in float32; running statistics are updated in copies alone."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    logits: Tensor = functional_call(model, {**parameters, **buffers}, (images,))
    return logits


FEDDURE = Recipe(begin=appoint_regulators, step=regulated_step, end=keep_fine_regulator)
"""Dual regulators."""
