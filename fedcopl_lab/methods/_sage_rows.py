"""Rows of the run store for semi-supervised methods: what a round reports, and what every key means."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.methods._sage_local_task import ClientUpdate
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState, Tensors
from fedcopl_lab.methods._sage_statistics import CheckedViews, ensemble_statistics, label_statistics, rare_classes
from fedcopl_lab.steps import entropy, model_scores

_MODEL_KEYS = {
    "counts": "weak views by confidence, 20 bins over [0, 1]",
    "correct": "those whose label is true, same bins",
    "confidence": "mean confidence",
    "accuracy": "share of true labels, confident or not",
    "entropy": "mean entropy of the predictions, nats",
    "histogram_entropy": "entropy of the histogram of confidences, nats",
    "calibration_error": "expected calibration error over the 20 bins",
    "n_sure": "views whose confidence reaches the threshold",
    "n_sure_correct": "those whose label is true",
}
_TARGET_KEYS = {
    "n_used": "views with a pseudo-label in the end",
    "n_used_correct": "those whose target is largest at the true class",
    "true_mass": "mean of the target at the true class, over used views",
}
_GROUP_KEYS = {
    "n": "views of these classes",
    "n_local_correct": "local label true",
    "n_local_sure": "local model confident",
    "n_local_sure_correct": "confident and true",
    **_TARGET_KEYS,
    "n_global_correct": "global label true",
    "n_global_sure": "global model confident",
    "n_global_sure_correct": "confident and true",
    "n_agreeing": "both models give one label",
    "lambda": "mean lambda",
    "lambda_sure": "mean lambda where the local model is confident",
}

_SEEN = {
    "start": "the model the client started from", "end": "its trained model",
    "start_batch": "the first, normalising with these images' own statistics as in training,",
    "end_batch": "the second, normalising with these images' own statistics as in training,",
}  # fmt: skip
_PREDICTED = {
    "mean": "mean prediction, [C]; over at most n_probe images, absent where that is 0",
    "distance": "total variation of the mean prediction and these images' true classes",
    "labelled_distance": "the same and the classes of the client's labelled images",
    "entropy": "mean entropy of the predictions, nats; Eq. 16's left side",
}

ROW_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "round": "number of the round, from 1",
        "accuracy": "of the merged model on all test images",
        "right": "in the last five rounds, one digit per test image: 1 where the merged model is right",
        "loss_*": "mean over steps, then clients, of each named loss",
        "n_steps": "optimiser steps of all participants",
        "participants": "clients that trained",
        "bytes_up": "bytes that all participants sent",
        "bytes_down": "bytes that they received",
        "n_views": "weak views that were scored; one image counts as often as it was drawn",
        **{f"local.{key}": f"model in training: {what}" for key, what in _MODEL_KEYS.items()},
        **{f"global.{key}": f"the round's global model: {what}" for key, what in _MODEL_KEYS.items()},
        **{f"target.{key}": what for key, what in _TARGET_KEYS.items()},
        "both.agreement": "share of views to which both models give one label",
        "both.gap": "mean |c_l - c_g|",
        "both.n_union": "views where one of them is confident or both are",
        "both.n_added": "views where only the global model is confident",
        "both.n_added_correct": "those whose global label is true",
        "both.n_disputed": "views where the local model is confident and the labels differ",
        "both.n_disputed_local_right": "those whose local label is true",
        "both.n_disputed_global_right": "those whose global label is true",
        "both.disputed_true_mass": "mean of the target at the true class there",
        "both.n_disputed_for_global": "those with lambda below one half",
        "both.lambda": "mean lambda over all views; 1 for methods without correction",
        "both.lambda_sure": "the same where the local model is confident",
        "both.lambda_disputed": "the same over disputed views",
        **{f"groups.majority.{key}": f"other classes: {what}" for key, what in _GROUP_KEYS.items()},
        **{
            f"groups.minority.{key}": f"classes with less than half of the client's mean class count: {what}"
            for key, what in _GROUP_KEYS.items()
        },
        "ensemble.n_images": "fixed test images",
        "ensemble.distance_to_mean": "mean total variation of merged prediction and mean local prediction",
        "ensemble.distance_to_single": "the same to one local prediction",
        "ensemble.agreement_with_mean": "share of images with one label",
        "ensemble.agreement_with_single": "the same with one local model",
        "ensemble.agreeing_counts": "images by number of local models that agree with the merged label, 0 to M",
        "ensemble.agreeing_confidence": "mean confidence of the merged model at each number",
        "ensemble.agreeing_sure": "images at each number whose confidence reaches the threshold",
        "ensemble.rank_correlation": "Spearman of that number and the confidence",
        "clients.n_labelled": "labelled images; lists run over all clients, None where one did not take part",
        "clients.n_pool": "images of the pool",
        "clients.mix_entropy": "entropy of the pool's true classes, nats",
        "clients.labelled_mix_entropy": "the same of its labelled images",
        "clients.local_entropy": "mean entropy of the local predictions on weak views in training",
        **{
            f"clients.{model}_{what}": f"pool images as {seen} sees them: {said}"
            for model, seen in _SEEN.items()
            for what, said in _PREDICTED.items()
        },
        "clients.end_information": "mean KL(prediction || end_mean); Eq. 16's second term by Bayes' rule",
        "clients.end_printed": "mean -KL(end_mean || prediction); the same as Eq. 15 prints it",
        "clients.end_accuracy": "accuracy of the trained model on the pool",
        "clients.end_confidence": "mean confidence of the trained model on the pool",
    }
)
"""Every key of a row, nested ones with dots, and what it is. Methods without a pool have no labels' groups."""

_DIGITS = 6  # of the mean predictions


def round_row(
    setting: SemiSetting, after: SemiState, updates: Mapping[int, ClientUpdate], messages: Mapping[int, Tensors]
) -> dict[str, Any]:
    """One round's row; see :data:`ROW_KEYS`.

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
