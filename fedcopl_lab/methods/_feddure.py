"""FedDure: two regulators watch the pseudo-labels, a copy of the model coarsely, a small network image by image.

From the paper (AAAI 2024): the coarse regulator, a copy of the round's start, takes a step on the model's labels,
and the change d of its loss on labelled images weighs a further term of the model's loss; the fine regulator, a
network of 100 hidden units on a prediction, weighs single images and descends on the labelled loss after a virtual
step of the model (a bi-level problem). From public code: d is the loss after less the loss before (the usual
theory has the other sign, ``feddure.feedback="fall"``), hard labels of strong views; there the fine regulator is
drawn again every round and never trained (``feddure.fine=False`` weighs all images alike). Our port: both parts are
on; the coarse regulator steps on strong views and their labels (public code: on weak ones and theirs); the client
keeps its fine regulator from round to round; every step is joint (public code: 5 labelled steps, then 5 joint
ones); tau as in the other methods (public code 0.6); no soft consistency term; the virtual step is one of plain
gradient descent over the strong views; the common optimiser (public code: Adam). The paper divides weighted losses
by the sum of the weights, every profile by the number of images (``feddure.mean="images"``).
"""

import math
from collections.abc import Generator
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._sage_local_task import LocalTask
from fedcopl_lab.methods._sage_together import Descend, Pass, Step, VirtualPass
from fedcopl_lab.methods.protocol import grouped
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import CorrectedLabels, confident_labels

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


def start_regulators(task: LocalTask) -> None:
    """The coarse regulator starts as the round's model, the fine one as the client left it."""
    config = task.config
    if config.feddure.coarse:
        task.add_model(_COARSE, task.copy_of(task.start).train())
    if config.feddure.fine:
        generator = torch_generator(config.seed, "fine regulator", task.client)
        fine = draw_weighting(task.setting.dataset.n_classes, generator).to(config.device)
        if kept := grouped(task.memory, _KEPT):
            fine.load_state_dict(kept)
        task.add_model(_FINE, fine)


def regulated_step(task: LocalTask, batch: Batch) -> Step:
    """Labels, weighted pseudo-labels, and the coarse regulator's feedback on the model's own labels."""
    config = task.config
    _, strong_views, _ = batch.pool_views
    labelled, weak, strong = yield Pass(batch.joint_views)
    scores = task.weak_scores(batch, weak)
    local = scores.local
    tau = config.threshold if config.feddure.threshold is None else config.feddure.threshold
    chosen = confident_labels(local, tau, look=False)
    labels = chosen.target.argmax(dim=1)
    losses = {}
    weight = chosen.weight
    if config.feddure.fine:
        losses["fine"] = yield from _train_fine(task, batch, strong_views, local, chosen)
        with torch.no_grad():
            weight = task.models[_FINE](local.softmax(dim=1))
    task.note(scores, chosen)
    losses["supervised"] = F.cross_entropy(labelled, batch.labels)
    per_image = F.cross_entropy(strong, labels, reduction="none")
    losses["unsupervised"] = weighted_mean(per_image, weight * chosen.used, config.feddure.mean)
    total = losses["supervised"] + config.lambda_u * losses["unsupervised"]
    if config.feddure.coarse:
        own = strong.detach().argmax(dim=1)
        losses["feedback"] = yield from _feedback(task, batch, strong_views, own)
        total = total + losses["feedback"] * F.cross_entropy(strong, own)
    yield Descend(total)
    return losses


def keep_fine_regulator(task: LocalTask) -> None:
    """The fine regulator stays with the client."""
    if task.config.feddure.fine:
        task.keep(_FINE, _KEPT)


def _train_fine(
    task: LocalTask, batch: Batch, strong: Tensor, local: Tensor, chosen: CorrectedLabels
) -> Generator[Any, Any, Tensor]:
    """One step of the fine regulator down the labelled loss after a virtual step of the model (FedDure Eq. 8).

    None where no image has a label, which a GPU finds out without being asked.
    """
    config, labels, found = task.config, chosen.target.argmax(dim=1), chosen.used.any()
    weights = task.models[_FINE](local.softmax(dim=1)) * chosen.used

    def loss(scores: Tensor) -> Tensor:
        return weighted_mean(F.cross_entropy(scores, labels, reduction="none"), weights, config.feddure.mean)

    wanted = local.device.type != "cpu" or bool(found)
    moved = yield VirtualPass(strong, loss, batch.labelled, task.lr, wanted)
    if moved is None:
        return local.new_zeros(())
    after = F.cross_entropy(moved, batch.labels)
    yield Descend(after, _FINE, where=found)
    return after.detach().where(found, 0)


def _feedback(task: LocalTask, batch: Batch, strong: Tensor, own: Tensor) -> Generator[Any, Any, Tensor]:
    """d: how the coarse regulator's labelled loss changes when it takes a step on the model's labels."""
    (labelled,) = yield Pass((batch.labelled,), _COARSE, gradient=False)
    before = F.cross_entropy(labelled, batch.labels)
    (of_strong,) = yield Pass((strong,), _COARSE)
    yield Descend(F.cross_entropy(of_strong, own), _COARSE)
    (labelled,) = yield Pass((batch.labelled,), _COARSE, gradient=False)
    after = F.cross_entropy(labelled, batch.labels)
    return after - before if task.config.feddure.feedback == "rise" else before - after


FEDDURE = Recipe(begin=start_regulators, step=regulated_step, end=keep_fine_regulator)
"""Dual regulators."""
