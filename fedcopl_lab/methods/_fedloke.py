"""FedLoKe: every client keeps a model of its own, and that model and the global one teach each other.

From the paper (CIKM 2023): a private model per client, pulled towards the global one at the start of a round;
crosswise labels where a prediction's entropy is small. From public code: mu = 0.9 over all entries of the state,
entropy limit 0.1 nats, the global model sees strong views of labelled images, a ramp over the first 200 of 500
rounds, targets are the teacher's probabilities. Our port: the common optimiser (public code: SGD of 0.01 without
momentum, gradients clipped at 0.1), one draw of strong operations per image instead of one per batch, the ramp as
a share of the run's rounds (200 in profile ``paper``), one forward pass per model for all views of a step; a client's
first private model is the round's start (public code: 0.9 of the run's first model, 0.1 of the round's).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.methods._sage_together import Descend, Pass, Step
from fedcopl_lab.methods.protocol import Tensors, grouped
from fedcopl_lab.steps import CorrectedLabels, consistency_loss, entropy

_OWN = "own/"
_PRIVATE = "private"


def mixed_models(own: Tensors, other: Tensors, share: float) -> Tensors:
    """share * own + (1 - share) * other for every entry of two state dicts; whole numbers are truncated."""
    return {
        name: (share * own[name].double() + (1 - share) * value.double()).to(value.dtype)
        for name, value in other.items()
    }


def crosswise_labels(teacher: Float[Tensor, "n c"], most_entropy: float) -> CorrectedLabels:
    """A model's predictions as the other's targets, where their entropy is below a limit in nats (FedLoKe).

    >>> crosswise_labels(torch.tensor([[9.0, 0.0], [0.0, 0.0]]), 0.1).used.tolist()
    [True, False]
    """
    target = teacher.detach().softmax(dim=1)
    return CorrectedLabels(target=target, weight=torch.ones_like(target[:, 0]), used=entropy(teacher) < most_entropy)


def start_private_model(task: LocalTask) -> None:
    """The client's own model, moved a little towards the global one."""
    own = grouped(task.memory, _OWN)
    private = mixed_models(own, task.start, task.config.fedloke.mu) if own else task.start
    task.add_model(_PRIVATE, task.copy_of(private).train())


def crosswise_step(task: LocalTask, batch: Batch) -> Step:
    """Both models train on labels and on what the other is certain of."""
    if batch.labelled_strong is None:
        raise FedCoPLError("FedLoKe needs strong views of labelled images; set labelled_strong=True in its Recipe")
    config = task.config
    views, strong_views, places = batch.pool_views
    supervised, weak, strong = yield Pass((batch.labelled_strong, views, strong_views))
    own_supervised, own_weak, own_strong = yield Pass((batch.labelled, views, strong_views), _PRIVATE)
    from_own = crosswise_labels(own_weak, config.fedloke.entropy)
    from_global = crosswise_labels(weak, config.fedloke.entropy)
    task.note(WeakScores(weak.detach(), task.global_scores_of(batch), places), from_own)
    ramp = config.lambda_u * min(1.0, task.round / config.ramp_rounds)
    losses = {
        "supervised": F.cross_entropy(supervised, batch.labels),
        "unsupervised": consistency_loss(strong, from_own.target, from_own.used, config.kl),
        "own_supervised": F.cross_entropy(own_supervised, batch.labels),
        "own_unsupervised": consistency_loss(own_strong, from_global.target, from_global.used, config.kl),
    }
    yield Descend(losses["supervised"] + ramp * losses["unsupervised"])
    yield Descend(losses["own_supervised"] + ramp * losses["own_unsupervised"], _PRIVATE)
    return losses


def keep_private_model(task: LocalTask) -> None:
    """The private model stays with the client."""
    task.keep(_PRIVATE, _OWN)


FEDLOKE = Recipe(labelled_strong=True, begin=start_private_model, step=crosswise_step, end=keep_private_model)
"""Local and global knowledge teach each other."""
