"""What a training step asks for, so that one client alone and several in one pass take the same step."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool
from torch import Tensor, nn
from torch.optim import Optimizer

Losses = Mapping[str, Tensor]
"""Scalar losses of one step by name, for the report."""

Step = Generator[Any, Any, Losses]
"""A step under way: it yields requests, gets their answers, and returns its losses."""

OWN_MODEL = "model"
"""Name of the model that is sent at the end; others are named by their recipe."""


@dataclass(frozen=True, eq=False)
class Pass:
    """Ask for scores of some views in one forward pass, with shared batch statistics; answered by one [n_i, C] each.

    Attributes:
        views: groups of images, as many for every client.
        model: which model.
        exact: evaluation mode, full float32, no gradient.
        gradient: whether the scores carry one.

    >>> def step(task, batch):
    ...     (scores,) = yield Pass((batch.labelled,))
    ...     loss = torch.nn.functional.cross_entropy(scores, batch.labels)
    ...     yield Descend(loss)
    ...     return {"supervised": loss}
    >>> lab.methods.Recipe(uses_pool=False, step=step).step is step
    True

    Shown in notebook ``add_a_method``.
    """

    views: tuple[Tensor, ...]
    model: str = OWN_MODEL
    exact: bool = False
    gradient: bool = True


@dataclass(frozen=True, eq=False)
class VirtualPass:
    """Ask for a model's scores after a step of plain gradient descent that is not kept.

    The answer carries a gradient to what the loss depends on; it is None where no client wants it.

    Attributes:
        views: what the step descends on, [n, 3, h, w].
        loss: of their scores.
        then: what is scored after the step, [b, 3, h, w].
        lr: length of the step.
        wanted: whether this client needs the answer.
    """

    views: Tensor
    loss: Callable[[Tensor], Tensor]
    then: Tensor
    lr: float
    wanted: bool
    model: str = OWN_MODEL


@dataclass(frozen=True, eq=False)
class Descend:
    """Ask for one step of an optimiser down a loss.

    Attributes:
        loss: scalar; every client's reaches its own weights alone.
        model: whose optimiser.
        where: False leaves the client's weights and momentum as they were; None: never.
        move: what to do with the gradients in place of the optimiser's step, from models and optimisers by name.

    >>> Descend(torch.zeros(())).model
    'model'

    Shown in notebook ``add_a_method``.
    """

    loss: Tensor
    model: str = OWN_MODEL
    where: Bool[Tensor, ""] | None = None
    move: Callable[[Mapping[str, nn.Module], Mapping[str, Optimizer]], None] | None = None
