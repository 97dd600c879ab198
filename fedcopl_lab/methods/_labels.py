"""How a round's pseudo-labels come about: FedCoPL's own labeller, the oracle, and the choice among all."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.methods._few_shot_labels import cpl, fpl, upl
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import FilteredSet, PseudoLabels, allocate, filter_confident, perturb_counts, select_top


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
    """Every client's filtered set, by its own quantiles or by those of all scores together."""
    if config.filter_scope == "client":
        return tuple(filter_confident(z, config.q_conf, config.q_ent) for z in logits)
    pooled = filter_confident(torch.cat(list(logits)), config.q_conf, config.q_ent)
    sizes = [len(z) for z in logits]
    n_classes = logits[0].shape[1]
    masks = (pooled.kept, pooled.labels, pooled.confident, pooled.certain)
    return tuple(
        replace(
            pooled,
            kept=kept,
            labels=labels,
            counts=torch.bincount(labels[kept], minlength=n_classes),
            confident=confident,
            certain=certain,
        )
        for kept, labels, confident, certain in zip(*(mask.split(sizes) for mask in masks), strict=True)
    )
