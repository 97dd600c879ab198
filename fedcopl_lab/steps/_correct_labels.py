"""SAGE's pseudo-labels: whose label an unlabelled image gets, and how far it is trusted."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import table
from fedcopl_lab.steps._confidence import check_logits


@dataclass(frozen=True, repr=False)
class CorrectedLabels:
    """Targets of unlabelled images.

    Attributes:
        target: a distribution over the classes for every image, [n, C]; means something where ``used``.
        weight: lambda(u), applied or not: the local label's share where its model is confident and CDSC is on, [n].
        used: which images have a pseudo-label, [n].

    Raises:
        FedCoPLError: other shapes, or a mask that is not True or False.
    """

    target: Float[Tensor, "n c"]
    weight: Float[Tensor, "n"]
    used: Bool[Tensor, "n"]

    def __post_init__(self) -> None:
        n = self.target.shape[:1]
        if self.target.ndim != 2 or self.weight.shape != n or self.used.shape != n or self.used.dtype != torch.bool:
            shapes = [tuple(one.shape) for one in (self.target, self.weight, self.used)]
            raise FedCoPLError(f"target, weight and used are {shapes}, used {self.used.dtype}; expected [n, C], [n] "
                               "and [n] of True and False")  # fmt: skip

    def __repr__(self) -> str:
        return f"CorrectedLabels({int(self.used.sum())} of {len(self.used)} images labelled)"

    def _repr_html_(self) -> str:
        rows = [["images", len(self.used)], ["labelled", int(self.used.sum())]]
        rows += [["mean λ of these", float(self.weight[self.used].mean())]] if bool(self.used.any()) else []
        return table(rows, caption="CorrectedLabels")


def correct_pseudo_labels(
    local_logits: Float[Tensor, "n c"],
    global_logits: Float[Tensor, "n c"],
    threshold: float = 0.95,
    kappa: float = math.log(2) / 0.05,
    *,
    fixed_weight: float | None = None,
    use_cpg: bool = True,
    use_cdsc: bool = True,
    soft: bool = False,
    look: bool = True,
) -> CorrectedLabels:
    """Generate labels with both models and correct the local ones (SAGE Eqs. 1-6; CPG and CDSC).

    Where the local model's confidence c_l reaches the threshold, the target is
    lambda * local label + (1 - lambda) * global label with lambda = exp(-kappa * abs(c_l - c_g)). Where only the
    global model's c_g does, it is the global label. Elsewhere there is none. Of equal scores the first class
    is the label. Results carry no gradient.

    Args:
        local_logits: scores of weak views by the client's current model, [n, C].
        global_logits: scores of the same views by the round's global model, [n, C].
        threshold: tau, the least confidence of a label, in [0, 1]; reached when equal.
        kappa: how fast lambda falls with the discrepancy of the confidences, 0 or more.
        fixed_weight: this instead of lambda.
        use_cpg: False gives no label where only the global model is confident.
        use_cdsc: False leaves the local label uncorrected.
        soft: mix the models' probabilities instead of their one-hot labels.
        look: False does not look for NaN, which would wait for a GPU; a client's round looks once, at its end.

    Raises:
        FedCoPLError: a threshold or weight outside [0, 1], a negative kappa, logits of different shapes or
            not finite.

    >>> labels = lab.correct_pseudo_labels(torch.tensor([[9.0, 0.0]]), torch.tensor([[0.0, 9.0]]))
    >>> labels.weight.tolist(), labels.used.tolist()
    ([1.0], [True])

    Shown in notebook ``sage_step_by_step``.
    """
    if local_logits.shape != global_logits.shape:
        raise FedCoPLError(
            f"local logits are {tuple(local_logits.shape)} and global logits {tuple(global_logits.shape)}; "
            "expected one shape: score the same views with both models"
        )
    if not 0 <= kappa < math.inf:
        raise FedCoPLError(f"kappa={kappa} is not 0 or more; expected a rate such as 13.86")
    if fixed_weight is not None and not 0 <= fixed_weight <= 1:
        raise FedCoPLError(f"fixed_weight={fixed_weight} is outside [0, 1]; expected a share such as 0.5, or None")
    _check(threshold, local_logits, global_logits, look=look)
    local, global_ = (logits.detach().float().softmax(dim=1) for logits in (local_logits, global_logits))
    local_confidence, global_confidence = local.amax(dim=1), global_.amax(dim=1)
    if fixed_weight is None:
        weight = (-kappa * (local_confidence - global_confidence).abs()).exp()
    else:
        weight = torch.full_like(local_confidence, fixed_weight)
    local_sure, global_sure = local_confidence >= threshold, global_confidence >= threshold
    local_label, global_label = (p if soft else _one_hot(p) for p in (local, global_))
    share = (weight if use_cdsc else torch.ones_like(weight)).where(local_sure, 0)[:, None]
    target = share * local_label + (1 - share) * global_label
    return CorrectedLabels(target=target, weight=weight, used=local_sure | global_sure if use_cpg else local_sure)


def confident_labels(
    logits: Float[Tensor, "n c"], threshold: float = 0.95, soft: bool = False, *, look: bool = True
) -> CorrectedLabels:
    """One model's own labels, with weight 1, where it is confident (FixMatch; SAGE Sec. 3).

    Args:
        logits: scores of weak views, [n, C].
        threshold: tau, the least confidence, in [0, 1].
        soft: its probabilities as target instead of the one-hot label.
        look: as in :func:`correct_pseudo_labels`.

    Raises:
        FedCoPLError: a threshold outside [0, 1], or logits that are not finite.

    >>> confident_labels(torch.tensor([[9.0, 0.0], [0.1, 0.0]])).used.tolist()
    [True, False]

    Shown in notebook ``sage_step_by_step``.
    """
    _check(threshold, logits, look=look)
    p = logits.detach().float().softmax(dim=1)
    confidence = p.amax(dim=1)
    return CorrectedLabels(
        target=p if soft else _one_hot(p), weight=torch.ones_like(confidence), used=confidence >= threshold
    )


def _one_hot(p: Tensor) -> Tensor:
    return torch.zeros_like(p).scatter_(1, p.argmax(dim=1, keepdim=True), 1)  # F.one_hot looks for the largest number


def _check(threshold: float, *scores: Tensor, look: bool) -> None:
    if not 0 <= threshold <= 1:
        raise FedCoPLError(f"threshold={threshold} is outside [0, 1]; expected a confidence such as 0.95")
    for logits in scores if look else ():
        check_logits(logits)
