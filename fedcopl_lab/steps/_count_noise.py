"""What may happen to the class counts on their way to the server."""

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError

CountNoise = Literal["none", "laplace", "gaussian", "half", "uniform", "shuffled"]

DELTA = 1e-5
"""δ of the Gaussian mechanism."""


def perturb_counts(
    counts: Int[Tensor, "k c"], kind: CountNoise, generator: torch.Generator, epsilon: float | None = None
) -> Int[Tensor, "k c"]:
    """The counts as the server receives them, 0 or more: exact, noisy or wrong on purpose (beyond the paper).

    One image changes one of its client's counts by 1: sensitivity 1, both as a sum and as a length. Noise is
    added once per client and label phase; over T label phases the budgets add up to T ε. Results are
    rounded, and negative ones set to 0, which costs no privacy.

    Args:
        counts: filtered images per client and class, [K, C].
        kind: ``"none"``; ``"laplace"``, noise of scale 1 / ε for ε-privacy; ``"gaussian"``, noise of
            deviation √(2 ln(1.25 / δ)) / ε for (ε, 10⁻⁵)-privacy, proven for ε < 1; ``"half"``, every count
            times its own factor from [0.5, 1.5]; ``"uniform"``, every count the mean of all; ``"shuffled"``,
            every client sends another one's counts, drawn by a permutation.
        generator: draws the noise.
        epsilon: privacy budget of a label phase, for the two that have one.

    Raises:
        FedCoPLError: another kind, or a missing or non-positive ε.

    >>> perturb_counts(torch.tensor([[4, 0]]), "uniform", torch.Generator()).tolist()
    [[2, 2]]

    Shown in notebook ``fedcopl_ours_uploads``.
    """
    if kind not in get_args(CountNoise):
        raise FedCoPLError(f"kind={kind!r} is unknown; choose one of {', '.join(get_args(CountNoise))}")
    if kind == "none":
        return counts
    if kind == "uniform":
        return torch.full_like(counts, max(round(float(counts.double().mean())), 1))
    if kind == "shuffled":
        return counts[torch.randperm(len(counts), generator=generator)]
    if kind == "half":
        noisy = counts * (0.5 + torch.rand(counts.shape, generator=generator, dtype=torch.float64))
    else:
        if epsilon is None or not 0 < epsilon < math.inf:
            raise FedCoPLError(f"epsilon={epsilon} is no privacy budget; expected a positive number with {kind!r}")
        noise = _laplace if kind == "laplace" else _gaussian
        noisy = counts + noise(counts, generator) / epsilon
    return noisy.round().clamp(min=0).to(counts.dtype)


def _laplace(counts: Int[Tensor, "k c"], generator: torch.Generator) -> Float[Tensor, "k c"]:
    """Laplace noise of scale 1, by inversion of its distribution."""
    centred = torch.rand(counts.shape, generator=generator, dtype=torch.float64) - 0.5
    return -centred.sign() * torch.log1p(-2 * centred.abs().clamp(max=0.5 - 1e-16))


def _gaussian(counts: Int[Tensor, "k c"], generator: torch.Generator) -> Float[Tensor, "k c"]:
    deviation = math.sqrt(2 * math.log(1.25 / DELTA))
    return deviation * torch.randn(counts.shape, generator=generator, dtype=torch.float64)
