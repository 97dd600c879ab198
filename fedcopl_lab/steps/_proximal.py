"""What holds a client's parameters near the round's start."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor


def proximal_term(parameters: Iterable[Tensor], start: Iterable[Tensor]) -> Float[Tensor, ""]:
    """Half the squared distance of the parameters to the round's start (FedProx, Eq. 2), a scalar.

    FedProx and PromptProx add μ times it to the loss.

    >>> proximal_term([torch.ones(3)], [torch.zeros(3)])
    tensor(1.5000)
    """
    squares = [(now - before.detach()).square().sum() for now, before in zip(parameters, start, strict=True)]
    return 0.5 * torch.stack(squares).sum()
