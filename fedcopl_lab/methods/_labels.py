"""How a round's pseudo-labels come about: the labellers FPL and CoPL."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab.config import PromptConfig
from fedcopl_lab.steps import FilteredSet, PseudoLabels, allocate, filter_confident, select_top


@dataclass(frozen=True, repr=False)
class LabelPhase:
    """The pseudo-labels of all clients from one label phase.

    Attributes:
        labels: one set per client.
        quota: images wanted per client and class, [K, C].
        filtered: the filtered sets they were estimated from; empty for a labeller that does not filter.
    """

    labels: tuple[PseudoLabels, ...]
    quota: Int[Tensor, "k c"]
    filtered: tuple[FilteredSet, ...] = ()

    def __repr__(self) -> str:
        return f"LabelPhase({sum(map(len, self.labels))} images on {len(self.labels)} clients)"


def copl(logits: Sequence[Tensor], config: PromptConfig, *, n_train: int, phase: int) -> LabelPhase:
    """Cooperative pseudo-labels: filter on each client, allocate on the server, select (Sec. 3.3, Eqs. 2-3).

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: quantile levels, scope, allocation and candidates.
        n_train: training images of all clients.
        phase: index of the label phase, 0 for the first.
    """
    filtered = _filter(logits, config)
    counts = torch.stack([one.counts for one in filtered])
    quota = allocate(counts, config.allocation, n_train=n_train, phase=phase, unseen=config.unseen_class).quota
    if config.allocation == "none":  # train on the filtered images themselves, supplement Fig. 4's "without"
        labels = tuple(
            PseudoLabels(indices=one.kept.nonzero().squeeze(1), labels=one.labels[one.kept]) for one in filtered
        )
    else:
        labels = tuple(select_top(z, q, config.candidates) for z, q in zip(logits, quota, strict=True))
    return LabelPhase(labels=labels, quota=quota, filtered=filtered)


def fpl(logits: Sequence[Tensor], config: PromptConfig) -> LabelPhase:
    """Few pseudo-labels: on each client the same number of most confident images for every class.

    The idealised form of "Enhancing CLIP with CLIP" (NeurIPS 2023): candidates of a class are the images
    predicted as it, and a class with fewer candidates stays short. The public code differs in how refused
    images move on to other classes.

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: gives ``shots``, images per class and client.
    """
    quota = torch.full((len(logits), logits[0].shape[1]), config.shots)
    return LabelPhase(labels=tuple(select_top(z, q) for z, q in zip(logits, quota, strict=True)), quota=quota)


def _filter(logits: Sequence[Tensor], config: PromptConfig) -> tuple[FilteredSet, ...]:
    if config.filter_scope == "client":
        return tuple(filter_confident(z, config.q_conf, config.q_ent) for z in logits)
    pooled = filter_confident(torch.cat(list(logits)), config.q_conf, config.q_ent)
    sizes = [len(z) for z in logits]
    n_classes = logits[0].shape[1]
    return tuple(
        FilteredSet(
            kept=kept,
            labels=labels,
            counts=torch.bincount(labels[kept], minlength=n_classes),
            confidence_threshold=pooled.confidence_threshold,
            entropy_threshold=pooled.entropy_threshold,
            fallback=pooled.fallback,
        )
        for kept, labels in zip(pooled.kept.split(sizes), pooled.labels.split(sizes), strict=True)
    )
