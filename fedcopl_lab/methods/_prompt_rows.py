"""Rows of the run store for prompt tuning: what a round and a label phase report. True labels are read only here."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab.methods._label_phase import LabelPhase, phase_counts
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._prompt_state import FederationState
from fedcopl_lab.steps import (
    Evaluation,
    FilteredSet,
    LocalUpdate,
    PseudoLabels,
    class_log_odds,
    cosine_distance,
    drift_diversity,
    log_odds,
)

SHARES = (0.1, 0.2, 0.3, 0.5)
"""Shares of a client's images at which labellers are compared at equal numbers."""


def label_report(phase: LabelPhase, setting: PromptSetting) -> dict[str, Any]:
    """Counts per client and class of a label phase, with how many are right; [K][C] lists.

    ``true`` counts the client's training images by true label, ``predicted`` by the class that the scoring
    model gives them; ``filtered`` and ``selected`` count pseudo-labels; ``*_correct`` the right ones among
    them. ``uploaded`` is what the server received for ``filtered``. ``kept`` holds how many images each
    filter keeps alone and both together, with their Jaccard overlap, [K]. ``accuracy_at`` is the accuracy of
    the most confident selected labels, as many as a share of the client's images, [K], None where fewer are
    selected; ``pool_accuracy_at`` the same for all predictions. ``candidates`` are the mean number of
    candidate classes and the share of images whose true class is among them, [K], of a labeller that has them.
    """
    true = [setting.dataset.labels[setting.train_indices(k)] for k in range(len(phase.labels))]
    counts = {name: one.tolist() for name, one in phase_counts(phase, true).items()}
    report: dict[str, Any] = {"true": counts["true"]}
    for name, stage in (("predicted", "predicted"), ("selected", "selected"), ("filtered", "kept")):
        if stage in counts:
            report |= {name: counts[stage], f"{name}_correct": counts[f"{stage}_right"]}
    if phase.filtered:
        report["kept"] = _overlaps(phase.filtered)
    if phase.uploaded is not None:
        report["uploaded"] = phase.uploaded.tolist()
    report["accuracy_at"] = _at_shares(
        [
            (class_log_odds(scores)[chosen.indices, chosen.labels], chosen.labels == t[chosen.indices], len(scores))
            for scores, chosen, t in zip(phase.logits, phase.labels, true, strict=True)
        ]
    )
    report["pool_accuracy_at"] = _at_shares(
        [
            (log_odds(scores), scores.argmax(dim=1) == t, len(scores))
            for scores, t in zip(phase.logits, true, strict=True)
        ]
    )
    report |= _candidates(phase.labels, true)
    report["quota"] = phase.quota.tolist()
    report["fallback"] = [one.fallback for one in phase.filtered]
    return report


def _overlaps(filtered: tuple[FilteredSet, ...]) -> dict[str, list[float] | list[int]]:
    both = [int((one.confident & one.certain).sum()) for one in filtered]
    either = [int((one.confident | one.certain).sum()) for one in filtered]
    return {
        "confidence": [int(one.confident.sum()) for one in filtered],
        "entropy": [int(one.certain.sum()) for one in filtered],
        "both": both,
        "jaccard": [a / b if b else 1.0 for a, b in zip(both, either, strict=True)],
    }


def _at_shares(clients: list[tuple[Float[Tensor, "_"], Bool[Tensor, "_"], int]]) -> dict[str, list[float | None]]:
    """Accuracy of each client's most confident labels, from (confidence, right, images of the client)."""
    report: dict[str, list[float | None]] = {}
    ranked = [(ok[odds.argsort(descending=True, stable=True)].double(), n) for odds, ok, n in clients]
    for share in SHARES:
        heads = [(ok, max(round(share * n), 1)) for ok, n in ranked]
        report[f"{share:.0%}"] = [float(ok[:wanted].mean()) if len(ok) >= wanted else None for ok, wanted in heads]
    return report


def _candidates(labels: tuple[PseudoLabels, ...], true: list[Int[Tensor, "_"]]) -> dict[str, Any]:
    sets = [(one.candidates, t[one.indices]) for one, t in zip(labels, true, strict=True) if one.candidates is not None]
    if len(sets) < len(labels):
        return {}
    sizes = [float(mask.sum() / len(mask)) if len(mask) else None for mask, _ in sets]
    covered = [float(mask[torch.arange(len(t)), t].double().mean()) if len(t) else None for mask, t in sets]
    return {"candidates": {"mean": sizes, "covered": covered}}


