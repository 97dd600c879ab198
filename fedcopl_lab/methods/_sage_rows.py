"""Rows of the run store for semi-supervised methods: what a round reports; ``sage_row.toml`` says what every key is.

True labels of the pool are read here, for these numbers alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.methods._batches import ViewLabels
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import ClientUpdate, SemiState
from fedcopl_lab.methods.protocol import Tensors, payload
from fedcopl_lab.steps import entropy, model_scores

BINS = 20
"""Bins of equal width over confidences from 0 to 1; 0.95, SAGE's threshold, is an edge."""

_DIGITS = 6  # of the mean predictions


def round_row(
    setting: SemiSetting, after: SemiState, updates: Mapping[int, ClientUpdate], messages: Mapping[int, Tensors]
) -> dict[str, Any]:
    """The row of a round, from its end, what its participants ended with and what each received beside the model."""
    model = setting.placed_model(after.model)
    late = after.round > setting.config.rounds - LAST_ROUNDS
    tests = setting.tests if late else setting.tests[:: setting.config.test_stride]
    scores = model_scores(model, setting.images[tests], setting.testing)
    right = scores.argmax(dim=1) == setting.labels[tests]
    row: dict[str, Any] = {
        "round": after.round,
        "accuracy": float(right.double().mean()),
        **({"right": "".join(map(str, right.int().tolist()))} if late else {}),
        **_losses(updates),
        "n_steps": sum(update.n_steps for update in updates.values()),
        "participants": list(updates),
        "bytes_up": sum(payload(update.model) + payload(update.sent) for update in updates.values()),
        "bytes_down": sum(payload(after.model) + payload(message) for message in messages.values()),
    }
    if (views := _checked(setting, updates)) is not None:
        row |= label_statistics(views, setting.config.threshold)
    if len(setting.probes):
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
            f"{name}_mean": [round(share, _DIGITS) for share in shares.tolist()],
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


@dataclass(frozen=True, repr=False)
class CheckedViews:
    """The weak views of a round, all participants together, beside the truth."""

    noted: ViewLabels  # scores and labels
    true: Int[Tensor, "n"]  # true class of each view's image
    minority: Bool[Tensor, "n"]  # whether that class is rare on its client

    def __repr__(self) -> str:
        return f"CheckedViews({len(self.true)} weak views)"


def _checked(setting: SemiSetting, updates: Mapping[int, ClientUpdate]) -> CheckedViews | None:
    parts = []
    for client, update in updates.items():
        if update.noted is not None:
            of_pool = setting.labels[setting.pool(client)]
            true = of_pool[update.noted.places]
            rare = rare_classes(torch.bincount(of_pool, minlength=setting.dataset.n_classes))
            parts.append((update.noted, true, rare[true]))
    if not parts:
        return None
    noted, truth, minority = zip(*parts, strict=True)
    return CheckedViews(ViewLabels.joined(noted), torch.cat(truth), torch.cat(minority))


def rare_classes(counts: Int[Tensor, "c"]) -> Bool[Tensor, "c"]:
    """Classes with less than half of the client's mean class count: its minority classes."""
    return counts < 0.5 * counts.double().mean()


def label_statistics(views: CheckedViews, threshold: float) -> dict[str, Any]:
    """Confidences, masks, accuracies, lambda and agreement of a round; the keys are in ``sage_row.toml``."""
    noted, true = views.noted, views.true
    local = _Predicted.of(noted.local, true, threshold)
    global_ = None if noted.global_ is None else _Predicted.of(noted.global_, true, threshold)
    report: dict[str, Any] = {
        "n_views": len(noted),
        "local": local.report(),
        "target": _target_report(views, torch.ones_like(views.minority)),
    }
    if global_ is not None:
        report |= {"global": global_.report(), "both": _both(views, local, global_)}
    groups = {"majority": ~views.minority, "minority": views.minority}
    return report | {"groups": {name: _group(views, mask, local, global_) for name, mask in groups.items()}}


@dataclass(frozen=True, repr=False)
class _Predicted:
    """One model's predictions for the views."""

    label: Tensor
    confidence: Tensor
    sure: Tensor
    right: Tensor
    entropy: Tensor

    @classmethod
    def of(cls, logits: Tensor, true: Tensor, threshold: float) -> "_Predicted":
        p = logits.float().softmax(dim=1)
        label, confidence = p.argmax(dim=1), p.amax(dim=1)
        return cls(label, confidence.double(), confidence >= threshold, label == true, entropy(logits))

    def report(self) -> dict[str, Any]:
        place = (self.confidence * BINS).long().clamp(max=BINS - 1)
        counts = torch.bincount(place, minlength=BINS)
        share = counts.double() / max(len(place), 1)
        gaps = torch.zeros(BINS, dtype=torch.float64, device=place.device)
        gaps.index_add_(0, place, self.confidence - self.right.double())
        return {
            "counts": counts.tolist(),
            "correct": torch.bincount(place[self.right], minlength=BINS).tolist(),
            "confidence": _mean(self.confidence),
            "accuracy": _mean(self.right),
            "entropy": _mean(self.entropy),
            "histogram_entropy": float(-torch.xlogy(share, share).sum()),
            "calibration_error": float(gaps.abs().sum() / len(place)) if len(place) else None,
            "n_sure": int(self.sure.sum()),
            "n_sure_correct": int((self.sure & self.right).sum()),
        }

    def group(self, mask: Tensor, name: str) -> dict[str, int]:
        """The counts of a group of views, under the model's name."""
        masks = {"correct": self.right, "sure": self.sure, "sure_correct": self.sure & self.right}
        return {f"n_{name}_{key}": int((mask & own).sum()) for key, own in masks.items()}


