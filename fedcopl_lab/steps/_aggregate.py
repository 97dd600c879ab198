"""Step 6, on the server: the weighted mean of what the clients send, and how far their updates lie apart."""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Real
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError


def aggregate(stacked: Float[Tensor, "k *shape"], weights: Real[Tensor, "k"]) -> Float[Tensor, "*shape"]:
    """Average the clients' prompts, weighted by their numbers of pseudo-labelled images (Eq. 4, Sec. 3.4).

    Args:
        stacked: one tensor per client, [K, …].
        weights: weight of each client, 0 or more, [K]; they need not sum to 1.

    Returns:
        The weighted mean, […], in the dtype of ``stacked``; sums are taken in float64, in client order.

    Raises:
        FedCoPLError: weights of another length, negative, not finite or all 0.

    >>> lab.aggregate(torch.tensor([[1.0], [4.0]]), torch.tensor([2, 1]))
    tensor([2.])

    Shown in notebook ``fedcopl_main_table6``.
    """
    if weights.shape != (len(stacked),):
        raise FedCoPLError(
            f"weights have shape {tuple(weights.shape)}; expected one for each of {len(stacked)} clients"
        )
    share = weights.double()  # checked where the weights are: mostly counts in memory
    if not bool(torch.isfinite(share).all()) or bool((share < 0).any()) or not bool(share.any()):
        raise FedCoPLError(f"weights={weights.tolist()} cannot average; expected finite numbers >= 0, not all 0")
    share = (share / share.sum()).to(stacked.device).view(-1, *[1] * (stacked.ndim - 1))
    return (share * stacked.double()).sum(dim=0).to(stacked.dtype)


def average_models(states: Sequence[Mapping[str, Tensor]], weights: Real[Tensor, "k"]) -> dict[str, Tensor]:
    """Average the clients' state dicts, running statistics of batch normalisation included (SAGE Alg. 1, line 8).

    Weights are those of :func:`aggregate`; whole numbers such as batch counters are averaged and truncated.

    Raises:
        FedCoPLError: no client, states with different names, or weights that cannot average.

    >>> average_models([{"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}], torch.tensor([1, 1]))
    {'w': tensor([2.])}

    Shown in notebook ``sage_step_by_step``.
    """
    if not states:
        raise FedCoPLError("average_models got 0 models; expected at least one")
    if any(state.keys() != states[0].keys() for state in states):
        raise FedCoPLError("the clients' models have different parameters; expected one architecture for all")
    mean = {}
    for name in states[0]:
        stacked = torch.stack([state[name] for state in states])
        wide = stacked if stacked.is_floating_point() else stacked.double()
        mean[name] = aggregate(wide, weights).to(stacked.dtype)
    return mean


def drift_diversity(updates: Float[Tensor, "k *shape"]) -> float:
    """ξ = Σ‖m_k‖² / ‖Σ m_k‖², the spread in size of the clients' updates (supplement Eq. 1).

    1/K when all updates are equal, 1 when they are orthogonal, more when they cancel; inf when they sum to 0
    without being 0, NaN when all are 0.

    Args:
        updates: prompt after minus prompt before the round, one per client, [K, …]. For a prompt that the
            server does not average, "before" is the client's own; say so where you show it.

    Raises:
        FedCoPLError: no client.

    >>> lab.drift_diversity(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    1.0

    Shown in notebook ``fedcopl_main_fig2``.
    """
    flat = _flatten(updates, 1)
    return float(flat.square().sum() / flat.sum(dim=0).square().sum())


def cosine_distance(updates: Float[Tensor, "k *shape"]) -> float:
    """Mean over pairs of clients of 1 - cos(m_i, m_j), the spread in direction of their updates, in [0, 2].

    The paper shows a "cosine distance" without defining it (Fig. 2); this is our reading. ``updates`` are those of
    :func:`drift_diversity`; NaN when one is 0 or has no numbers.

    Raises:
        FedCoPLError: fewer than two clients.

    >>> lab.cosine_distance(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    1.0

    Shown in notebook ``fedcopl_main_fig2``.
    """
    flat = _flatten(updates, 2)
    if not flat.shape[1]:
        return math.nan
    unit = flat / flat.norm(dim=1, keepdim=True)
    first, second = torch.triu_indices(len(flat), len(flat), offset=1)
    return float((1 - (unit[first] * unit[second]).sum(dim=1)).mean())


def _flatten(updates: Tensor, at_least: int) -> Tensor:
    if updates.ndim < 1 or len(updates) < at_least:
        raise FedCoPLError(f"updates have shape {tuple(updates.shape)}; expected [n_clients, …] with >= {at_least}")
    return updates.reshape(len(updates), -1).double()
