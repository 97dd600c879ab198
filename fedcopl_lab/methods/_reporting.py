"""Rows of the run store: what a round and a label phase report. True labels are read here and only here."""

import math
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab.methods._setting import Setting
from fedcopl_lab.methods._state import FederationState
from fedcopl_lab.steps import Evaluation, LocalUpdate, cosine_distance, drift_diversity


def round_report(
    before: FederationState, updates: dict[int, LocalUpdate], evaluation: Evaluation, setting: Setting
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
    """The accuracies of all clients, as a row holds them."""
    return {
        "accuracy": evaluation.client_mean,
        "accuracy_sample_mean": evaluation.sample_mean,
        "accuracy_global": evaluation.global_,
        "clients": {
            "accuracy": [none_if_nan(value) for value in evaluation.per_client],
            "n_test": list(evaluation.n_test),
        },
    }


def none_if_nan(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None


def _drift_report(part: str, before: FederationState, updates: dict[int, LocalUpdate]) -> dict[str, float | None]:
    """Updates are measured from what each client started the round with (its own prompt, where it keeps it)."""
    moves = torch.stack([(getattr(update, part) - before.prompts(k)[part]).double() for k, update in updates.items()])
    return {
        f"drift_{part}": none_if_nan(drift_diversity(moves)),
        f"cosine_{part}": none_if_nan(cosine_distance(moves)) if len(moves) > 1 else None,
        f"move_{part}": float(moves.flatten(1).norm(dim=1).mean()),
        f"move_of_sum_{part}": float(moves.sum(dim=0).norm()),
    }


def _drift_from_mean(before: FederationState, updates: dict[int, LocalUpdate]) -> dict[str, float | None]:
    """The text updates measured from the mean of all clients' text prompts, as if the server had one."""
    mean = torch.stack([before.prompts(k)["text"] for k in range(len(before.clients["text"]))]).double().mean(dim=0)
    moves = torch.stack([update.text.double() - mean for update in updates.values()])
    return {
        "drift_text_from_mean": none_if_nan(drift_diversity(moves)),
        "cosine_text_from_mean": none_if_nan(cosine_distance(moves)) if len(moves) > 1 else None,
    }


def _counts(labels: Tensor, n_classes: int) -> list[int]:
    return torch.bincount(labels, minlength=n_classes).tolist()


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
