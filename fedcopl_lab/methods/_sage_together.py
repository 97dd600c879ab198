"""What a training step asks for, and who answers: one client alone and several in one pass take the same step."""

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer

from fedcopl_lab._card import tf32_in
from fedcopl_lab.methods._batches import Batch, batches_of
from fedcopl_lab.models import ResNet8, StackedResNet8, load_values, placed, single_values, stacked_values
from fedcopl_lab.steps import batch_scores, model_scores

if TYPE_CHECKING:
    from fedcopl_lab.methods._sage_local_task import LocalTask
    from fedcopl_lab.methods._sage_state import ClientUpdate


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
    """

    views: Tensor  # what the step descends on, [n, 3, h, w]
    loss: Callable[[Tensor], Tensor]  # of their scores
    then: Tensor  # what is scored after the step, [b, 3, h, w]
    lr: float  # length of the step
    wanted: bool  # whether this client needs the answer
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


def run_together(tasks: Sequence["LocalTask"]) -> "list[ClientUpdate]":
    """All local epochs of one client, or of several in shared passes, which give the same up to rounding.

    Every client keeps its own weights, batch statistics, labels and losses: convolutions run in groups, and the sum of
    the clients' losses has for each client's weights the gradient of its own loss. Batch normalisation's counters of
    batches, which nothing reads, are the first client's.

    Args:
        tasks: of one round, setting and global model, with equal numbers of steps and of reported images.
    """
    for task in tasks:
        task.begin()
    team = Team(tasks)
    with tf32_in(convolutions=tasks[0].config.precision != "fp32"):
        for batches in batches_of([task.source for task in tasks]):
            for task, losses in zip(tasks, team.step(batches), strict=True):
                task.count(losses)
    return team.updates()


class Team:
    """The clients that take their steps at the same time, and what those are taken with.

    Args:
        tasks: the clients, after their first hook.

    Attributes:
        models: by name: a client's own, or one that holds those of all clients.
        optimisers: by the same names.

    >>> setting = lab.methods.SemiSetting.of(lab.configure("smoke", method="SAGE", width=0.25))
    >>> recipe, start = lab.methods.RECIPES["SAGE"], setting.new_model().state_dict()
    >>> tasks = [lab.methods.LocalTask(setting, recipe, client, 0, start) for client in (0, 1)]
    >>> losses = Team(tasks).step([next(task.batches()) for task in tasks])
    >>> [sorted(one) for one in losses]
    [['supervised', 'unsupervised'], ['supervised', 'unsupervised']]

    Shown in notebook ``sage_step_by_step``.
    """

    def __init__(self, tasks: "Sequence[LocalTask]") -> None:
        self.tasks = tasks
        self.models: dict[str, nn.Module] = dict(tasks[0].all_models)
        self.optimisers: dict[str, Optimizer] = dict(tasks[0].all_optimisers)
        self._stacked: set[str] = set()
        self._cut: dict[Any, list[dict[str, Tensor]]] = {}
        if len(tasks) > 1:
            self._stack()

    def step(self, batches: Sequence[Batch]) -> list[Losses]:
        """One step of every client; their requests are answered together."""
        if self.tasks[0].config.in_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        steps = [task.recipe.step(task, batch) for task, batch in zip(self.tasks, batches, strict=True)]
        answers: Sequence[Any] = [None] * len(steps)
        losses: dict[int, Losses] = {}
        while True:
            requests = []
            for place, (step, answer) in enumerate(zip(steps, answers, strict=True)):
                try:
                    requests.append(step.send(answer))
                except StopIteration as end:
                    losses[place] = end.value
            if not requests:
                return [losses[place] for place in range(len(steps))]
            answers = self._answers(requests)

    def updates(self) -> "list[ClientUpdate]":
        """What each client's round ended with."""
        states = {name: single_values(self.models[name].state_dict(), len(self.tasks)) for name in self._stacked}
        models = []
        for place, task in enumerate(self.tasks):
            task.step_back()
            for name, by_client in states.items():
                load_values(task.all_models[name], by_client[place])
            models.append(task.finish())
        scores = self._reported(models)
        return [
            task.update(model, {name: by_client[place] for name, by_client in scores.items()})
            for place, (task, model) in enumerate(zip(self.tasks, models, strict=True))
        ]

    def _reported(self, models: Sequence[Mapping[str, Tensor]]) -> dict[str, Sequence[Tensor]]:
        """Scores of the images that the log reads, by the global model and by the trained ones, for each client."""
        setting, model, n = self.tasks[0].setting, self.models[OWN_MODEL], len(self.tasks)
        pool, training = self._side_by_side([task.reported for task in self.tasks]), setting.training.side_by_side(n)
        probes, testing = self._side_by_side([setting.images[setting.probes]] * n), setting.testing.side_by_side(n)
        scores = {}
        for when, states in (("start", [task.start for task in self.tasks]), ("end", models)):
            load_values(model, stacked_values(states))
            scores[f"{when}_scores"] = self._apart(model_scores(model, pool, training))
            scores[f"{when}_batch_scores"] = self._apart(batch_scores(model, pool, training))
        return scores | {"probe_scores": self._apart(model_scores(model, probes, testing))}

    def _answers(self, requests: Sequence[Any]) -> Sequence[Any]:
        first, model = requests[0], self.models[requests[0].model]
        if isinstance(first, Pass):
            images = self._side_by_side([torch.cat(request.views) for request in requests])
            scores = self.tasks[0].eval_scores if first.exact else self.tasks[0].scores
            sizes = [len(views) for views in first.views]
            with torch.set_grad_enabled(first.gradient):
                return [own.split(sizes) for own in self._apart(scores(model, images))]
        if isinstance(first, VirtualPass):
            if not any(request.wanted for request in requests):
                return [None] * len(requests)
            return self._apart(self._after_virtual_step(model, requests))
        self._descend(requests)
        return [None] * len(requests)

    def _descend(self, requests: Sequence[Descend]) -> None:
        first = requests[0]
        self._cut.clear()
        if first.move is not None:
            for model in self.models.values():
                model.zero_grad(set_to_none=True)
            torch.autograd.backward([torch.stack([request.loss for request in requests]).sum()])
            first.move(self.models, self.optimisers)
            return
        optimiser = self.optimisers[first.model]
        optimiser.zero_grad(set_to_none=True)
        total = first.loss if len(requests) == 1 else torch.stack([request.loss for request in requests]).sum()
        torch.autograd.backward([total], inputs=moved_by(optimiser))
        if first.where is None:
            optimiser.step()
        else:
            _step_where([cast("Tensor", request.where) for request in requests], optimiser)

    def _after_virtual_step(self, model: nn.Module, requests: Sequence[VirtualPass]) -> Tensor:
        def loss(scores: Tensor) -> Tensor:
            pairs = zip(requests, self._apart(scores), strict=True)
            return torch.stack([request.loss(own) for request, own in pairs]).sum()

        views, then = (self._side_by_side([getattr(one, name) for one in requests]) for name in ("views", "then"))
        compiled = self.tasks[0].config.compile  # a compiled model has no second derivative
        with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
            return scores_after_virtual_step(model, views, loss, then, requests[0].lr)

    def _side_by_side(self, images: Sequence[Tensor]) -> Tensor:
        return images[0] if len(images) == 1 else torch.cat(list(images), dim=1)

    def _apart(self, scores: Tensor) -> Sequence[Tensor]:
        return [scores] if len(self.tasks) == 1 else scores.unbind()

    def _stack(self) -> None:
        """One model for each name that holds the clients' own, and an optimiser like theirs."""
        own, n = [task.all_models for task in self.tasks], len(self.tasks)
        self._stacked = {name for name, model in self.models.items() if isinstance(model, ResNet8)}
        self._stacked -= {name for name in self._stacked if any(name not in one for one in own)}
        config, n_classes = self.tasks[0].config, self.tasks[0].setting.dataset.n_classes
        how = get_ident(), config.compile, config.device, config.channels_last
        stacked: dict[int, nn.Parameter] = {}  # by the identity of a client's
        for place, name in enumerate(sorted(self._stacked)):
            stack = _shared_stack(place, *how, n, n_classes, config.channels, config.bn_momentum)
            load_values(stack, stacked_values([one[name].state_dict() for one in own]))
            stack.train(own[0][name].training)
            stacked |= {id(value): stack.get_parameter(key) for key, value in own[0][name].named_parameters()}
            self.models[name] = stack
        for name, optimiser in self.optimisers.items():
            shared = copy(optimiser)
            shared.param_groups, shared.state = [], defaultdict(dict)
            for place, group in enumerate(optimiser.param_groups):
                moved = [stacked[id(one)] for one in group["params"] if id(one) in stacked]
                if not moved:  # small networks, one of each client
                    every = [task.all_optimisers[name].param_groups[place]["params"] for task in self.tasks]
                    moved = [parameter for one in every for parameter in one]
                shared.param_groups.append({**group, "params": moved})
            self.optimisers[name] = shared
        for client, task in enumerate(self.tasks):
            task.step_aside(partial(_own_parameters, self._cut, self.models, n, client), self._stacked)


