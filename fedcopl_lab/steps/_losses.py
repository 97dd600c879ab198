"""The parts of a local loss."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def label_loss(
    logits: Float[Tensor, "b c"], labels: Int[Tensor, "b"], candidates: Bool[Tensor, "b c"] | None = None
) -> Float[Tensor, ""]:
    """Mean cross-entropy (Eq. 5), or with candidate sets the mean of -log Σ softmax over them (CPL's "cc").

    Args:
        logits: scores of the batch, [B, C].
        labels: pseudo-label of each image, [B].
        candidates: candidate classes of each image, at least one, [B, C]; None for hard labels.

    Returns:
        The mean over the batch, in nats.

    >>> round(float(label_loss(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([[True, True, False, False]]))), 4)
    0.6931
    """
    if candidates is None:
        return F.cross_entropy(logits, labels)
    inside = logits.masked_fill(~candidates, -torch.inf).logsumexp(dim=1)
    return (logits.logsumexp(dim=1) - inside).mean()
