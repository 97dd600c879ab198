"""The parts of a local loss: labels, candidate sets, strong views, and FedProx's pull to the round's start."""

from collections.abc import Iterable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

_REVERSE_EPSILON = 1e-10  # a one-hot target would make the reverse divergence infinite


def label_loss(
    logits: Float[Tensor, "b c"], labels: Int[Tensor, "b"], candidates: Bool[Tensor, "b c"] | None = None
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats (Eq. 5), or with candidate sets the mean of -log Σ softmax over them (CPL's "cc").

    Args:
        logits: scores of the batch, [B, C].
        labels: pseudo-label of each image, [B].
        candidates: candidate classes of each image, at least one, [B, C]; None for hard labels.

    >>> label_loss(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([[True, True, False, False]]))
    tensor(0.6931)
    """
    if candidates is None:
        return F.cross_entropy(logits, labels)
    inside = logits.masked_fill(~candidates, -torch.inf).logsumexp(dim=1)
    return (logits.logsumexp(dim=1) - inside).mean()


def consistency_loss(
    strong_logits: Float[Tensor, "n c"],
    target: Float[Tensor, "n c"],
    used: Bool[Tensor, "n"],
    kl: Literal["forward", "reverse"] = "forward",
) -> Float[Tensor, ""]:
    """Mean divergence between targets and predictions on strong views (SAGE Sec. 4.4, supplement Alg. 1).

    Args:
        strong_logits: scores of strong views by the model in training, [n, C].
        target: distribution to train towards, [n, C].
        used: images that count; the others add 0 to the mean over all n.
        kl: ``"forward"``: KL(target || prediction), the cross-entropy for one-hot targets, as the released
            code. ``"reverse"``: KL(prediction || target), as Alg. 1 prints it, with 1e-10 added to the target.

    >>> consistency_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([True]))
    tensor(0.6931)

    Shown in notebook ``sage_step_by_step``.
    """
    log_p = F.log_softmax(strong_logits.float(), dim=1)
    if kl == "forward":
        divergence = (torch.xlogy(target, target) - target * log_p).sum(dim=1)
    else:
        divergence = (log_p.exp() * (log_p - (target + _REVERSE_EPSILON).log())).sum(dim=1)
    return (divergence * used).sum() / max(len(used), 1)


def proximal_term(parameters: Iterable[Tensor], start: Iterable[Tensor]) -> Float[Tensor, ""]:
    """Half the squared distance of the parameters to the round's start (FedProx, Eq. 2), a scalar.

    FedProx and PromptProx add μ times it to the loss.

    >>> proximal_term([torch.ones(3)], [torch.zeros(3)])
    tensor(1.5000)
    """
    squares = [(now - before.detach()).square().sum() for now, before in zip(parameters, start, strict=True)]
    return 0.5 * torch.stack(squares).sum()
