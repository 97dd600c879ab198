"""Step 2: which images a client trusts enough to estimate its class distribution from."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import folded, table
from fedcopl_lab.steps._confidence import check_logits, class_counts, entropy, log_odds, quantile


@dataclass(frozen=True, repr=False)
class FilteredSet:
    """The images of one client that are both confident and low in entropy.

    Attributes:
        kept: which images passed, [n].
        labels: the predicted class of every image, kept or not, [n].
        counts: kept images per predicted class, u_k in Eq. 3, [C].
        confidence_threshold: τ1 as a probability; kept images lie above it. None when the filter is off.
        entropy_threshold: τ2 in nats; kept images lie below it. None when the filter is off.
        confident: which images passed the confidence threshold alone, all where the filter is off, [n].
        certain: which images passed the entropy threshold alone, all where the filter is off, [n].
        fallback: nothing passed both thresholds, and the most confident share was kept instead.
    """

    kept: Bool[Tensor, "n"]
    labels: Int[Tensor, "n"]
    counts: Int[Tensor, "c"]
    confidence_threshold: float | None
    entropy_threshold: float | None
    confident: Bool[Tensor, "n"]
    certain: Bool[Tensor, "n"]
    fallback: bool = False

    def __repr__(self) -> str:
        return f"FilteredSet({int(self.kept.sum())} of {len(self.kept)} images kept)"

    def _repr_html_(self) -> str:
        limits = [("τ1, confidence above", self.confidence_threshold), ("τ2, nats below", self.entropy_threshold)]
        rows = [["images", len(self.kept)], ["confident", int(self.confident.sum())]]
        rows += [["low in entropy", int(self.certain.sum())], ["kept", int(self.kept.sum())]]
        rows += [[name, "off" if limit is None else limit] for name, limit in limits]
        rows += [["fallback", "yes, nothing passed both"]] if self.fallback else []
        counts = table(list(enumerate(self.counts.tolist())), ["class", "kept"])
        return table(rows, caption="FilteredSet") + folded("kept images per class", counts)


def filter_confident(
    logits: Float[Tensor, "n c"],
    q_conf: float | None = 0.5,
    q_ent: float | None = 0.5,
    thresholds: tuple[float, float] | None = None,
) -> FilteredSet:
    """Keep the images of one client that are confident and low in entropy (Eq. 2, Sec. 3.3).

    τ1 is the ``q_conf`` quantile of the confidences, τ2 the ``1 - q_ent`` quantile of the entropies: larger
    levels are stricter for both. Comparisons are strict. Confidences are compared as log-odds in float64,
    because at CLIP's logit scale many probabilities round to exactly 1. If no image passes, the most
    confident (1 - q_conf) share is kept (at least one image) and ``fallback`` says so.

    Args:
        logits: scores of the client's images, [n, C].
        q_conf: quantile level of the confidence threshold in [0, 1]; None switches the filter off.
        q_ent: level of the entropy threshold in [0, 1]; None switches the filter off.
        thresholds: (probability, entropy in nats) to use instead of the client's own quantiles.

    Raises:
        FedCoPLError: levels or thresholds out of range, no image, or logits that are not finite.

    >>> kept = lab.filter_confident(torch.tensor([[9.0, 0], [1, 0], [0, 5]]), q_conf=0.5, q_ent=None)
    >>> kept.counts.tolist()
    [1, 0]

    Shown in notebook ``00_quickstart``.
    """
    check_logits(logits)
    if not len(logits):
        raise FedCoPLError("filter_confident got 0 images; expected at least one per client")
    odds, spread = log_odds(logits), entropy(logits)
    odds_limit, entropy_limit = _limits(odds, spread, q_conf, q_ent, thresholds)
    everything = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
    confident = everything if odds_limit is None else odds > odds_limit
    certain = everything if entropy_limit is None else spread < entropy_limit
    kept = confident & certain
    fallback = not bool(kept.any())
    if fallback:
        wanted = (1 - (0.5 if q_conf is None else q_conf)) * len(logits)
        share = max(1, math.ceil(round(wanted, 9)))  # (1 - 0.7) * 10 is a little more than 3
        kept[odds.argsort(descending=True, stable=True)[:share]] = True
    labels = logits.argmax(dim=1)
    return FilteredSet(
        kept=kept,
        labels=labels,
        counts=class_counts(labels[kept], logits.shape[1]),
        confidence_threshold=None if odds_limit is None else _sigmoid(odds_limit),
        entropy_threshold=entropy_limit,
        confident=confident,
        certain=certain,
        fallback=fallback,
    )


def _limits(
    odds: Tensor, spread: Tensor, q_conf: float | None, q_ent: float | None, thresholds: tuple[float, float] | None
) -> tuple[float | None, float | None]:
    if thresholds is not None:
        confidence, nats = thresholds
        if not 0 <= confidence <= 1 or not nats >= 0:
            raise FedCoPLError(f"thresholds={thresholds} are not (probability in [0, 1], entropy of 0 nats or more)")
        return float(torch.tensor(confidence, dtype=torch.float64).logit()), float(nats)
    for name, level in (("q_conf", q_conf), ("q_ent", q_ent)):
        if level is not None and not 0 <= level <= 1:
            raise FedCoPLError(f"{name}={level} is outside [0, 1]; expected a quantile level such as 0.5, or None")
    odds_limit = None if q_conf is None else quantile(odds, q_conf)
    entropy_limit = None if q_ent is None else quantile(spread, 1 - q_ent)
    return odds_limit, entropy_limit


def _sigmoid(odds: float) -> float:
    return float(torch.tensor(odds, dtype=torch.float64).sigmoid())
