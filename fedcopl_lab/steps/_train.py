"""Step 5: local updates of prompts on pseudo-labelled images, for one client or several in one pass."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.models import PromptedCLIP
from fedcopl_lab.steps._local_training import LocalTraining, LocalUpdate, PromptState
from fedcopl_lab.steps._scorer import ImageRows, Scorer, scorer_of
from fedcopl_lab.steps._select import PseudoLabels


def train_round(
    prompted: PromptedCLIP,
    shard_images: Float[Tensor, "n *image"] | ImageRows | Sequence[Float[Tensor, "_ *image"] | ImageRows],
    pseudo_labels: PseudoLabels | Sequence[PseudoLabels],
    state: PromptState | Sequence[PromptState],
    *,
    config: PromptConfig,
    generator: torch.Generator | Sequence[torch.Generator],
    template: Float[Tensor, "c d"] | None = None,
) -> Any:
    """Train one client's prompts for a round with SGD and cross-entropy (Eq. 5, supplement Alg. 1).

    With a list of clients, their batches share one forward and backward pass: each client's own mean loss,
    its own optimiser and its own last partial batch, so that every update equals the one it gets alone up
    to rounding. A client whose batches are used up leaves the pass; ``state`` is not changed.

    Args:
        prompted: the frozen model with its classes.
        shard_images: all the client's training images, pixels [n, 3, H, W] or image tokens [n, tokens, width], or
            rows of a larger tensor of them, which are then not copied; for several clients a list of them, as for the
            next arguments.
        pseudo_labels: which of them to train on, and as what.
        state: the prompts to start from.
        config: method, epochs, batch size, optimiser and schedule.
        generator: draws the order of the images in each epoch.
        template: the template's unit text features, [C, d]; for text that is not trained, and for FedPGP, FedTPG, …

    Returns:
        A :class:`LocalUpdate`, or a list of them for a list of clients.

    Raises:
        FedCoPLError: nothing was selected, lists of different lengths, or the loss is no longer a number.

    >>> clip, digits, seed = lab.load_clip("tiny"), lab.load_dataset("digits"), torch.Generator().manual_seed(0)
    >>> prompted = lab.PromptedCLIP(clip.model, clip.tokenizer, digits.class_names)
    >>> labels = PseudoLabels(indices=torch.arange(9), labels=digits.labels[:9])
    >>> config = lab.configure("smoke", local_epochs=2, batch_size=6)
    >>> state = PromptState(*prompted.initial_prompts(seed))
    >>> images = clip.to_input(digits.images[:20])
    >>> lab.train_round(prompted, images, labels, state, config=config, generator=seed).n_steps
    4

    Shown in notebook ``00_quickstart``.
    """
    scorer = scorer_of(prompted, config, template)
    if isinstance(state, PromptState):
        alone = LocalTraining(shard_images, pseudo_labels, state, generator, scorer=scorer)  # type: ignore[arg-type]
        return _train_together(scorer, [alone])[0]
    parts: tuple[Sequence[Any], ...] = (shard_images, pseudo_labels, state, generator)  # type: ignore[assignment]
    lengths = [len(part) for part in parts]
    if len(set(lengths)) != 1 or not lengths[0]:
        raise FedCoPLError(
            f"got {lengths[0]} image sets, {lengths[1]} label sets, {lengths[2]} states and {lengths[3]} generators; "
            "expected one of each per client, and at least one client"
        )
    if lengths[0] > 1 and config.momentum_state == "shared":
        raise FedCoPLError(
            f"{lengths[0]} clients at once with momentum_state='shared', which passes one buffer from client to "
            "client; train them one after another"
        )
    return _train_together(scorer, [LocalTraining(*own, scorer=scorer) for own in zip(*parts, strict=True)])


def _train_together(scorer: Scorer, clients: list[LocalTraining]) -> list[LocalUpdate]:
    while active := [client for client in clients if client.next_batch()]:
        scores = _scores(scorer, active)
        losses = [client.loss(*own) for client, own in zip(active, scores, strict=True)]
        for client in active:
            client.optimiser.zero_grad()
        sum(losses[1:], start=losses[0]).backward()
        for client in active:
            client.step()
    return [client.update() for client in clients]


def _scores(scorer: Scorer, active: list[LocalTraining]) -> list[tuple[Tensor, Tensor | None]]:
    """The logits of each client's current batch, and what its method adds to the loss."""
    encode = "visual" in scorer.config.trained
    if len(active) == 1:  # also the last one left: the same numbers with less to copy
        only = active[0]
        alone = scorer.images(only.batch_images, only.prompts["visual"]) if encode else only.batch_images
        text = scorer.texts(only.prompts)
        return [(scorer.logits(alone, text, only.cache, only.batch), scorer.penalty(text))]
    prompts = {part: torch.stack([client.prompts[part] for client in active]) for part in active[0].prompts}
    batches = [client.batch_images for client in active]
    images = scorer.images(batches, prompts["visual"]) if encode else batches
    texts = scorer.texts(prompts)
    per_client = zip(images, texts, active, strict=True)
    return [
        (scorer.logits(own, text, client.cache, client.batch), scorer.penalty(text)) for own, text, client in per_client
    ]
