"""What strong views are trained towards: the unsupervised loss, and FedProx's pull to the round's start."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

_REVERSE_EPSILON = 1e-10  # a one-hot target would make the reverse divergence infinite


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

    Returns:
        The loss, a scalar.

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
