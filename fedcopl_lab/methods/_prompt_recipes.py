"""What a trainer of FedCoPL's kind may do otherwise, and the ones of ours beside the paper's, by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcopl_lab.config import PromptConfig
from fedcopl_lab.methods.protocol import Tensors
from fedcopl_lab.models import PromptedCLIP
from fedcopl_lab.steps import (
    CovarianceScorer,
    GeneratedScorer,
    HeadScorer,
    ImageCache,
    ImageRows,
    LocalUpdate,
    LowRankScorer,
    MeansScorer,
    PromptState,
    PseudoLabels,
    Scorer,
    covariance_classifier,
    label_loss,
    scorer_of,
    train_round,
)


@dataclass(frozen=True, kw_only=True)
class PromptRecipe:
    """One trainer of FedCoPL's kind: which scorer it has, and two hooks.

    Attributes:
        scorer: how images, prompts and what else it trains become logits; also what a client starts from and what
            its loss adds.
        train: local training of some clients, with the arguments of :func:`fedcopl_lab.train_round` for a stack.
        merge: client -> what it sent, by part, to the server's new parts; None takes the weighted mean.
    """

    scorer: type[Scorer] = Scorer
    train: Callable[..., list[LocalUpdate]] = train_round
    merge: Callable[[Mapping[int, Mapping[str, Tensor]]], Tensors] | None = None


@torch.no_grad()
def measure_means(
    prompted: PromptedCLIP,
    shard_images: Sequence[Tensor | ImageRows],
    pseudo_labels: Sequence[PseudoLabels],
    state: Sequence[PromptState],
    *,
    config: PromptConfig,
    generator: Sequence[torch.Generator],
    template: Tensor | None = None,
) -> list[LocalUpdate]:
    """Class means of each client's pseudo-labelled images instead of training; the loss is that of what it received.

    ``text`` is the sum of the class's features over all labelled images [C, d], whose weighted mean over clients is
    the mean of all; for FedCOF it is the class's own mean with its count, [C, d + 1].
    """
    scorer, updates = scorer_of(prompted, config, template), []
    for images, labels, start in zip(shard_images, pseudo_labels, state, strict=True):
        features = scorer.known_images(images[labels.indices.to(images.device)], start.visual)
        shares = ImageCache.of(features, labels, len(prompted.class_names), config).values
        sums, counts = shares.T @ features, shares.sum(dim=0)
        own = torch.cat([sums / torch.where(counts > 0, counts, 1)[:, None], counts[:, None]], dim=1)
        text = own if config.like == "FedCOF" else sums / len(labels)
        logits = scorer.logits(features, scorer.texts({"text": start.text}))
        loss = float(label_loss(logits, labels.labels.to(logits.device)))
        updates.append(LocalUpdate(text, start.visual, {}, (loss,), len(labels), 0))
    return updates


def merge_means(sent: Mapping[int, Mapping[str, Tensor]]) -> Tensors:
    """FedCOF's classifier from what clients sent, with an empty column of counts, [C, d + 1]."""
    stack = torch.stack([one["text"] for one in sent.values()])
    rows = covariance_classifier(stack[..., :-1], stack[..., -1])
    return {"text": torch.nn.functional.pad(rows, (0, 1))}


PROMPT_RECIPES: dict[str, PromptRecipe] = {
    "FedPGP": PromptRecipe(scorer=LowRankScorer),
    "FedTPG": PromptRecipe(scorer=GeneratedScorer),
    "LinearHead": PromptRecipe(scorer=HeadScorer),
    "ClassMeans": PromptRecipe(scorer=MeansScorer, train=measure_means),
    "FedCOF": PromptRecipe(scorer=CovarianceScorer, train=measure_means, merge=merge_means),
}
"""Trainers that differ from PromptFL in more than settings; the paper's own are in :class:`Scorer` itself."""


def prompt_recipe_of(method: str) -> PromptRecipe:
    """The hooks of a trainer; plain ones for a trainer without its own."""
    return PROMPT_RECIPES.get(method, PromptRecipe())
