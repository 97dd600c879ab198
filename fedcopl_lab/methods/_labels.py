"""How a round's pseudo-labels come about: FedCoPL's labeller, those with a budget per class, and the oracle."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, cpl_levels
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import (
    FilteredSet,
    PseudoLabels,
    allocate,
    candidate_sets,
    class_counts,
    fill_pools,
    filter_confident,
    log_odds,
    perturb_counts,
    select_top,
)


def make_labels(
    logits: Sequence[Tensor],
    config: PromptConfig,
    *,
    n_train: int,
    phase: int,
    seed: int = 0,
    true_labels: Sequence[Tensor] | None = None,
) -> LabelPhase:
    """One label phase with the labeller that the configuration names.

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: labeller and its settings.
        n_train: training images of all clients.
        phase: index of the label phase, 0 for the first.
        seed: of the noise on counts.
        true_labels: labels of the same images, read by the oracle only.

    Raises:
        FedCoPLError: the oracle without true labels.
    """
    if config.labeller in ("FPL", "UPL", "CPL"):
        return {"FPL": fpl, "UPL": upl, "CPL": cpl}[config.labeller](logits, config)
    estimated = copl(logits, config, n_train=n_train, phase=phase, seed=seed)
    if config.labeller != "true":
        return estimated
    if true_labels is None:
        raise FedCoPLError("labeller='true' needs true labels, which no client has; pass them, or choose CoPL")
    return oracle(estimated, true_labels)


def copl(logits: Sequence[Tensor], config: PromptConfig, *, n_train: int, phase: int, seed: int = 0) -> LabelPhase:
    """Cooperative pseudo-labels: filter on each client, allocate on the server, select (Sec. 3.3, Eqs. 2-3).

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: quantile levels, scope, count noise, allocation and candidates.
        n_train: training images of all clients.
        phase: index of the label phase, 0 for the first.
        seed: of the noise on counts.
    """
    filtered = filter_all(logits, config)
    counts = torch.stack([one.counts for one in filtered])
    generator = torch_generator(seed, "count noise", phase)
    uploaded = perturb_counts(counts, config.count_noise, generator, config.epsilon)
    quota = allocate_counts(uploaded, config, n_train=n_train, phase=phase)
    return LabelPhase(
        labels=tuple(select_labels(*one, config) for one in zip(logits, filtered, quota, strict=True)),
        quota=quota,
        filtered=filtered,
        uploaded=uploaded,
        logits=tuple(logits),
        bytes_up=uploaded.nbytes,
        bytes_down=quota.nbytes,
    )


def oracle(estimated: LabelPhase, true_labels: Sequence[Int[Tensor, "_"]]) -> LabelPhase:
    """ORACLE, for reporting only: the same images with their true labels, which no client knows.

    What it gains over its estimate is what wrong labels cost, since the images and their number are equal.

    Args:
        estimated: a label phase.
        true_labels: true labels of each client's training images, K of [n_k].
    """
    labels = [replace(one, labels=true[one.indices]) for one, true in zip(estimated.labels, true_labels, strict=True)]
    return replace(estimated, labels=tuple(labels))


def allocate_counts(
    uploaded: Int[Tensor, "k c"], config: PromptConfig, *, n_train: int, phase: int
) -> Int[Tensor, "k c"]:
    """The server's part of :func:`copl`: how many images of each class every client is to select, [K, C]."""
    return allocate(uploaded, config.allocation, n_train=n_train, phase=phase, unseen=config.unseen_class).quota


def select_labels(
    logits: Tensor, filtered: FilteredSet | None, quota: Int[Tensor, "c"], config: PromptConfig
) -> PseudoLabels:
    """A client's part of :func:`copl` once it knows its quota; ``filtered`` is made again where it is None."""
    if config.allocation != "none":
        return select_top(logits, quota, config.candidates)
    one = filtered or filter_confident(logits, config.q_conf, config.q_ent)  # supplement Fig. 4's "without"
    return PseudoLabels(indices=one.kept.nonzero().squeeze(1), labels=one.labels[one.kept])


def stream_seed(config: PromptConfig) -> int:
    """Seed of everything but the initial prompts; the released code keeps it fixed over its trials."""
    return config.seed if config.seed_scope == "everything" else 0


def filter_all(logits: Sequence[Tensor], config: PromptConfig) -> tuple[FilteredSet, ...]:
    """Every client's filtered set, by its own quantiles or by those of all scores together (Sec. 3.3, Eq. 2).

    Args:
        logits: each client's scores of its training images, K of [n_k, C].
        config: gives the levels ``q_conf`` and ``q_ent`` and the ``filter_scope``.

    >>> scores = torch.tensor([[4.0, 0.0], [1.0, 0.0], [0.0, 3.0], [0.0, 0.5]])
    >>> [one.counts.tolist() for one in filter_all([scores, 2 * scores], lab.configure("smoke"))]
    [[1, 1], [1, 1]]

    Shown in notebook ``explore``.
    """
    if config.filter_scope == "client":
        return tuple(filter_confident(z, config.q_conf, config.q_ent) for z in logits)
    pooled = filter_confident(torch.cat(list(logits)), config.q_conf, config.q_ent)
    n_classes, sizes = logits[0].shape[1], [len(z) for z in logits]
    masks = {name: getattr(pooled, name).split(sizes) for name in ("kept", "labels", "confident", "certain")}
    clients = [replace(pooled, **{name: own[k] for name, own in masks.items()}) for k in range(len(sizes))]
    return tuple(replace(one, counts=class_counts(one.labels[one.kept], n_classes)) for one in clients)


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
            quota = quota.maximum(class_counts(scores.argmax(dim=1)[sure], n_classes))
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