def _both(views: CheckedViews, local: _Predicted, global_: _Predicted) -> dict[str, Any]:
    added = global_.sure & ~local.sure
    differ = local.label != global_.label
    disputed = differ & local.sure
    weight = views.noted.weight
    return {
        "agreement": _mean(~differ),
        "gap": _mean((local.confidence - global_.confidence).abs()),
        "n_union": int((local.sure | global_.sure).sum()),
        "n_added": int(added.sum()),
        "n_added_correct": int((added & global_.right).sum()),
        "n_disputed": int(disputed.sum()),
        "n_disputed_local_right": int((disputed & local.right).sum()),
        "n_disputed_global_right": int((disputed & global_.right).sum()),
        "disputed_true_mass": _mean(_true_mass(views), disputed),
        "n_disputed_for_global": int((disputed & (weight < 0.5)).sum()),
        "lambda": _mean(weight),
        "lambda_sure": _mean(weight, local.sure),
        "lambda_disputed": _mean(weight, disputed),
    }


def _group(views: CheckedViews, mask: Tensor, local: _Predicted, global_: _Predicted | None) -> dict[str, Any]:
    report = {"n": int(mask.sum()), **local.group(mask, "local"), **_target_report(views, mask)}
    if global_ is None:
        return report
    weight = views.noted.weight
    return {
        **report,
        **global_.group(mask, "global"),
        "n_agreeing": int((mask & (local.label == global_.label)).sum()),
        "lambda": _mean(weight, mask),
        "lambda_sure": _mean(weight, mask & local.sure),
    }


def _target_report(views: CheckedViews, mask: Tensor) -> dict[str, Any]:
    counted = mask & views.noted.used
    return {
        "n_used": int(counted.sum()),
        "n_used_correct": int((counted & (views.noted.target.argmax(dim=1) == views.true)).sum()),
        "true_mass": _mean(_true_mass(views), counted),
    }


def _true_mass(views: CheckedViews) -> Tensor:
    """The target at the true class."""
    return views.noted.target.gather(1, views.true[:, None]).squeeze(1)


def _mean(values: Tensor, mask: Tensor | None = None) -> float | None:
    chosen = values if mask is None else values[mask]
    return float(chosen.double().mean()) if len(chosen) else None


def ensemble_statistics(
    merged: Float[Tensor, "n c"], local: Sequence[Float[Tensor, "n c"]], threshold: float
) -> dict[str, Any]:
    """Is the new global model the mean of the local ones, and is it sure only where they agree (SAGE Eq. 17)?

    Scores are those of a few fixed test images; ``sage_row.toml`` says what the values of the group ``"ensemble"`` are.
    Lists run over the number of local models that agree with the new global model's class, 0 to M.
    """
    p = merged.double().softmax(dim=1)
    each = torch.stack([scores.double().softmax(dim=1) for scores in local])
    mean = each.mean(dim=0)
    label, confidence = p.argmax(dim=1), p.amax(dim=1)
    agreeing = (each.argmax(dim=2) == label).sum(dim=0)
    levels = len(local) + 1
    counts = torch.bincount(agreeing, minlength=levels)
    total = torch.zeros(levels, dtype=torch.float64, device=p.device).index_add_(0, agreeing, confidence)
    means = (total / counts.clamp(min=1)).tolist()
    return {
        "n_images": len(p),
        "distance_to_mean": float(_distance(p, mean).mean()),
        "distance_to_single": float(torch.stack([_distance(p, one) for one in each]).mean()),
        "agreement_with_mean": float((mean.argmax(dim=1) == label).double().mean()),
        "agreement_with_single": float((each.argmax(dim=2) == label).double().mean()),
        "agreeing_counts": counts.tolist(),
        "agreeing_confidence": [value if n else None for value, n in zip(means, counts.tolist(), strict=True)],
        "agreeing_sure": torch.bincount(agreeing[confidence >= threshold], minlength=levels).tolist(),
        "rank_correlation": rank_correlation(agreeing, confidence),
    }


def rank_correlation(a: Tensor, b: Tensor) -> float | None:
    """Spearman's coefficient of two lists, ties sharing their mean rank; None when one is constant."""
    x, y = (ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b)))
    norm = float(x.norm() * y.norm())
    return min(max(float(x @ y) / norm, -1.0), 1.0) if norm else None


def _ranks(values: Tensor) -> Tensor:
    _, place, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(dim=0)
    return (last - (counts - 1) / 2.0).double()[place]


def _distance(p: Tensor, q: Tensor) -> Tensor:
    """Total variation of each row, between 0 and 1."""
    return 0.5 * (p - q).abs().sum(dim=1)
