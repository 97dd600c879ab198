"""Confidence and entropy of logits, on a scale that does not saturate."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError

_PORTION = 2**16  # scores that are worked on at a time


def check_logits(logits: Tensor) -> None:
    """Refuse logits that are not a finite [n, C] matrix with at least one class.

    Raises:
        FedCoPLError: another shape, NaN or infinite logits.
    """
    if logits.ndim != 2 or logits.shape[1] < 1:
        raise FedCoPLError(f"logits have shape {tuple(logits.shape)}; expected [n_images, n_classes]")
    bad = int((~torch.isfinite(logits)).any(dim=1).sum())
    if bad:
        raise FedCoPLError(
            f"logits of {bad} of {len(logits)} images are NaN or infinite; expected finite numbers: "
            "look at the images and at the learning rate of what was trained"
        )


def log_odds(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
    """log(p / (1 - p)) of each image's most probable class in float64, [n, C] -> [n]; +inf with one class.

    Ranks images exactly as their confidence does, but still distinguishes them where a probability has
    rounded to 1 (in float32 once the logits differ by about 17).

    >>> log_odds(torch.tensor([[40.0, 0.0], [0.0, 60.0]])).tolist()
    [40.0, 60.0]
    """
    return _in_double(logits, _log_odds)


def class_log_odds(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """log(p / (1 - p)) of every class in float64: ranks like p without saturating at 1, [n, C].

    >>> class_log_odds(torch.tensor([[60.0, 0.0]])).tolist()
    [[60.0, -60.0]]
    """
    return _in_double(logits, _class_log_odds)


def entropy(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
    """Shannon entropy of softmax(logits) in nats, in float64, [n, C] -> [n].

    >>> entropy(torch.zeros(1, 2)).item() == math.log(2)
    True
    """
    return _in_double(logits, _entropy)


def _in_double(logits: Tensor, of_rows: Callable[[Tensor], Tensor]) -> Tensor:
    """What is computed row by row in float64; on a CPU in portions that its cache holds, with the same numbers."""
    size = max(_PORTION // logits.shape[1], 1) if logits.device.type == "cpu" else max(len(logits), 1)
    return torch.cat([of_rows(part.double()) for part in logits.split(size)])


def _log_odds(wide: Tensor) -> Tensor:
    top, best = wide.max(dim=1)
    return top - wide.scatter(1, best[:, None], -torch.inf).logsumexp(dim=1)


def _class_log_odds(wide: Tensor) -> Tensor:
    log_p = wide.log_softmax(dim=1)
    odds = log_p - torch.log1p(-log_p.exp().clamp(max=1 - 1e-12))
    return odds.scatter(1, wide.max(dim=1).indices[:, None], _log_odds(wide)[:, None])


def _entropy(wide: Tensor) -> Tensor:
    log_p = wide.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def class_counts(labels: Int[Tensor, "n"], n_classes: int) -> Int[Tensor, "c"]:
    """How many labels each class has, [n] -> [C].

    >>> class_counts(torch.tensor([0, 2, 2]), 3).tolist()
    [1, 0, 2]
    """
    return torch.bincount(labels, minlength=n_classes)


def quantile(values: Float[Tensor, "n"], level: float) -> float:
    """Linear interpolation between order statistics; torch.quantile refuses more than 16 million values."""
    ordered = values.sort().values
    place = level * (len(ordered) - 1)
    below = math.floor(place)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    return low if place == below or low == high else low + (place - below) * (high - low)
