"""The merged model beside the local models it was made of, on a few fixed test images (SAGE Eq. 17)."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def ensemble_statistics(
    merged: Float[Tensor, "n c"], local: Sequence[Float[Tensor, "n c"]], threshold: float
) -> dict[str, Any]:
    """Is the merged model the mean of the local ones, and is it sure only where they agree?

    Args:
        merged: scores of the merged model, [n, C].
        local: scores of each local model before merging, M of [n, C].
        threshold: tau, from which a confidence counts as sure.

    Returns:
        The group ``"ensemble"`` of a row; ``ROW_KEYS`` says what the values are. Lists run over the number
        of local models that agree with the merged model's class, 0 to M.

    >>> ensemble_statistics(merged, [merged, merged], 0.95)["distance_to_mean"]
    0.0
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
    }  # fmt: skip


def rank_correlation(a: Tensor, b: Tensor) -> float | None:
    """Spearman's coefficient of two lists, ties sharing their mean rank; None when one is constant.

    >>> rank_correlation(torch.tensor([1, 2, 3]), torch.tensor([2, 4, 9]))
    1.0
    """
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
