"""Rows of the run store for semi-supervised methods: what a round reports; ``sage_row.toml`` says what every key is."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.methods._sage_local_task import ClientUpdate
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState, Tensors
from fedcopl_lab.methods._sage_statistics import CheckedViews, ensemble_statistics, label_statistics, rare_classes
from fedcopl_lab.steps import entropy, model_scores

_DIGITS = 6  # of the mean predictions


def round_row(
    setting: SemiSetting, after: SemiState, updates: Mapping[int, ClientUpdate], messages: Mapping[int, Tensors]
) -> dict[str, Any]:
    """One round's row; see ``sage_row.toml``.

    Args:
        setting: data and federation; true labels of the pool are read here, for the report alone.
        after: the state the round ended with.
        updates: what each participant ended with.
        messages: what each received beside the model.
    """
    model = setting.placed_model(after.model)
    tests = setting.tests
    scores = model_scores(model, setting.images[tests], setting.testing)
    right = scores.argmax(dim=1) == setting.labels[tests]
    n_probe = len(setting.probes)
    row: dict[str, Any] = {
        "round": after.round,
        "accuracy": float(right.double().mean()),
        **(
            {"right": "".join(map(str, right.int().tolist()))}
            if after.round > setting.config.rounds - LAST_ROUNDS
            else {}
        ),
        **_losses(updates),
        "n_steps": sum(update.n_steps for update in updates.values()),
        "participants": list(updates),
        "bytes_up": sum(_nbytes(update.model) + _nbytes(update.sent) for update in updates.values()),
        "bytes_down": sum(_nbytes(after.model) + _nbytes(message) for message in messages.values()),
    }
    judged = [_judged(setting, client, update) for client, update in updates.items()]
    views = [one for one in judged if one is not None]
    if views:
        row |= label_statistics(CheckedViews.of(views), setting.config.threshold)
    if n_probe:
        merged = model_scores(model, setting.images[setting.probes], setting.testing)
        local = [update.probe_scores for update in updates.values()]
        row["ensemble"] = ensemble_statistics(merged, local, setting.config.threshold)
    row["clients"] = _clients(setting, updates)
    return row


def _losses(updates: Mapping[int, ClientUpdate]) -> dict[str, float]:
    names = {name for update in updates.values() for name in update.losses}
    means = {}
    for name in sorted(names):
        values = [update.losses[name] for update in updates.values() if name in update.losses]
        means[f"loss_{name}"] = sum(values) / len(values)
    return means


def _judged(setting: SemiSetting, client: int, update: ClientUpdate) -> CheckedViews | None:
    if update.noted is None:
        return None
    of_pool = setting.labels[setting.pool(client)]
    true = of_pool[update.noted.places]
    rare = rare_classes(torch.bincount(of_pool, minlength=setting.dataset.n_classes))
    return CheckedViews(update.noted, true, rare[true])


def _clients(setting: SemiSetting, updates: Mapping[int, ClientUpdate]) -> dict[str, list[Any]]:
    reports = {client: _client(setting, client, update) for client, update in updates.items()}
    keys = next(iter(reports.values()))
    everyone = range(setting.config.n_clients)
    return {key: [reports[k][key] if k in reports else None for k in everyone] for key in keys}


def _client(setting: SemiSetting, client: int, update: ClientUpdate) -> dict[str, Any]:
    pool, labelled = setting.labels[setting.pool(client)], setting.labels[setting.labelled(client)]
    scored = setting.labels[setting.scored_pool(client)]
    return {
        "n_labelled": len(labelled),
        "n_pool": len(pool),
        "mix_entropy": _entropy_of(_mix(pool, setting)),
        "labelled_mix_entropy": _entropy_of(_mix(labelled, setting)),
        "local_entropy": None if update.noted is None else float(entropy(update.noted.local).mean()),
        **(_predictions(update, scored, _mix(scored, setting), _mix(labelled, setting)) if len(scored) else {}),
    }


def _predictions(update: ClientUpdate, true: Tensor, mix: Tensor, labelled: Tensor) -> dict[str, Any]:
    """What the pool looks like to the model that a client got and to the one that it sends."""
    report: dict[str, Any] = {}
    for name in ("start", "end", "start_batch", "end_batch"):
        scores: Tensor = getattr(update, f"{name}_scores")
        shares = scores.double().softmax(dim=1).mean(dim=0)
        report |= {
            f"{name}_mean": _rounded(shares),
            f"{name}_distance": float(0.5 * (shares - mix).abs().sum()),
            f"{name}_labelled_distance": float(0.5 * (shares - labelled).abs().sum()),
            f"{name}_entropy": float(entropy(scores).mean()),
        }
    log_p = update.end_scores.double().log_softmax(dim=1)
    p, shares = log_p.exp(), log_p.exp().mean(dim=0)
    return report | {
        # the mean of sum p log(p / mean p) is the entropy of the mean less the mean entropy
        "end_information": _entropy_of(shares) - report["end_entropy"],
        "end_printed": float((shares * log_p).sum(dim=1).mean()) + _entropy_of(shares),
        "end_accuracy": float((p.argmax(dim=1) == true).double().mean()),
        "end_confidence": float(p.amax(dim=1).mean()),
    }


def _mix(classes: Tensor, setting: SemiSetting) -> Tensor:
    return torch.bincount(classes, minlength=setting.dataset.n_classes).double() / len(classes)


def _entropy_of(p: Tensor) -> float:
    return float(-torch.xlogy(p, p).sum())


def _rounded(values: Tensor) -> list[float]:
    return [round(value, _DIGITS) for value in values.tolist()]


def _nbytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(value.nbytes for value in tensors.values())
