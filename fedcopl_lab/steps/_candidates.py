"""Candidate sets: the classes that an image may belong to, for labels that admit doubt."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.steps._confidence import check_logits, quantile


def candidate_sets(logits: Float[Tensor, "n c"], alpha: float, beta: float) -> Bool[Tensor, "n c"]:
    """The candidate classes of every image, within the image and between images (CPL, ICML 2024).

    Within an image: its most probable classes until their sum first exceeds the ``alpha`` quantile of all
    images' top probabilities. Between images: the classes whose probability reaches the ``beta`` quantile
    of that class's probabilities. A candidate passes both; an image may be left without one. Under label
    skew the second gives every class the share (1 - beta) of a client's images, present or not.

    The first is computed on the mass that is still missing, which does not round to 0 where the top
    probability rounds to 1.

    Args:
        logits: scores of the images, [n, C].
        alpha: quantile level within images, in [0, 1].
        beta: quantile level between images, in [0, 1].

    Returns:
        Which classes are candidates, [n, C].

    Raises:
        FedCoPLError: no image, a level outside [0, 1], or logits that are not finite.

    >>> candidate_sets(torch.tensor([[4.0, 0], [0, 0.1]]), alpha=0.5, beta=0.0).tolist()
    [[True, False], [True, True]]

    Shown in notebook ``fedcopl_main_table1``.
    """
    check_logits(logits)
    if not len(logits):
        raise FedCoPLError("candidate_sets got 0 images; expected at least one per client")
    for name, level in (("alpha", alpha), ("beta", beta)):
        if not 0 <= level <= 1:
            raise FedCoPLError(f"{name}={level} is outside [0, 1]; expected a quantile level such as 0.75")
    p = logits.double().softmax(dim=1)
    order = p.argsort(dim=1, descending=True, stable=True)
    ranked = p.gather(1, order)
    from_here_on = ranked.flip(1).cumsum(dim=1).flip(1)  # mass of a class and of all less probable ones
    missing = from_here_on[:, 1] if p.shape[1] > 1 else torch.zeros_like(p[:, 0])
    limit = quantile(missing, 1 - alpha)
    within = (from_here_on >= limit) & (from_here_on > 0)
    within[:, 0] = True
    within = torch.zeros_like(within).scatter(1, order, within)
    between = torch.stack([column >= quantile(column, beta) for column in p.T], dim=1)
    return within & between
