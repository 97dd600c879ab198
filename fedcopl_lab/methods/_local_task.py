"""One client's round of semi-supervised training: its models, its batches, its optimiser, what it notes."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fedcopl_lab.data import draw_strong, draw_weak, normalise, strong_view, weak_view
from fedcopl_lab.methods._noted import Noted, Notes
from fedcopl_lab.methods._semi_setting import SemiSetting
from fedcopl_lab.methods._semi_state import Tensors, copied
from fedcopl_lab.models import ResNet8
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import CorrectedLabels, model_scores

if TYPE_CHECKING:
    from fedcopl_lab.methods._recipe import Recipe

VIEWS_AT_ONCE = 2048
"""Images that are augmented together, over several steps: many small operations cost more than few large ones."""


@dataclass(frozen=True, repr=False)
class Batch:
    """One step's images, normalised, and what is known of them.

    Attributes:
        labelled: weak views of labelled images, [b, 3, h, w].
        labels: their classes, [b].
        labelled_strong: strong views of the same images; None unless the recipe asks.
        weak: weak views of unlabelled images, [b_u, 3, h, w]; None for methods without a pool.
        strong: strong views of the same images.
        places: where these images are in the client's pool, [b_u].
    """

    labelled: Float[Tensor, "b 3 h w"]
    labels: Int[Tensor, "b"]
    labelled_strong: Float[Tensor, "b 3 h w"] | None = None
    weak: Float[Tensor, "b_u 3 h w"] | None = None
    strong: Float[Tensor, "b_u 3 h w"] | None = None
    places: Int[Tensor, "b_u"] | None = None


@dataclass(frozen=True, repr=False)
class WeakScores:
    """What the models say of one batch's weak views.

    Attributes:
        local: scores by the model in training, [n, C]; no gradient.
        global_: scores by the round's global model; None where nobody asked for them.
        places: where the images are in the client's pool, [n].
    """

    local: Float[Tensor, "n c"]
    global_: Float[Tensor, "n c"] | None
    places: Int[Tensor, "n"]


@dataclass(frozen=True, repr=False)
class ClientUpdate:
    """What one client's round ended with.

    Attributes:
        model: state dict that it sends.
        sent: what else it sends.
        memory: what it keeps for itself.
        momentum: SGD buffers after the last step, by parameter.
        losses: mean over the steps of each named loss.
        n_steps: optimiser steps taken.
        start_scores: scores of its pool by the model it started from, [n_pool, C].
        end_scores: the same by its trained model.
        probe_scores: scores of the fixed test images by its trained model, [n_probe, C].
        noted: pseudo-labels of all steps; None where there were none.
    """

    model: Tensors
    sent: Tensors
    memory: Tensors
    momentum: Tensors
    losses: dict[str, float]
    n_steps: int
    start_scores: Float[Tensor, "n_pool c"]
    end_scores: Float[Tensor, "n_pool c"]
    probe_scores: Float[Tensor, "n_probe c"]
    noted: Noted | None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in self.losses.items())
        return f"ClientUpdate({self.n_steps} steps, {shown})"


class LocalTask:
    """One client's round: what a recipe's hooks work with.

    Args:
        setting: data and federation.
        recipe: the method's hooks.
        client: who trains.
        round_index: rounds that lie behind.
        start: state dict of the global model.
        received: what else the server sends this client.
        memory: what the client kept from earlier rounds.
        momentum: SGD buffers to start from; empty to start afresh.

    Attributes:
        model: the model in training, which is sent at the end.
        global_model: the round's global model, frozen, in evaluation mode.
        models: further models of the recipe, by name.
        received: what else the server sent.
        memory: what the client keeps; hooks change it, and the next round of this client finds it.
        send: what else the client will send; hooks fill it.
        optimiser: SGD over ``model``.
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
        self.client, self.round = client, round_index
        self.start = start | _own_statistics(memory or {})
        self.model, self.global_model = _workers(setting)
        self._load_start()
        self.models: dict[str, ResNet8] = {}
        self.received = dict(received or {})
        self.memory = copied(dict(memory or {}))
        self.send: Tensors = {}
        self.optimiser = self.sgd(self.model.parameters())
        self._load_momentum(momentum or {})
        self.labelled = setting.labelled(client, everything=recipe.labels == "all")
        self.pool = setting.pool(client)
        self.n_steps = 0
        self._losses: dict[str, list[Tensor]] = {}
        self._notes = Notes()

    def run(self) -> ClientUpdate:
        """All local epochs."""
        self._load_start()  # another task may have used the same models since
        self.recipe.begin(self)
        for batch in self.batches():
            for name, loss in self.recipe.step(self, batch).items():
                self._losses.setdefault(name, []).append(loss.detach())
            self.n_steps += 1
        self.recipe.end(self)
        model = copied(self.model.state_dict())
        if self.config.bn == "local":
            self.memory |= {f"{_OWN}{name}": model[name] for name, _ in self.model.named_buffers()}
        pool = self.setting.images[self.pool]
        return ClientUpdate(
            model=model,
            sent=self.send,
            memory=self.memory,
            momentum=self._momentum(),
            losses={name: float(torch.stack(values).mean()) for name, values in self._losses.items()},
            n_steps=self.n_steps,
            start_scores=model_scores(self.global_model, pool, self.setting.training),
            end_scores=model_scores(self.model, pool, self.setting.training),
            probe_scores=model_scores(self.model, self.setting.images[self.setting.probes], self.setting.testing),
            noted=self._notes.joined(),
        )

    # what hooks use

    def copy_of(self, state: Mapping[str, Tensor]) -> ResNet8:
        """A model of its own with these parameters and buffers."""
        return self.setting.placed_model(state)

    def sgd(self, parameters: Any, lr: float | None = None) -> torch.optim.SGD:
        """An optimiser with the run's settings."""
        config = self.config
        return torch.optim.SGD(
            parameters, lr=lr or config.lr, momentum=config.momentum, weight_decay=config.weight_decay, fused=True
        )

    def scores(self, model: nn.Module, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c"]:
        """Class scores in float32; the model computes in the run's precision and in its own mode."""
        if self.config.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        bf16 = self.config.precision == "bf16"
        with torch.autocast(images.device.type, torch.bfloat16) if bf16 else nullcontext():
            logits: Tensor = model(images)
        return logits.float()

    def global_scores(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c"] | None:
        """The global model's scores of weak views, where the recipe or the log wants them."""
        if not (self.recipe.uses_global or self.config.log_both):
            return None
        with torch.no_grad():
            return self.scores(self.global_model, images)

    @torch.no_grad()
    def eval_scores(self, model: nn.Module, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c"]:
        """Scores with running statistics; the model's mode is put back."""
        was_training = model.training
        model.eval()
        logits = self.scores(model, images)
        model.train(was_training)
        return logits

    def descend(self, loss: Tensor, optimiser: torch.optim.Optimizer | None = None) -> None:
        """One optimiser step down a loss; None takes the optimiser of ``model``."""
        optimiser = self.optimiser if optimiser is None else optimiser
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        optimiser.step()

    def note(self, scores: WeakScores, labels: CorrectedLabels) -> None:
        """Keep a step's pseudo-labels for the round's report."""
        self._notes.add(scores.places, scores.local, scores.global_, labels)

    # batches

    def batches(self) -> Iterator[Batch]:
        """The steps of all local epochs; every random number comes from this client's and round's generator."""
        generator = torch_generator(self.config.seed, "local steps", self.round, self.client)
        for _ in range(self.config.local_epochs):
            if self.recipe.uses_pool:
                yield from self._both(generator)
            else:
                yield from self._labelled_only(generator)

    def _labelled_only(self, generator: torch.Generator) -> Iterator[Batch]:
        n, size = len(self.labelled), self.config.batch_size
        if self.config.supervised_schedule == "labelled_epochs":
            rows = list(torch.randperm(n, generator=generator).split(size))
        else:
            steps = self.setting.steps_per_epoch(self.client)
            rows = list(torch.randint(n, (steps, size), generator=generator))
        for places in rows:
            chosen = self.labelled[places.to(self.labelled.device)]
            views, strong = self._labelled_views(chosen, generator)
            yield Batch(labelled=views, labels=self.setting.labels[chosen], labelled_strong=strong)

    def _both(self, generator: torch.Generator) -> Iterator[Batch]:
        config = self.config
        steps, size_u = self.setting.steps_per_epoch(self.client), config.unlabelled_batch_size
        rows = torch.randint(len(self.labelled), (steps, config.batch_size), generator=generator)
        rows_u = _without_replacement(len(self.pool), steps, size_u, generator)
        together = max(VIEWS_AT_ONCE // size_u, 1)
        for part, part_u in zip(rows.split(together), rows_u.split(together), strict=True):
            n = len(part)
            chosen = self.labelled[part.flatten().to(self.labelled.device)]
            labelled, labelled_strong = self._labelled_views(chosen, generator)
            places = part_u.flatten().to(self.pool.device)
            images = self.setting.images[self.pool[places]]
            side = images.shape[-1]
            weak = self._normal(weak_view(images, draw_weak(len(images), side, generator, config.flip)))
            draws = draw_strong(len(images), side, generator, config.flip)
            strong = self._normal(strong_view(images, draws, config.cutout))
            labels = self.setting.labels[chosen]
            for i in range(n):
                own, pool = (
                    slice(i * config.batch_size, (i + 1) * config.batch_size),
                    slice(i * size_u, (i + 1) * size_u),
                )
                yield Batch(
                    labelled=labelled[own], labels=labels[own],
                    labelled_strong=None if labelled_strong is None else labelled_strong[own],
                    weak=weak[pool], strong=strong[pool], places=places[pool],
                )  # fmt: skip

    def _labelled_views(self, chosen: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        images = self.setting.images[chosen]
        side, flip = images.shape[-1], self.config.flip
        views = self._normal(weak_view(images, draw_weak(len(images), side, generator, flip)))
        if not self.recipe.labelled_strong:
            return views, None
        draws = draw_strong(len(images), side, generator, flip)
        return views, self._normal(strong_view(images, draws, self.config.cutout))

    def _normal(self, images: Tensor) -> Tensor:
        return normalise(images, self.setting.training.mean, self.setting.training.std)

    def _load_start(self) -> None:
        for model in (self.model, self.global_model):
            model.load_state_dict(self.start)
            model.zero_grad(set_to_none=True)

    # momentum that outlives the round

    def _load_momentum(self, momentum: Mapping[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            if name in momentum:
                # the fused step walks through memory: a buffer must lie there as its parameter does
                buffer = torch.empty_like(parameter, requires_grad=False).copy_(momentum[name])
                self.optimiser.state[parameter]["momentum_buffer"] = buffer

    def _momentum(self) -> Tensors:
        if self.config.momentum_state == "reset":
            return {}
        buffers = {
            name: self.optimiser.state[parameter].get("momentum_buffer")
            for name, parameter in self.model.named_parameters()
        }
        return {name: buffer.clone() for name, buffer in buffers.items() if buffer is not None}


_OWN = "own statistics/"


def _own_statistics(memory: Mapping[str, Tensor]) -> Tensors:
    """Running statistics that a client kept for itself under ``bn="local"``."""
    return {name.removeprefix(_OWN): value for name, value in memory.items() if name.startswith(_OWN)}


def _workers(setting: SemiSetting) -> tuple[ResNet8, ResNet8]:
    """Two models whose values every task overwrites: making a model takes longer than a step of a small one.

    Tasks run one after the other; two that are alive at once must not run in turns.
    """
    config = setting.config
    shape = (setting.dataset.n_classes, config.channels, config.bn_momentum)
    key = (*shape, config.device, config.channels_last, config.compile)
    if key not in _WORKERS:
        _WORKERS.clear()  # a process works through runs of one shape after the other
        _WORKERS[key] = setting.new_model(), setting.new_model().requires_grad_(False)
        if config.compile:
            for model in _WORKERS[key]:
                model.compile()
    model, global_model = _WORKERS[key]
    return model.train(), global_model.eval()


_WORKERS: dict[tuple[object, ...], tuple[ResNet8, ResNet8]] = {}


def _without_replacement(n: int, steps: int, size: int, generator: torch.Generator) -> Int[Tensor, "steps size"]:
    """Rows of a shuffled pool, whole batches only; shuffled again when they run out."""
    per_pass = n // size
    passes = -(-steps // per_pass)
    rows = [torch.randperm(n, generator=generator)[: per_pass * size].view(per_pass, size) for _ in range(passes)]
    return torch.cat(rows)[:steps]
