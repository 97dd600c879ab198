"""Step 5: one client's local update of its prompts on its pseudo-labelled images."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import RunConfig
from fedcopl_lab.models.prompted_clip import PromptedCLIP
from fedcopl_lab.steps._select import PseudoLabels


@dataclass(frozen=True, repr=False)
class PromptState:
    """What a client starts a round from.

    Attributes:
        text: text prompt, [n_text, text width].
        visual: visual prompt, [depth, n_visual, image width].
        round: rounds that lie behind; places the round on the learning-rate schedule.
        momentum: SGD buffers of the two prompts (``"text"``, ``"visual"``); empty to start afresh.
    """

    text: Float[Tensor, "n_text text_width"]
    visual: Float[Tensor, "depth n_visual image_width"]
    round: int = 0
    momentum: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"PromptState(text {tuple(self.text.shape)}, visual {tuple(self.visual.shape)}, round {self.round})"


@dataclass(frozen=True, repr=False)
class LocalUpdate:
    """What one client's round ended with.

    Attributes:
        text: text prompt, [n_text, text width].
        visual: visual prompt, [depth, n_visual, image width].
        momentum: SGD buffers after the last step, by prompt.
        epoch_losses: mean cross-entropy per image in each local epoch.
        n_samples: pseudo-labelled images trained on.
        n_steps: optimiser steps taken.
    """

    text: Float[Tensor, "n_text text_width"]
    visual: Float[Tensor, "depth n_visual image_width"]
    momentum: dict[str, Tensor]
    epoch_losses: tuple[float, ...]
    n_samples: int
    n_steps: int

    def __repr__(self) -> str:
        return f"LocalUpdate({self.n_samples} images, {self.n_steps} steps, loss {self.epoch_losses[-1]:.3f})"


def train_round(
    prompted: PromptedCLIP,
    shard_images: Float[Tensor, "n *image"],
    pseudo_labels: PseudoLabels,
    state: PromptState,
    *,
    config: RunConfig,
    generator: torch.Generator,
) -> LocalUpdate:
    """Train one client's prompts for a round with SGD and cross-entropy (Eq. 5, supplement Alg. 1).

    Args:
        prompted: the frozen model with its classes.
        shard_images: all the client's training images, pixels [n, 3, H, W] or image tokens [n, tokens, width].
        pseudo_labels: which of them to train on, and as what.
        state: the prompts to start from.
        config: epochs, batch size, optimiser and schedule.
        generator: draws the order of the images in each epoch.

    Returns:
        The prompts after the last step; ``state`` is left as it was.

    Raises:
        FedCoPLError: nothing was selected, or the loss is no longer a number.

    >>> update = lab.train_round(prompted, images, labels, state, config=config, generator=generator)
    >>> update.n_steps
    12

    Shown in notebook ``00_quickstart``.
    """
    if not len(pseudo_labels):
        raise FedCoPLError("the client has 0 pseudo-labelled images; expected at least one: lower q_conf or q_ent")
    images = shard_images[pseudo_labels.indices]
    labels = pseudo_labels.labels.to(images.device)
    parameters = {
        "text": state.text.detach().clone().requires_grad_(),
        "visual": state.visual.detach().clone().requires_grad_(),
    }
    optimiser = _sgd(parameters, config, state.momentum)
    losses, steps = [], 0
    for epoch in range(config.local_epochs):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(config, state.round, epoch)
        total = 0.0
        for batch in torch.randperm(len(images), generator=generator).split(config.batch_size):
            logits = prompted.logits(images[batch], parameters["text"], parameters["visual"])
            loss = F.cross_entropy(logits, labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(batch)
            steps += 1
        if not math.isfinite(total):
            raise FedCoPLError(
                f"the loss of local epoch {epoch + 1} is {total}; expected a number: lower lr={config.lr}"
            )
        losses.append(total / len(images))
    return LocalUpdate(
        text=parameters["text"].detach(),
        visual=parameters["visual"].detach(),
        momentum={
            name: optimiser.state[parameter]["momentum_buffer"].clone()
            for name, parameter in parameters.items()
            if config.momentum
        },
        epoch_losses=tuple(losses),
        n_samples=len(images),
        n_steps=steps,
    )


def learning_rate(config: RunConfig, round_index: int, epoch: int) -> float:
    """Cosine from ``lr`` towards 0, stepped per local epoch (spec of the released code).

    The period is the epochs between two label phases (``"phase"``, restarting with each), of the whole run
    (``"run"``) or of one round (``"round"``).

    Args:
        config: gives lr, schedule and the numbers of epochs and rounds.
        round_index: rounds that lie behind.
        epoch: local epochs that lie behind in this round.

    >>> config = lab.configure("paper")
    >>> [round(learning_rate(config, r, e), 4) for r, e in ((0, 0), (2, 5), (4, 9), (5, 0))]
    [0.1, 0.05, 0.0001, 0.1]
    """
    per_cycle = {"phase": config.refresh_every or config.rounds, "run": config.rounds, "round": 1}[config.lr_schedule]
    done = config.local_epochs * (round_index % per_cycle) + epoch
    return 0.5 * config.lr * (1 + math.cos(math.pi * done / (config.local_epochs * per_cycle)))


def _sgd(parameters: dict[str, Tensor], config: RunConfig, momentum: dict[str, Tensor]) -> torch.optim.SGD:
    optimiser = torch.optim.SGD(
        list(parameters.values()), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )
    for name, buffer in momentum.items():
        optimiser.state[parameters[name]]["momentum_buffer"] = buffer.clone()
    return optimiser
