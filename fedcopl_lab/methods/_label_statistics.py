"""What a round's pseudo-labels were worth, from the notes of its clients; hidden truth enters here and only here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from fedcopl_lab.methods._noted import Noted
from fedcopl_lab.steps import check_logits, entropy

BINS = 20
"""Bins of equal width over confidences from 0 to 1; 0.95, SAGE's threshold, is an edge."""


@dataclass(frozen=True, repr=False)
class JudgedViews:
    """The weak views of a round, all participants together, beside the truth.

    Attributes:
        noted: scores and labels.
        true: true class of each view's image, [n].
        minority: whether that class is rare on its client, [n].
    """

    noted: Noted
    true: Int[Tensor, "n"]
    minority: Bool[Tensor, "n"]

    @classmethod
    def of(cls, parts: Sequence["JudgedViews"]) -> "JudgedViews":
        """Several clients' views one after the other."""
        notes = [part.noted for part in parts]
        globals_ = [note.global_ for note in notes if note.global_ is not None]
        joined = Noted(
            places=torch.cat([note.places for note in notes]),
            local=torch.cat([note.local for note in notes]),
            global_=torch.cat(globals_) if len(globals_) == len(notes) else None,
            target=torch.cat([note.target for note in notes]),
            weight=torch.cat([note.weight for note in notes]),
            used=torch.cat([note.used for note in notes]),
        )
        return cls(joined, torch.cat([part.true for part in parts]), torch.cat([part.minority for part in parts]))

    def __repr__(self) -> str:
        return f"JudgedViews({len(self.true)} weak views)"


def rare_classes(counts: Int[Tensor, "c"]) -> Bool[Tensor, "c"]:
    """Classes with less than half of the client's mean class count: its minority classes."""
    return counts < 0.5 * counts.double().mean()


def label_statistics(views: JudgedViews, threshold: float) -> dict[str, Any]:
    """Confidences, masks, accuracies, lambda and agreement of a round; the keys are in ``ROW_KEYS``."""
    noted, true = views.noted, views.true
    local = _Judged.of(noted.local, true, threshold)
    groups = {"majority": ~views.minority, "minority": views.minority}
    report: dict[str, Any] = {
        "n_views": len(noted),
        "local": local.report(),
        "target": _target_report(views, torch.ones_like(views.minority)),
    }
    if noted.global_ is None:
        report["groups"] = {name: _group(views, mask, local, None) for name, mask in groups.items()}
        return report
    global_ = _Judged.of(noted.global_, true, threshold)
    report["global"] = global_.report()
    report["both"] = _both(views, local, global_)
    report["groups"] = {name: _group(views, mask, local, global_) for name, mask in groups.items()}
    return report


@dataclass(frozen=True, repr=False)
class _Judged:
    """One model's opinions."""

    label: Tensor
    confidence: Tensor
    sure: Tensor
    right: Tensor
    entropy: Tensor

    @classmethod
    def of(cls, logits: Tensor, true: Tensor, threshold: float) -> "_Judged":
        check_logits(logits)
        p = logits.float().softmax(dim=1)
        label, confidence = p.argmax(dim=1), p.amax(dim=1)
        return cls(label, confidence.double(), confidence >= threshold, label == true, entropy(logits))

    def report(self) -> dict[str, Any]:
        place = (self.confidence * BINS).long().clamp(max=BINS - 1)
        counts = torch.bincount(place, minlength=BINS)
        share = counts.double() / max(len(place), 1)
        return {
            "counts": counts.tolist(),
            "correct": torch.bincount(place[self.right], minlength=BINS).tolist(),
            "confidence": _mean(self.confidence),
            "accuracy": _mean(self.right),
            "entropy": _mean(self.entropy),
            "histogram_entropy": float(-torch.xlogy(share, share).sum()),
            "calibration_error": self._calibration_error(place),
            "n_sure": int(self.sure.sum()),
            "n_sure_correct": int((self.sure & self.right).sum()),
        }

    def _calibration_error(self, place: Tensor) -> float | None:
        if not len(place):
            return None
        gaps = torch.zeros(BINS, dtype=torch.float64, device=place.device)
        gaps.index_add_(0, place, self.confidence - self.right.double())
        return float(gaps.abs().sum() / len(place))


def _both(views: JudgedViews, local: _Judged, global_: _Judged) -> dict[str, Any]:
    added = global_.sure & ~local.sure
    differ = local.label != global_.label
    disputed = differ & local.sure
    target = views.noted.target.gather(1, views.true[:, None]).squeeze(1)
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
        "disputed_true_mass": _mean(target, disputed),
        "n_disputed_for_global": int((disputed & (weight < 0.5)).sum()),
        "lambda": _mean(weight),
        "lambda_sure": _mean(weight, local.sure),
        "lambda_disputed": _mean(weight, disputed),
    }


def _group(views: JudgedViews, mask: Tensor, local: _Judged, global_: _Judged | None) -> dict[str, Any]:
    report = {
        "n": int(mask.sum()),
        "n_local_correct": int((mask & local.right).sum()),
        "n_local_sure": int((mask & local.sure).sum()),
        "n_local_sure_correct": int((mask & local.sure & local.right).sum()),
        **_target_report(views, mask),
    }
    if global_ is None:
        return report
    weight = views.noted.weight
    return report | {
        "n_global_correct": int((mask & global_.right).sum()),
        "n_global_sure": int((mask & global_.sure).sum()),
        "n_global_sure_correct": int((mask & global_.sure & global_.right).sum()),
        "n_agreeing": int((mask & (local.label == global_.label)).sum()),
        "lambda": _mean(weight, mask),
        "lambda_sure": _mean(weight, mask & local.sure),
    }


def _target_report(views: JudgedViews, mask: Tensor) -> dict[str, Any]:
    noted = views.noted
    counted = mask & noted.used
    mass = noted.target.gather(1, views.true[:, None]).squeeze(1)
    return {
        "n_used": int(counted.sum()),
        "n_used_correct": int((counted & (noted.target.argmax(dim=1) == views.true)).sum()),
        "true_mass": _mean(mass, counted),
    }


def _mean(values: Tensor, mask: Tensor | None = None) -> float | None:
    chosen = values if mask is None else values[mask]
    return float(chosen.double().mean()) if len(chosen) else None
