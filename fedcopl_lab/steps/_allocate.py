"""Step 3, on the server: every class gets the same budget, split by the clients' counts, which may come noisy."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab._html import folded, table

AllocationMode = Literal["paper", "authors", "none"]
UnseenClass = Literal["zero", "authors_quota"]
CountNoise = Literal["none", "laplace", "gaussian", "half", "uniform", "shuffled"]

DELTA = 1e-5
"""δ of the Gaussian mechanism."""


@dataclass(frozen=True, repr=False)
class Allocation:
    """How many images of each class every client shall train on.

    Attributes:
        quota: ũ in Eq. 3, [K, C].
        per_class: M, the budget that every class has over all clients; None where each client keeps its own.
    """

    quota: Int[Tensor, "k c"]
    per_class: float | None

    def __repr__(self) -> str:
        budget = "own counts" if self.per_class is None else f"M = {self.per_class:g} per class"
        return f"Allocation({self.quota.shape[0]} clients × {self.quota.shape[1]} classes, {budget})"

    def _repr_html_(self) -> str:
        n_clients, n_classes = self.quota.shape
        rows = [["clients", n_clients], ["classes", n_classes], ["images wanted", int(self.quota.sum())]]
        rows.append(["M, per class", "own counts" if self.per_class is None else self.per_class])
        names = ["class", *(f"client {k}" for k in range(n_clients))]
        quota = table([[c, *own] for c, own in enumerate(self.quota.T.tolist())], names)
        return table(rows, caption="Allocation") + folded("quota of every class and client", quota)


def allocate(
    counts: Int[Tensor, "k c"],
    mode: AllocationMode = "paper",
    n_train: int | None = None,
    phase: int = 0,
    unseen: UnseenClass | None = None,
) -> Allocation:
    """Give every class the same budget M and split it in proportion to the clients' counts (Eq. 3, Sec. 3.3).

    With U the column sums of ``counts``: M = Σ U / C and ũ = ⌈u / U · M⌉.

    Args:
        counts: filtered images per client and class, [K, C].
        mode: ``"paper"`` in exact arithmetic; ``"authors"`` as the released code, M rounded up first and the
            product in float32, which is one higher in about 0.1 % of the cells; ``"none"`` quota = counts.
        n_train: training images of all clients; needed for the fallback quota of the authors.
        phase: index t of the label phase, for the same.
        unseen: what a class gets that no client kept: ``"zero"`` (the paper's formula is 0/0 there), or
            ``"authors_quota"``, ⌈n_train / (4 C) · (t + 1) / K⌉ on every client. None: zero in paper mode.

    Raises:
        FedCoPLError: counts that are negative or no whole numbers, no count at all, or a missing ``n_train``.

    >>> lab.allocate(torch.tensor([[3, 20], [2, 25]])).quota.tolist()
    [[15, 12], [10, 14]]

    Shown in notebook ``00_quickstart``.
    """
    _check_counts(counts)
    check_choice("mode", mode, get_args(AllocationMode))
    check_choice("unseen", unseen, (*get_args(UnseenClass), None))
    if mode == "none":
        return Allocation(quota=counts.clone().long(), per_class=None)
    n_clients, n_classes = counts.shape
    wide = counts.long()
    seen, total = wide.sum(dim=0), int(wide.sum())
    if mode == "paper":
        budget = total / n_classes
        quota = -(-(wide * total) // (seen.clamp(min=1) * n_classes))
    else:
        budget = float(-(-total // n_classes))
        quota = (wide.float() / seen.clamp(min=1).float() * budget).ceil().long()
    if unseen is None:
        unseen = "zero" if mode == "paper" else "authors_quota"
    if unseen == "authors_quota" and bool((seen == 0).any()):
        if n_train is None or n_train < 0:
            raise FedCoPLError(f"n_train={n_train}, of which a class that no client kept takes a part; pass 0 or more")
        share = (n_train * (phase + 1)) / (4 * n_classes * n_clients)
        quota[:, seen == 0] = int(-(-share // 1))
    return Allocation(quota=quota, per_class=budget)


def _check_counts(counts: Tensor) -> None:
    if counts.ndim != 2 or 0 in counts.shape:
        raise FedCoPLError(f"counts have shape {tuple(counts.shape)}; expected [n_clients, n_classes]")
    _check_whole(counts)
    if bool((counts < 0).any()):
        raise FedCoPLError(f"counts hold {int(counts.min())}; expected numbers of images, 0 or more")
    if not bool(counts.any()):
        raise FedCoPLError("counts are all 0; expected at least one kept image: lower q_conf or q_ent, raise epsilon")


def _check_whole(counts: Tensor) -> None:
    if counts.is_floating_point() or counts.dtype == torch.bool:
        raise FedCoPLError(f"counts are {counts.dtype}; expected whole numbers of images")


def perturb_counts(
    counts: Int[Tensor, "k c"], kind: CountNoise, generator: torch.Generator, epsilon: float | None = None
) -> Int[Tensor, "k c"]:
    """The counts as the server receives them, 0 or more: exact, noisy or wrong on purpose (beyond the paper).

    With fixed thresholds one image changes one of its client's counts by 1: sensitivity 1, both as a sum and as a
    length. With FedCoPL's own thresholds, the client's medians, one image can change several counts, so that ε names
    the noise and guarantees nothing. Noise is added once per client and label phase; over T label phases the budgets
    add up to T ε. Results are rounded, and negative ones set to 0, which costs no privacy.

    Args:
        counts: filtered images per client and class, [K, C].
        kind: ``"none"``; ``"laplace"``, noise of scale 1 / ε for ε-privacy; ``"gaussian"``, noise of
            deviation √(2 ln(1.25 / δ)) / ε for (ε, 10⁻⁵)-privacy, proven for ε < 1; ``"half"``, every count
            times its own factor from [0.5, 1.5]; ``"uniform"``, every count the mean of all; ``"shuffled"``,
            the counts of all clients in another, drawn order.
        generator: draws the noise.
        epsilon: privacy budget of a label phase, for the two that have one.

    Raises:
        FedCoPLError: another kind, counts that are no whole numbers, or a missing or non-positive ε.

    >>> perturb_counts(torch.tensor([[4, 0]]), "uniform", torch.Generator()).tolist()
    [[2, 2]]

    Shown in notebook ``fedcopl_ours_uploads``.
    """
    check_choice("kind", kind, get_args(CountNoise))
    _check_whole(counts)
    counts = counts.long()
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
