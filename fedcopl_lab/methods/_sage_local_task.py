"""One client's round of semi-supervised training: its models, its batches, its optimiser, what it records."""

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import get_ident
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._batches import Batch, BatchSource, ViewLabels, batches_of
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import ClientUpdate, copied
from fedcopl_lab.methods._sage_together import OWN_MODEL, Losses, Team, moved_by, run_together
from fedcopl_lab.methods.protocol import Tensors, grouped, named
from fedcopl_lab.models import ResNet8, blank_copy, load_values
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import CorrectedLabels, check_logits, in_mode

if TYPE_CHECKING:
    from fedcopl_lab.methods._recipe import Recipe


@dataclass(frozen=True, repr=False)
class WeakScores:
    """Scores of one batch's weak views by the model in training and the round's global one, where that is needed.

    ``places`` says where the images are in the client's pool. Scores carry no gradient.
    """

    local: Float[Tensor, "n c"]
    global_: Float[Tensor, "n c"] | None
    places: Int[Tensor, "n"]


class LocalTask:
    """One client's round: what a recipe's hooks work with.

    Args:
        setting: data and federation.
        recipe: the method's hooks.
        client: its number.
        round_index: completed rounds.
        start: state dict of the global model.
        received: what else the server sends this client.
        memory: what the client kept from earlier rounds; hooks change it, and its next round finds it.
        momentum: buffers that the task's optimisers start from; empty for none.

    Attributes:
        model: the model in training, which is sent at the end.
        global_model: the round's global model, frozen, in evaluation mode.
        models: further models of the recipe, by name.
        optimisers: what trains them, by the same names.
        send: what else the client will send; hooks fill it.
        trained: a model's name -> its parameters by name; in a pass of several clients, this client's part of them.
        optimiser: SGD over ``model``.

    >>> setting = lab.methods.SemiSetting.of(lab.configure("smoke", method="SAGE", width=0.25, steps_per_epoch=1))
    >>> task = LocalTask(setting, lab.methods.RECIPES["SAGE"], 0, 0, setting.new_model().state_dict())
    >>> task.run().n_steps
    1

    Shown in notebook ``sage_step_by_step``.
    """

    def __init__(
        self,
        setting: SemiSetting,
        recipe: "Recipe",
        client: int,
        round_index: int,
        start: Tensors,
        received: Mapping[str, Tensor] | None = None,
        memory: Mapping[str, Tensor] | None = None,
        momentum: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.setting, self.recipe, self.config = setting, recipe, setting.config
        config, self.client, self.round = setting.config, client, round_index
        self.start = start | own_statistics(memory or {})
        shape = (setting.dataset.n_classes, config.channels, config.bn_momentum, config.device, config.channels_last)
        self.model, self.global_model = _shared_models(*shape, compiled=config.compile, thread=get_ident())
        self._load_start()
        self.models: dict[str, nn.Module] = {}
        self.optimisers: dict[str, torch.optim.Optimizer] = {}
        self.received = dict(received or {})
        self.memory = copied(dict(memory or {}))
        self.send: Tensors = {}
        self.trained: Callable[..., Mapping[str, Tensor]] = self._parameters
        self._aside: tuple[ResNet8, dict[str, nn.Module]] | None = None
        self.optimiser = self.sgd(self.model.parameters())
        self._momentum_before = dict(momentum or {})
        self.labelled = setting.labelled(client, everything=recipe.labels == "all")
        self.pool = setting.pool(client)
        self.n_steps = 0
        self._losses: dict[str, list[Tensor]] = {}
        self._noted: list[ViewLabels] = []

    def run(self) -> ClientUpdate:
        """All local epochs."""
        return run_together([self])[0]

    def step(self, batch: Batch) -> Losses:
        """One step of this client alone."""
        self.step_back()
        return Team([self]).step([batch])[0]

    def begin(self) -> None:
        """What comes before the first step."""
        self._load_start()  # another task may have used the same models since
        self.recipe.begin(self)
        self._load_momentum()

    def step_aside(self, trained: Callable[..., Mapping[str, Tensor]], names: Set[str]) -> None:
        """Several clients train in one pass: a step reads the named models that train from ``trained``."""
        self.trained, self._aside = trained, (self.model, dict(self.models))
        self.model, aside = cast("ResNet8", _Aside()), cast("nn.Module", _Aside())
        self.models |= dict.fromkeys(self.models.keys() & self.optimisers.keys() & names, aside)

    def step_back(self) -> None:
        """The pass is over, or this client trains alone."""
        self.model, self.models = self._aside or (self.model, self.models)
        self.trained, self._aside = self._parameters, None

    def count(self, losses: Mapping[str, Tensor]) -> None:
        """One step is done, with these losses."""
        for name, loss in losses.items():
            self._losses.setdefault(name, []).append(loss.detach())
        self.n_steps += 1

    @cached_property
    def reported(self) -> UInt8[Tensor, "n 3 h w"]:
        """The images of the pool that the log reads."""
        return self.setting.images[self.setting.scored_pool(self.client)]

    def finish(self) -> Tensors:
        """What comes after the last step; the model that is sent."""
        self.recipe.end(self)
        model = copied(self.model.state_dict())
        if self.config.bn == "local":
            self.memory |= named(_OWN, {name: model[name] for name, _ in self.model.named_buffers()})
        return model

    def update(self, model: Tensors, scores: Mapping[str, Tensor]) -> ClientUpdate:
        """What the round ended with: the model of :meth:`finish`, and scores by their names there."""
        return ClientUpdate(
            model=model,
            sent=self.send,
            memory=self.memory,
            momentum=self._momentum(),
            losses={name: float(torch.stack(values).mean()) for name, values in self._losses.items()},
            n_steps=self.n_steps,
            **scores,
            noted=self._all_noted(),
        )

    # what hooks use

    @property
    def lr(self) -> float:
        """The round's learning rate."""
        return self.config.lr_of(self.round)

    @property
    def all_models(self) -> dict[str, nn.Module]:
        """``model`` and the recipe's further models, by name."""
        return {OWN_MODEL: self.model, **self.models}

    @property
    def all_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """What trains them, by the same names."""
        return {OWN_MODEL: self.optimiser, **self.optimisers}

    def copy_of(self, state: Mapping[str, Tensor]) -> ResNet8:
        """A model of its own with these parameters and buffers."""
        return self.setting.placed_model(state)

    def add_model(self, name: str, model: nn.Module) -> None:
        """A further model of the recipe, and an optimiser with the run's settings for it."""
        self.models[name], self.optimisers[name] = model, self.sgd(model.parameters())

    def keep(self, name: str, prefix: str) -> None:
        """Let the client keep a further model until it takes part again."""
        self.memory |= named(prefix, copied(self.models[name].state_dict()))

    def sgd(self, parameters: Any, lr: float | None = None) -> torch.optim.SGD:
        """An optimiser with the run's settings; ``lr`` in place of the round's."""
        config, lr = self.config, self.lr if lr is None else lr
        return torch.optim.SGD(
            parameters, lr=lr, momentum=config.momentum, weight_decay=config.weight_decay, fused=True
        )

    def scores(
        self, model: nn.Module, images: Float[Tensor, "n channels h w"], exact: bool = False
    ) -> Float[Tensor, "*clients n c"]:
        """Class scores in float32, by client from a model of several.

        The model computes in its own mode, in the run's precision or in full float32.
        """
        if self.config.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        bf16 = self.config.precision == "bf16" and not exact
        autocast = torch.autocast(images.device.type, torch.bfloat16) if bf16 else nullcontext()
        with autocast, tf32_in() if exact else nullcontext():
            logits: Tensor = model(images)
        return logits.float().clone() if self.config.in_graphs else logits.float()

    def weak_scores(self, batch: Batch, weak: Tensor) -> WeakScores:
        """Both models' scores of a batch's weak views; ``weak`` are those of the joint pass in training mode."""
        views, _, places = batch.pool_views
        local = self.eval_scores(self.model, views) if self.config.pl_bn == "eval" else weak.detach()
        return WeakScores(local, self.global_scores_of(batch), places)

    @torch.no_grad()
    def global_scores(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c"]:
        """The global model's scores of weak views."""
        return self.scores(self.global_model, images, exact=True)

    def global_scores_of(self, batch: Batch) -> Float[Tensor, "n c"] | None:
        """The global model's scores of a batch's weak views, where the recipe or the log wants them."""
        if batch.weak is None or not self._wants_global:
            return None
        return self.global_scores(batch.weak) if batch.global_ is None else batch.global_

    @torch.no_grad()
    def eval_scores(self, model: nn.Module, images: Float[Tensor, "n channels h w"]) -> Float[Tensor, "*clients n c"]:
        """Scores with running statistics in full float32; the model's mode is restored."""
        with in_mode(model, training=False):
            return self.scores(model, images, exact=True)

    def note(self, scores: WeakScores, labels: CorrectedLabels) -> None:
        """Keep a step's pseudo-labels for the round's report."""
        step = ViewLabels(scores.places, scores.local, scores.global_, labels.target, labels.weight, labels.used)
        self._noted.append(step)

    @property
    def source(self) -> BatchSource:
        """What draws the batches of all local epochs, from this client's and round's generator."""
        generator = torch_generator(self.config.seed, "local steps", self.round, self.client)
        wanted = self.recipe.uses_pool, self.recipe.labelled_strong
        score = self.global_scores if self._wants_global else None
        return BatchSource(self.setting, self.labelled, self.pool, generator, *wanted, score)

    def batches(self) -> Iterator[Batch]:
        """The steps of all local epochs."""
        return (batch for (batch,) in batches_of([self.source]))

    @property
    def _wants_global(self) -> bool:
        return self.recipe.uses_global or self.config.log_both

    def _all_noted(self) -> ViewLabels | None:
        """The labels of all steps; looked at for NaN only here, since every look waits for a GPU."""
        if not self._noted:
            return None
        noted = ViewLabels.joined(self._noted)
        for scores in (noted.local, noted.global_):
            if scores is not None:
                check_logits(scores)
        return noted

    def _load_start(self) -> None:
        self.model.train()
        self.global_model.eval()
        for model in (self.model, self.global_model):
            load_values(model, self.start)
            model.zero_grad(set_to_none=True)

    def _parameters(self, name: str = OWN_MODEL) -> dict[str, Tensor]:
        return dict(self.all_models[name].named_parameters())

    # momentum that outlives the round

    def _load_momentum(self) -> None:
        for name, optimiser, parameter in self._in_training():
            if name in self._momentum_before:
                # the fused step walks through memory: a buffer must lie there as its parameter does
                buffer = torch.empty_like(parameter, requires_grad=False).copy_(self._momentum_before[name])
                optimiser.state[parameter]["momentum_buffer"] = buffer

    def _momentum(self) -> Tensors:
        if self.config.momentum_state == "reset":
            return {}
        states = {name: optimiser.state[parameter] for name, optimiser, parameter in self._in_training()}
        return {n: s["momentum_buffer"].clone() for n, s in states.items() if s.get("momentum_buffer") is not None}

    def _in_training(self) -> Iterator[tuple[str, torch.optim.Optimizer, nn.Parameter]]:
        """Every parameter that an optimiser moves, under a name that is the same in every task."""
        names = {id(value): name for model in self.all_models.values() for name, value in model.named_parameters()}
        for key, optimiser in self.all_optimisers.items():
            for place, parameter in enumerate(moved_by(optimiser)):
                of_own = names.get(id(parameter)) if key == OWN_MODEL else None
                yield of_own or f"{key}/{place}", optimiser, parameter


class _Aside:
    """In the place of a model that stands still, so that no loss is computed from it unnoticed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise FedCoPLError("a client's own models stand still while several train in one pass: a step asks for scores "
                           "by Pass and takes the parameters of task.trained()")  # fmt: skip

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self.forward


_OWN = "own statistics/"


def own_statistics(memory: Mapping[str, Tensor]) -> Tensors:
    """Running statistics that a client kept for itself under ``bn="local"``."""
    return grouped(memory, _OWN)


@lru_cache(maxsize=1)  # a process works through runs of one shape after the other
def _shared_models(*shape: Any, compiled: bool, thread: int) -> tuple[ResNet8, ResNet8]:
    """A thread's two models, whose values every task overwrites, since making one is slow; no two tasks in turns."""
    models = blank_copy(*shape), blank_copy(*shape).requires_grad_(False)
    if compiled:
        for model in models:
            model.compile()
    return models
