"""What a round's pseudo-labels and its merged model were worth; true labels of the pool are read for this alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab.methods._sage_view_labels import ViewLabels
from fedcopl_lab.steps import check_logits, entropy

BINS = 20
"""Bins of equal width over confidences from 0 to 1; 0.95, SAGE's threshold, is an edge."""


@dataclass(frozen=True, repr=False)
class CheckedViews:
    """The weak views of a round, all participants together, beside the truth.

    Attributes:
        noted: scores and labels.
        true: true class of each view's image, [n].
        minority: whether that class is rare on its client, [n].
    """

    noted: ViewLabels
    true: Int[Tensor, "n"]
    minority: Bool[Tensor, "n"]

    @classmethod
    def of(cls, parts: Sequence["CheckedViews"]) -> "CheckedViews":
        """Several clients' views one after the other."""
        notes = [part.noted for part in parts]
        joined = {
            name: torch.cat([getattr(note, name) for note in notes])
            for name in ("places", "local", "target", "weight", "used")
        }
        globals_ = [note.global_ for note in notes if note.global_ is not None]
        noted = ViewLabels(**joined, global_=torch.cat(globals_) if len(globals_) == len(notes) else None)
        return cls(noted, torch.cat([part.true for part in parts]), torch.cat([part.minority for part in parts]))

    def __repr__(self) -> str:
        return f"CheckedViews({len(self.true)} weak views)"


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
        check_logits(logits)
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
    """Is the merged model the mean of the local ones, and is it sure only where they agree (SAGE Eq. 17)?

    Scores are those of a few fixed test images; ``sage_row.toml`` says what the values of the group ``"ensemble"`` are.
    Lists run over the number of local models that agree with the merged model's class, 0 to M.
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
