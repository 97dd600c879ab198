"""A client's local round of prompt training, apart from the forward pass: batches, loss, optimiser, schedule."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from fedcopl_lab._card import onto
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import folded, table
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.steps._losses import label_loss, proximal_term
from fedcopl_lab.steps._scorer import ImageRows, Scorer
from fedcopl_lab.steps._select import PseudoLabels

WARMUP_LR = 1e-5  # as PromptFL's code


@dataclass(frozen=True, repr=False)
class PromptState:
    """What a client starts a round from.

    Attributes:
        text: text prompt, [n_text, text width].
        visual: visual prompt, [depth, n_visual, image width].
        round: completed rounds; places the round on the learning-rate schedule.
        momentum: SGD buffers by prompt (``"text"``, ``"visual"``, ``"text_local"``); empty for none.
        text_local: what never leaves the client: FedOTP's second text prompt, FedPGP's low-rank change of the first.
    """

    text: Float[Tensor, "n_text text_width"]
    visual: Float[Tensor, "depth n_visual image_width"]
    round: int = 0
    momentum: dict[str, Tensor] = field(default_factory=dict)
    text_local: Float[Tensor, "local_rows local_width"] | None = None

    def __repr__(self) -> str:
        return f"PromptState(text {tuple(self.text.shape)}, visual {tuple(self.visual.shape)}, round {self.round})"


@dataclass(frozen=True, repr=False)
class LocalUpdate:
    """What one client's round ended with.

    Attributes:
        text: text prompt, [n_text, text width].
        visual: visual prompt, [depth, n_visual, image width].
        momentum: SGD buffers after the last step, by prompt.
        epoch_losses: mean loss per image in each local epoch.
        n_samples: pseudo-labelled images trained on.
        n_steps: optimiser steps taken.
        text_local: as in :class:`PromptState`.
        decay: the part of each prompt's way that this round's decay made; carried momentum counts as gradient.
    """

    text: Float[Tensor, "n_text text_width"]
    visual: Float[Tensor, "depth n_visual image_width"]
    momentum: dict[str, Tensor]
    epoch_losses: tuple[float, ...]
    n_samples: int
    n_steps: int
    text_local: Float[Tensor, "local_rows local_width"] | None = None
    decay: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"LocalUpdate({self.n_samples} images, {self.n_steps} steps, loss {self.epoch_losses[-1]:.3f})"

    def _repr_html_(self) -> str:
        rows = [["images", self.n_samples], ["steps", self.n_steps], ["last loss", self.epoch_losses[-1]]]
        losses = table(list(enumerate(self.epoch_losses, start=1)), ["epoch", "mean loss"])
        return table(rows, caption="LocalUpdate") + folded("loss of every local epoch", losses)


class LocalTraining:
    """One client's prompts, optimiser and place in its batches, from the arguments of :func:`train_round`."""

    def __init__(
        self,
        shard_images: Float[Tensor, "n *image"] | ImageRows,
        pseudo_labels: PseudoLabels,
        state: PromptState,
        generator: torch.Generator,
        *,
        scorer: Scorer,
    ) -> None:
        if not len(pseudo_labels):
            raise FedCoPLError("the client has 0 pseudo-labelled images; expected at least one: lower q_conf or q_ent")
        for name, most in (("indices", len(shard_images)), ("labels", len(scorer.prompted.class_names))):
            values = getattr(pseudo_labels, name)
            if not 0 <= int(values.min()) <= int(values.max()) < most:
                raise FedCoPLError(
                    f"{name} of pseudo-labels go from {values.min()} to {values.max()}, not 0 to {most - 1}"
                )
        self.config = config = scorer.config
        if not isinstance(shard_images, ImageRows):
            shard_images = ImageRows.of(shard_images, torch.arange(len(shard_images)), shard_images.device)
        self._indices = pseudo_labels.indices.to(shard_images.device)
        self.images: ImageRows | Tensor = shard_images.part(pseudo_labels.indices)
        self.labels = pseudo_labels.labels.to(shard_images.device)
        candidates = pseudo_labels.candidates
        self._candidates = None if candidates is None else candidates.to(shard_images.device)
        self.round = state.round
        self.prompts = _leaves(state, config)
        self.cache = scorer.cache(shard_images, state.visual, pseudo_labels)
        if "visual" not in config.trained:  # what no step changes is encoded once
            self.images = scorer.known_images(self.images, state.visual)
        trained = {part: prompt for part, prompt in self.prompts.items() if prompt.requires_grad}
        self._start = {part: prompt.detach().clone() for part, prompt in trained.items()}
        self.optimiser = _sgd(trained, config, state.momentum)
        self._decay = {part: (torch.zeros_like(start), torch.zeros_like(start)) for part, start in self._start.items()}
        nothing = torch.arange(0, device=shard_images.device)
        self._select(nothing, nothing)
        self._epoch_losses: list[float] = []
        self._losses: list[tuple[Tensor, int]] = []
        self._steps = 0
        self._batches = self._all_batches(generator)

    def next_batch(self) -> bool:
        """Go to the next batch; False when the last local epoch is over."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self._select(*batch)
        return True

    def loss(self, logits: Float[Tensor, "b c"], penalty: Tensor | None = None) -> Float[Tensor, ""]:
        """Mean loss of the current batch, with its method's penalty, kept for the epoch's mean."""
        loss = label_loss(logits, self._batch_labels, self._batch_candidates)
        loss = loss if penalty is None else loss + penalty
        if self.config.like == "PromptProx" and self.config.prox_mu:
            drawn = proximal_term((self.prompts[part] for part in self._start), self._start.values())
            # the public code takes the prompt from a detached copy: its term changes the printed loss and no weight
            loss = loss + self.config.prox_mu * (drawn if self.config.prox_gradient else drawn.detach())
        self._losses.append((loss.detach(), len(logits)))
        self._steps += 1
        return loss

    def step(self) -> None:
        """One optimiser step; SGD is linear, so what this round's decay adds to it can be followed by itself."""
        group, decay = self.optimiser.param_groups[0], self.config.weight_decay
        for part, (buffer, way) in self._decay.items() if decay else ():
            buffer.mul_(self.config.momentum).add_(self.prompts[part].detach(), alpha=decay)
            way.sub_(buffer, alpha=group["lr"])
        self.optimiser.step()

    def update(self) -> LocalUpdate:
        """The client's prompts as they are now."""
        buffers = {part: self.optimiser.state[self.prompts[part]] for part in self._start}
        return LocalUpdate(
            **{part: prompt.detach() for part, prompt in self.prompts.items()},
            momentum={
                part: kept["momentum_buffer"].clone()
                for part, kept in buffers.items()
                if self.config.momentum and "momentum_buffer" in kept
            },
            epoch_losses=tuple(self._epoch_losses),
            n_samples=len(self.images),
            n_steps=self._steps,
            decay={part: way for part, (_, way) in self._decay.items()},
        )

    def __repr__(self) -> str:
        return f"LocalTraining({len(self.images)} images, {self._steps} steps done)"

    def _select(self, batch: Tensor, rows: Tensor) -> None:
        self.batch = self._indices[batch]  # positions among the client's training images
        self.batch_images, self._batch_labels = self.images[rows], self.labels[batch]
        self._batch_candidates = None if self._candidates is None else self._candidates[batch]

    def _all_batches(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Places of each batch among the images, on the device and where the images are."""
        for epoch in range(self.config.local_epochs):
            for group in self.optimiser.param_groups:
                group["lr"] = learning_rate(self.config, self.round, epoch)
            order = torch.randperm(len(self.images), generator=generator)
            there = onto(order, self.labels.device)
            rows = order if isinstance(self.images, ImageRows) and self.images.waits_in_memory else there
            yield from zip(there.split(self.config.batch_size), rows.split(self.config.batch_size), strict=True)
            self._close_epoch(epoch)

    def _close_epoch(self, epoch: int) -> None:
        total = 0.0
        losses = torch.stack([loss for loss, _ in self._losses])  # read once per epoch: each reading waits for a GPU
        for loss, (_, size) in zip(losses.cpu().tolist(), self._losses, strict=True):
            total += loss * size
        self._losses.clear()
        if not math.isfinite(total):
            raise FedCoPLError(
                f"the loss of local epoch {epoch + 1} is {total}; expected a number: lower lr={self.config.lr}"
            )
        self._epoch_losses.append(total / len(self.images))


def learning_rate(config: PromptConfig, round_index: int, epoch: int) -> float:
    """Cosine from ``lr`` towards 0, stepped per local epoch (spec of the released code).

    The period is the epochs between two label phases (``"phase"``, restarting with each), of the whole run
    (``"run"``) or of one round (``"round"``); ``"constant"`` stays at ``lr``. The first ``warmup_epochs`` of
    the run have 1e-5.

    Args:
        config: gives lr, schedule and the numbers of epochs and rounds.
        round_index: completed rounds.
        epoch: completed local epochs of this round.

    >>> config = lab.configure("paper")
    >>> [round(learning_rate(config, r, e), 4) for r, e in ((0, 0), (2, 5), (4, 9), (5, 0))]
    [0.1, 0.05, 0.0001, 0.1]
    """
    if round_index * config.local_epochs + epoch < config.warmup_epochs:
        return WARMUP_LR
    if config.lr_schedule == "constant":
        return config.lr
    per_cycle = {"phase": config.refresh_every or config.rounds, "run": config.rounds, "round": 1}[config.lr_schedule]
    done = config.local_epochs * (round_index % per_cycle) + epoch
    return 0.5 * config.lr * (1 + math.cos(math.pi * done / (config.local_epochs * per_cycle)))


def _leaves(state: PromptState, config: PromptConfig) -> dict[str, Tensor]:
    """Copies of the prompts; those that are trained require a gradient."""
    prompts = {"text": state.text, "visual": state.visual}
    if state.text_local is not None:
        prompts["text_local"] = state.text_local
    trained = {part: part.removesuffix("_local") in config.trained for part in prompts}
    return {part: prompt.detach().clone().requires_grad_(trained[part]) for part, prompt in prompts.items()}


def _sgd(parameters: dict[str, Tensor], config: PromptConfig, momentum: dict[str, Tensor]) -> torch.optim.SGD:
    optimiser = torch.optim.SGD(
        list(parameters.values()), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )
    for name, buffer in momentum.items():
        optimiser.state[parameters[name]]["momentum_buffer"] = buffer.clone()
    return optimiser
