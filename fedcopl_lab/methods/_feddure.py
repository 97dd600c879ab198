"""FedDure: two regulators watch the pseudo-labels, a copy of the model coarsely, a small network image by image.

From the paper (AAAI 2024): the coarse regulator, a copy of the round's start, takes a step on the model's labels,
and the change d of its loss on labelled images weighs a further term of the model's loss; the fine regulator, a
network of 100 hidden units on a prediction, weighs single images and descends on the labelled loss after a virtual
step of the model (a bi-level problem). From public code: d is the loss after less the loss before (the usual
theory has the other sign, ``feddure.feedback="fall"``), hard labels of strong views; there the fine regulator is
drawn again every round and never trained (``feddure.fine=False`` weighs all images alike). Our port: both parts are
on; the client keeps its fine regulator from round to round; every step is joint (public code: 5 labelled steps,
then 5 joint ones); tau as in the other methods (public code 0.6); no soft consistency term; the virtual step is one
of plain gradient descent over the strong views; the common optimiser (public code: Adam).
"""

import math
from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._fixmatch import Losses
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._sage_local_task import LocalTask, stripped
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import confident_labels

_COARSE, _FINE = "coarse", "fine"
_KEPT = "fine/"
_HIDDEN = 100
_NO_WEIGHT = 1e-12


class Weighting(nn.Module):
    """The fine regulator: predictions [n, C] -> weights in (0, 1), [n]."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_classes, _HIDDEN)
        self.out = nn.Linear(_HIDDEN, 1)

    def forward(self, predictions: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
        """[n, C] -> [n]."""
        return self.out(F.relu(self.hidden(predictions))).squeeze(1).sigmoid()


def draw_weighting(n_classes: int, generator: torch.Generator) -> Weighting:
    """A freshly drawn fine regulator, uniform in ±1/sqrt(inputs)."""
    with torch.device("meta"):
        empty = Weighting(n_classes)
    net = empty.to_empty(device="cpu")
    with torch.no_grad():
        for layer in (net.hidden, net.out):
            bound = 1 / math.sqrt(layer.in_features)
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)
    return net


def weighted_mean(
    losses: Float[Tensor, "n"], weights: Float[Tensor, "n"], over: Literal["images", "weights"] = "weights"
) -> Float[Tensor, ""]:
    """sum w_u l_u / sum w_u, 0 where all weights are 0; over ``"images"`` the sum is divided by their number.

    >>> losses, weights = torch.tensor([4.0, 0.0]), torch.tensor([0.5, 0.0])
    >>> weighted_mean(losses, weights).item(), weighted_mean(losses, weights, "images").item()
    (4.0, 1.0)
    """
    return (weights * losses).sum() / (weights.sum().clamp(min=_NO_WEIGHT) if over == "weights" else len(weights))


def loss_after_virtual_step(
    model: nn.Module,
    strong: Float[Tensor, "n 3 h w"],
    labels: Int[Tensor, "n"],
    weights: Float[Tensor, "n"],
    labelled: Float[Tensor, "b 3 h w"],
    true: Int[Tensor, "b"],
    lr: float,
    over: Literal["images", "weights"] = "weights",
) -> Float[Tensor, ""]:
    """Labelled loss of the model after a step of length ``lr`` down the weighted loss of strong views (FedDure Eq. 8).

    The model and its running statistics stay as they are; the result carries a gradient to ``weights``.
    """
    parameters = dict(model.named_parameters())
    per_image = F.cross_entropy(_scores(model, parameters, strong), labels, reduction="none")
    slopes = torch.autograd.grad(weighted_mean(per_image, weights, over), list(parameters.values()), create_graph=True)
    moved = {name: value - lr * slope for (name, value), slope in zip(parameters.items(), slopes, strict=True)}
    return F.cross_entropy(_scores(model, moved, labelled), true)


def start_regulators(task: LocalTask) -> None:
    """The coarse regulator starts as the round's model, the fine one as the client left it."""
    config = task.config
    if config.feddure.coarse:
        task.add_model(_COARSE, task.copy_of(task.start).train())
    if config.feddure.fine:
        generator = torch_generator(config.seed, "fine regulator", task.client)
        fine = draw_weighting(task.setting.dataset.n_classes, generator).to(config.device)
        if kept := stripped(task.memory, _KEPT):
            fine.load_state_dict(kept)
        task.add_model(_FINE, fine)


def regulated_step(task: LocalTask, batch: Batch) -> Losses:
    """Labels, weighted pseudo-labels, and the coarse regulator's feedback on the model's own labels."""
    config = task.config
    views, strong_views, _ = batch.pool_views
    labelled, weak, strong = task.joint_scores(task.model, batch.labelled, views, strong_views)
    scores = task.weak_scores(batch, weak)
    local = scores.local
    tau = config.threshold if config.feddure.threshold is None else config.feddure.threshold
    chosen = confident_labels(local, tau, look=False)
    labels = chosen.target.argmax(dim=1)
    losses = {}
    weight = chosen.weight
    if config.feddure.fine:
        losses["fine"] = _train_fine(task, batch, strong_views, local, labels, chosen.used)
        with torch.no_grad():
            weight = task.models[_FINE](local.softmax(dim=1))
    task.note(scores, chosen)
    losses["supervised"] = F.cross_entropy(labelled, batch.labels)
    per_image = F.cross_entropy(strong, labels, reduction="none")
    losses["unsupervised"] = weighted_mean(per_image, weight * chosen.used, config.feddure.mean)
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
        task.keep(_FINE, _KEPT)


def _train_fine(
    task: LocalTask, batch: Batch, strong: Tensor, local: Tensor, labels: Tensor, used: Bool[Tensor, "n"]
) -> Tensor:
    """One step of the fine regulator; none where no image has a label, which a GPU finds out without being asked."""
    if local.device.type == "cpu" and not used.any():
        return local.new_zeros(())
    weights = task.models[_FINE](local.softmax(dim=1)) * used
    config, true = task.config, batch.labels
    loss = loss_after_virtual_step(
        task.model, strong, labels, weights, batch.labelled, true, config.lr, config.feddure.mean
    )
    fine, optimiser = task.models[_FINE], task.optimisers[_FINE]
    slopes = torch.autograd.grad(loss, list(fine.parameters()))
    for parameter, slope in zip(fine.parameters(), slopes, strict=True):
        parameter.grad = slope
    _step_where(used.any(), optimiser)
    return loss.detach().where(used.any(), 0)


@torch.no_grad()
def _step_where(wanted: Bool[Tensor, ""], optimiser: torch.optim.Optimizer) -> None:
    """A step that leaves parameters and momentum as they were where it is not wanted."""
    parameters = optimiser.param_groups[0]["params"]
    states = [optimiser.state[one] for one in parameters]
    before = [one.clone() for one in parameters]
    kept = [state.get("momentum_buffer") for state in states]
    kept = [torch.zeros_like(p) if b is None else b.clone() for p, b in zip(parameters, kept, strict=True)]
    optimiser.step()
    moved = [*parameters, *(state.get("momentum_buffer") for state in states)]
    for now, then in zip(moved, [*before, *kept], strict=True):
        if now is not None:  # none without momentum
            now.copy_(now.where(wanted, then))


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


FEDDURE = Recipe(begin=start_regulators, step=regulated_step, end=keep_fine_regulator)
"""Dual regulators."""
