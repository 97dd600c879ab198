"""How far the clients' updates of one round lie apart."""

import torch
from jaxtyping import Float
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError


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
    :func:`drift_diversity`; NaN when one is 0.

    Raises:
        FedCoPLError: fewer than two clients.

    >>> lab.cosine_distance(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    1.0

    Shown in notebook ``fedcopl_main_fig2``.
    """
    flat = _flatten(updates, 2)
    unit = flat / flat.norm(dim=1, keepdim=True)
    first, second = torch.triu_indices(len(flat), len(flat), offset=1)
    return float((1 - (unit[first] * unit[second]).sum(dim=1)).mean())


def _flatten(updates: Tensor, at_least: int) -> Tensor:
    if updates.ndim < 1 or len(updates) < at_least:
        raise FedCoPLError(f"updates have shape {tuple(updates.shape)}; expected [n_clients, …] with >= {at_least}")
    return updates.reshape(len(updates), -1).double()
