"""The parts of a local loss."""

from collections.abc import Mapping

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


def proximal_term(
    prompts: Mapping[str, Tensor], start: Mapping[str, Tensor], mu: float, gradient: bool = True
) -> Float[Tensor, ""]:
    """(μ / 2) Σ ‖P - P_start‖² over all prompts, which holds them near the round's start (PromptProx).

    The public code takes P from a detached copy, so that its term changes the printed loss and no weight.

    Args:
        prompts: trained prompts by name.
        start: the same when the round began.
        mu: strength.
        gradient: False: as the public code.

    >>> proximal_term({"text": torch.ones(2)}, {"text": torch.zeros(2)}, mu=0.5)
    tensor(0.5000)
    """
    distances = [(prompts[part] - start[part]).square().sum() for part in prompts]
    term = mu / 2 * torch.stack(distances).sum()
    return term if gradient else term.detach()
