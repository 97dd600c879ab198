"""Unbalanced optimal transport between the patches of an image and the text prompts of a class."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError

SINGLE_FROM = 0.05
"""Least ε in single precision: costs lie in [0, 2], so that K and its scalings stay within exp(±2 · 2 / ε)."""

LEAST_EPSILON = 0.006
"""Least ε at all: the same bound for double precision."""

_BETWEEN_CHECKS = 10


@torch.no_grad()
def transport_plan(
    similarity: Float[Tensor, "*b m n"],
    mass: float = 0.8,
    epsilon: float = 0.1,
    threshold: float = 1e-3,
    iterations: int = 100,
) -> Float[Tensor, "*b m n"]:
    """How much of each patch goes to each prompt, at the cost 1 - similarity, […, M, N] (FedOTP, CVPR 2024).

    Every prompt receives exactly ``mass`` / N, every patch gives at most 1 / M (exactly that with ``mass``
    1, which is Sinkhorn's problem). T = diag(u) K diag(v) with K = exp(-(1 - S) / ε), found by scaling rows
    and columns in turn. K is scaled so that each column's largest entry is 1, which leaves the plan as it
    is; below :data:`SINGLE_FROM` single precision could lose entries of K, and double precision is used.
    Each image and class stops on its own, so that its plan does not depend on the batch it is in.

    Args:
        similarity: S, cosine similarities of M patches and N prompts, […, M, N].
        mass: γ, the share of the mass that is moved, in (0, 1].
        epsilon: strength of the entropic regularisation, at least :data:`LEAST_EPSILON`.
        threshold: a problem stops when its v changes by less than this share of its size in an iteration,
            checked every 10th.
        iterations: at most so many.

    Raises:
        FedCoPLError: a mass outside (0, 1], a regularisation that double precision cannot hold, no iteration, or
            similarities that are not finite (on a GPU the loss tells, so that no step waits).

    >>> transport_plan(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), mass=1.0).round(decimals=2)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])

    Shown in notebook ``fedcopl_main_table1``.
    """
    if not 0 < mass <= 1:
        raise FedCoPLError(f"mass={mass} cannot be moved; expected a share in (0, 1]")
    if not epsilon >= LEAST_EPSILON:
        raise FedCoPLError(f"epsilon={epsilon} is below what numbers can hold; expected {LEAST_EPSILON} or more")
    if iterations < 1:
        raise FedCoPLError(f"iterations={iterations} plan nothing; expected 1 or more")
    if similarity.device.type == "cpu" and not bool(torch.isfinite(similarity).all()):
        raise FedCoPLError("similarities are NaN or infinite; expected finite numbers: lower the learning rate")
    m, n = similarity.shape[-2:]
    affinity = (similarity - similarity.amax(dim=-2, keepdim=True)) / epsilon
    dtype = torch.float64 if epsilon < SINGLE_FROM else affinity.dtype
    kernel = affinity.to(dtype).exp().reshape(-1, m, n)
    most = 1.0 if mass < 1 else math.inf
    u, v = torch.ones_like(kernel[:, :, 0]), torch.ones_like(kernel[:, 0])
    moving = torch.arange(len(kernel), device=kernel.device)
    if kernel.device.type == "cuda":
        _scale_all(kernel, u, v, most, mass, threshold, iterations)
        iterations = 0
    for done in range(0, iterations, _BETWEEN_CHECKS):
        part, rows, columns, before = kernel[moving], u[moving], v[moving], v[moving]
        for _ in range(min(_BETWEEN_CHECKS, iterations - done)):
            rows = ((1 / m) / (part @ columns[:, :, None])).clamp(max=most)[:, :, 0]
            before, columns = columns, ((mass / n) / (rows[:, None] @ part))[:, 0]
        u[moving], v[moving] = rows, columns
        change = (columns - before).abs().mean(dim=1)
        moving = moving[change >= threshold * before.abs().mean(dim=1)]
        if not len(moving):
            break
    return (u[:, :, None] * kernel * v[:, None, :]).to(similarity.dtype).reshape(similarity.shape)


def _scale_all(
    kernel: Tensor, u: Tensor, v: Tensor, most: float, mass: float, threshold: float, iterations: int
) -> None:
    """The same scalings in place without asking a GPU which problems have stopped: those keep their u and v."""
    (m, n), moving = kernel.shape[1:], torch.ones_like(u[:, :1], dtype=torch.bool)
    for done in range(0, iterations, _BETWEEN_CHECKS):
        rows, columns, before = u, v, v
        for _ in range(min(_BETWEEN_CHECKS, iterations - done)):
            rows = ((1 / m) / (kernel @ columns[:, :, None])).clamp(max=most)[:, :, 0]
            before, columns = columns, ((mass / n) / (rows[:, None] @ kernel))[:, 0]
        change = (columns - before).abs().mean(dim=1, keepdim=True)
        still = moving & (change >= threshold * before.abs().mean(dim=1, keepdim=True))
        u.copy_(torch.where(moving, rows, u))
        v.copy_(torch.where(moving, columns, v))
        moving = still


def transport_logits(
    patches: Float[Tensor, "b m d"],
    texts: Float[Tensor, "n c d"],
    scale: Float[Tensor, ""],
    mass: float = 0.8,
    epsilon: float = 0.1,
    threshold: float = 1e-3,
    iterations: int = 100,
) -> Float[Tensor, "b c"]:
    """Logits of patches that are carried to several text prompts: scale · Σ T ∘ S (FedOTP, CVPR 2024), [B, C].

    The gradient goes through S and not through T. The last four arguments are those of :func:`transport_plan`.

    Args:
        patches: unit features of M patches per image, [B, M, d].
        texts: unit features of every class under N text prompts, [N, C, d].
        scale: the model's logit scale.

    >>> transport_logits(torch.eye(2)[None], torch.eye(2)[:, None], torch.tensor(100.0), mass=1.0).round()
    tensor([[100.]])

    Shown in notebook ``fedcopl_main_table1``.
    """
    similarity = torch.einsum("bmd,ncd->bcmn", patches, texts)
    plan = transport_plan(similarity.detach(), mass, epsilon, threshold, iterations)
    return scale * (plan * similarity).sum(dim=(2, 3))