def scores_after_virtual_step(
    model: nn.Module, views: Tensor, loss: Callable[[Tensor], Tensor], then: Tensor, lr: float
) -> Tensor:
    """Scores of ``then`` after a step of length ``lr`` down the loss of the views' scores.

    The model and its running statistics stay as they are; the result carries a gradient to what the loss depends on.
    """
    parameters = dict(model.named_parameters())
    slopes = torch.autograd.grad(loss(_scores(model, parameters, views)), list(parameters.values()), create_graph=True)
    moved = {name: value - lr * slope for (name, value), slope in zip(parameters.items(), slopes, strict=True)}
    return _scores(model, moved, then)


def _own_parameters(
    cut: dict[Any, list[dict[str, Tensor]]], models: Mapping[str, nn.Module], n: int, client: int, name: str = OWN_MODEL
) -> Mapping[str, Tensor]:
    """A client's part of a model's parameters; ``cut`` keeps those of all clients until a step changes them."""
    key = name, torch.is_grad_enabled()
    if key not in cut:
        cut[key] = single_values(dict(models[name].named_parameters()), n)
    return cut[key][client]


def moved_by(optimiser: Optimizer) -> list[nn.Parameter]:
    """The parameters of all of an optimiser's groups."""
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


@torch.no_grad()
def _step_where(wanted: Sequence[Tensor], optimiser: Optimizer) -> None:
    """A step that leaves parameters and momentum as they were where a client does not want it."""
    parameters = moved_by(optimiser)
    states = [optimiser.state[one] for one in parameters]
    before = [one.clone() for one in parameters]
    kept = [state.get("momentum_buffer") for state in states]
    kept = [torch.zeros_like(p) if b is None else b.clone() for p, b in zip(parameters, kept, strict=True)]
    optimiser.step()
    sizes = [len(group["params"]) // len(wanted) for group in optimiser.param_groups]
    where = [one for size in sizes for one in wanted for _ in range(size)]
    moved = [*parameters, *(state.get("momentum_buffer") for state in states)]
    for now, then, mask in zip(moved, [*before, *kept], [*where, *where], strict=True):
        if now is not None:  # none without momentum
            now.copy_(now.where(mask, then))


def _scores(model: nn.Module, parameters: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """Scores with other parameters, in float32; running statistics are updated in copies alone."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return cast(Tensor, functional_call(model, {**parameters, **buffers}, (images,)))


@lru_cache(maxsize=6)  # a process works through runs of one shape after the other
def _shared_stack(place: int, thread: int, compiled: bool, device: str, channels_last: bool, *shape: Any) -> Any:
    """A thread's model, whose values every round overwrites; ``place`` tells those of one round apart."""
    stack = placed(StackedResNet8(*shape), device, channels_last)
    if compiled:
        stack.compile()
    return stack