def set_report(labels: Mapping[str, Any]) -> dict[str, float]:
    """Of a report of :func:`label_report` with candidate sets: how many hold the true class, and their mean size.

    Both are means over clients: ``set_accuracy`` in [0, 1] and ``set_size`` in classes.
    """
    if "candidates" not in labels:
        return {}
    named = {"set_accuracy": "covered", "set_size": "mean"}
    known = {name: [one for one in labels["candidates"][own] if one is not None] for name, own in named.items()}
    return {name: _mean(values) for name, values in known.items() if values}


def round_report(
    before: FederationState, updates: Mapping[int, LocalUpdate], evaluation: Evaluation, setting: PromptSetting
) -> dict[str, Any]:
    """Accuracy, loss, drift and pseudo-label quality of one round."""
    row = evaluation_report(evaluation)
    selected = [len(labels) for labels in before.labels]
    right = [
        labels.accuracy(setting.dataset.labels[setting.train_indices(k)]) for k, labels in enumerate(before.labels)
    ]
    accuracies = [value for value in right if not math.isnan(value)]
    row["label_accuracy"] = sum(accuracies) / len(accuracies) if accuracies else None
    row["n_selected"] = sum(selected)
    row["loss_first_epoch"] = _mean([update.epoch_losses[0] for update in updates.values()])
    row["loss_last_epoch"] = _mean([update.epoch_losses[-1] for update in updates.values()])
    row["n_steps"] = sum(update.n_steps for update in updates.values())
    row["participants"] = list(updates)
    for part in before.clients:
        row |= _drift_report(part, before, updates)
    row |= _drift_from_mean(before, updates)
    row["clients"] |= {"n_selected": selected, "label_accuracy": [none_if_nan(value) for value in right]}
    return row


def evaluation_report(evaluation: Evaluation) -> dict[str, Any]:
    """The accuracies of all clients, as a row holds them; after the last round also which test images are right."""
    last = evaluation.global_ is not None
    return {
        "accuracy": evaluation.client_mean,
        "accuracy_sample_mean": evaluation.sample_mean,
        "accuracy_global": evaluation.global_,
        "clients": {
            "accuracy": [none_if_nan(value) for value in evaluation.per_client],
            "n_test": list(evaluation.n_test),
            **({"right": list(evaluation.right)} if last else {}),
        },
    }


def none_if_nan(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None


def _drift_report(part: str, before: FederationState, updates: Mapping[int, LocalUpdate]) -> dict[str, float | None]:
    """Updates are measured from what each client started the round with (its own prompt, where it keeps it)."""
    moves = torch.stack([(getattr(update, part) - before.prompts(k)[part]).double() for k, update in updates.items()])
    report = _spread(part, moves) | {
        f"move_{part}": _length(moves),
        f"move_of_sum_{part}": float(moves.sum(dim=0).norm()),
    }
    if all(part in update.decay for update in updates.values()):  # trained: the gradient's part of the way apart
        decay = torch.stack([update.decay[part].double() for update in updates.values()])
        report |= _spread(f"{part}_gradient", moves - decay)
        report |= {f"move_{part}_gradient": _length(moves - decay), f"move_{part}_decay": _length(decay)}
    return report


def _spread(name: str, moves: Float[Tensor, "k *shape"]) -> dict[str, float | None]:
    return {
        f"drift_{name}": none_if_nan(drift_diversity(moves)),
        f"cosine_{name}": none_if_nan(cosine_distance(moves)) if len(moves) > 1 else None,
    }


def _length(moves: Float[Tensor, "k *shape"]) -> float:
    return float(moves.flatten(1).norm(dim=1).mean())


def _drift_from_mean(before: FederationState, updates: Mapping[int, LocalUpdate]) -> dict[str, float | None]:
    """The text updates measured from the mean of all clients' text prompts, as if the server had one."""
    mean = torch.stack([before.prompts(k)["text"] for k in range(len(before.clients["text"]))]).double().mean(dim=0)
    moves = torch.stack([update.text.double() - mean for update in updates.values()])
    return _spread("text_from_mean", moves)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
