"""Labellers with a fixed budget per class: FPL, UPL and CPL."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedcopl_lab.config import PromptConfig, cpl_levels
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.steps import PseudoLabels, candidate_sets, fill_pools, log_odds, select_top


def fpl(logits: Sequence[Tensor], config: PromptConfig) -> LabelPhase:
    """Few pseudo-labels: the same number of most confident images for every class.

    The idealised form of "Enhancing CLIP with CLIP" (NeurIPS 2023): candidates of a class are the images
    predicted as it, and a class with fewer candidates stays short. With ``overflow="next_best"`` an image
    that its class has no room for goes on to its next most probable class, as in the public code; see
    :func:`fedcopl_lab.steps.fill_pools` for what of that code is left out.

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: gives ``shots``, images per class (None: all), ``label_scope`` and ``overflow``.

    >>> fpl([torch.eye(3), torch.eye(3)], lab.configure("smoke", labeller="FPL", shots=1))
    LabelPhase(6 images on 2 clients)

    Shown in notebook ``fedcopl_main_table1``.
    """

    def choose(scores: Tensor) -> PseudoLabels:
        room = _room(scores, config)
        if config.overflow == "next_best":
            return fill_pools(scores, torch.ones_like(scores, dtype=torch.bool), room)
        return select_top(scores, room)

    return _label(choose, config, logits)


def upl(logits: Sequence[Tensor], config: PromptConfig) -> LabelPhase:
    """Unsupervised prompt learning's labels (arXiv 2204.03649): FPL without overflow, and confident images.

    With ``upl_confident`` every image above that confidence joins, beyond the budget too.

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: gives ``shots``, ``label_scope`` and ``upl_confident``.
    """

    def choose(scores: Tensor) -> PseudoLabels:
        n_classes, quota = scores.shape[1], _room(scores, config)
        if config.upl_confident is not None:
            sure = log_odds(scores) > torch.tensor(config.upl_confident, dtype=torch.float64).logit()
            # both rules take the head of a class's ranking, so that their union is the longer head
            quota = quota.maximum(torch.bincount(scores.argmax(dim=1)[sure], minlength=n_classes))
        return select_top(scores, quota)

    return _label(choose, config, logits)


def cpl(logits: Sequence[Tensor], config: PromptConfig) -> LabelPhase:
    """Candidate pseudo-labels (ICML 2024): sets of classes, pools of ``shots`` images per class.

    Candidate sets come from the quantiles of all clients' scores together; with ``candidate_scope="client"`` from
    each client's own, which give every class the same share of a client's images, present or not. Pools are each
    client's own, or with ``label_scope="global"`` those of all clients together. An image's hard label is the class
    whose pool it is in.

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: gives the quantile levels, ``candidate_scope``, ``shots`` and ``label_scope``.
    """
    levels = cpl_levels(config, logits[0].shape[1])
    if config.candidate_scope == "client":
        sets = [candidate_sets(z, *levels) for z in logits]
    else:
        sets = list(candidate_sets(torch.cat(list(logits)), *levels).split([len(z) for z in logits]))

    def choose(scores: Tensor, allowed: Tensor) -> PseudoLabels:
        chosen = fill_pools(scores, allowed, _room(scores, config))
        return PseudoLabels(chosen.indices, chosen.labels, allowed[chosen.indices])

    return _label(choose, config, logits, sets)


def _room(scores: Tensor, config: PromptConfig) -> Tensor:
    """Images that each class has room for, [C]."""
    return torch.full((scores.shape[1],), len(scores) if config.shots is None else config.shots)


def _label(
    choose: Callable[..., PseudoLabels], config: PromptConfig, logits: Sequence[Tensor], *more: Sequence[Tensor]
) -> LabelPhase:
    """Labels of each client by itself, or of all images together, taken apart again: a client's share is its quota.

    With ``label_scope="global"`` each client sends its ``shots`` best scores of every class at most and learns how
    many of them stay.
    """
    n_classes = logits[0].shape[1]
    if config.label_scope == "client":
        labels = [choose(*own) for own in zip(logits, *more, strict=True)]
        quota = torch.stack([_room(z, config) for z in logits])
        return LabelPhase(labels=tuple(labels), quota=quota, logits=tuple(logits))
    chosen = choose(*(torch.cat(list(part)) for part in (logits, *more)))
    ends = torch.tensor([len(z) for z in logits]).cumsum(dim=0).tolist()
    labels = []
    for start, end in zip([0, *ends], ends, strict=False):
        own = (start <= chosen.indices) & (chosen.indices < end)
        candidates = None if chosen.candidates is None else chosen.candidates[own]
        labels.append(PseudoLabels(chosen.indices[own] - start, chosen.labels[own], candidates))
    quota = torch.stack([one.counts(n_classes) for one in labels])
    sent = 8 * sum(min(config.shots or len(z), len(z)) * n_classes for z in logits)
    return LabelPhase(tuple(labels), quota, tuple(logits), bytes_up=sent, bytes_down=quota.nbytes)
