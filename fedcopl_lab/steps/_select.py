"""Step 4: the pseudo-labelled images a client trains on."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import folded, table
from fedcopl_lab.steps._confidence import check_logits, class_counts, class_log_odds, log_odds

Candidates = Literal["argmax", "any"]


@dataclass(frozen=True, repr=False)
class PseudoLabels:
    """Images of one client and the class each is trained as.

    Attributes:
        indices: positions among the client's images, class by class, most probable first, [m].
        labels: the pseudo-label of each, [m].
        candidates: the classes that each may belong to, for labels that admit doubt (CPL), [m, C]; None
            where the label is all there is.
    """

    indices: Int[Tensor, "m"]
    labels: Int[Tensor, "m"]
    candidates: Bool[Tensor, "m c"] | None = None

    def __len__(self) -> int:
        return len(self.indices)

    def accuracy(self, true_labels: Int[Tensor, "n"]) -> float:
        """Share of pseudo-labels that are right, given the true labels of all the client's images, [n].

        For reporting only. NaN when nothing was selected.
        """
        return float((true_labels[self.indices] == self.labels).double().mean())

    def counts(self, n_classes: int) -> Int[Tensor, "c"]:
        """Selected images per class, [C]."""
        return class_counts(self.labels, n_classes)

    def __repr__(self) -> str:
        return f"PseudoLabels({len(self)} images of {len(self.labels.unique())} classes)"

    def _repr_html_(self) -> str:
        classes, counts = self.labels.unique(return_counts=True)
        per_class = table(list(zip(classes.tolist(), counts.tolist(), strict=True)), ["class", "images"])
        rows = [["images", len(self)], ["classes", len(classes)]]
        return table(rows, caption="PseudoLabels") + folded("images per class", per_class)


def select_top(
    logits: Float[Tensor, "n c"], quota: Int[Tensor, "c"], candidates: Candidates = "argmax"
) -> PseudoLabels:
    """Take the quota of most probable images of each class (Sec. 3.3, after Eq. 3).

    Candidates are all of the client's images, not only the filtered ones. Where a class has fewer candidates
    than its quota, all are taken. Equal probabilities keep the order of the images.

    Args:
        logits: scores of the client's images, [n, C].
        quota: images wanted per class, [C].
        candidates: ``"argmax"``, images predicted as the class, as the released code does; ``"any"``, every
            image, so that one image may be selected for several classes.

    Raises:
        FedCoPLError: a negative quota, a quota of another length, or logits that are not finite.

    >>> chosen = lab.select_top(torch.tensor([[2.0, 0], [5, 0], [0, 1]]), torch.tensor([1, 3]))
    >>> chosen.indices.tolist(), chosen.labels.tolist()
    ([1, 2], [0, 1])

    Shown in notebook ``00_quickstart``.
    """
    check_logits(logits)
    n_classes = logits.shape[1]
    if quota.shape != (n_classes,):
        raise FedCoPLError(f"quota has shape {tuple(quota.shape)}; expected one number for each of {n_classes} classes")
    if bool((quota < 0).any()):
        raise FedCoPLError(f"quota holds {int(quota.min())}; expected numbers of images, 0 or more")
    if candidates not in get_args(Candidates):
        raise FedCoPLError(f"candidates={candidates!r} is unknown; choose one of {', '.join(get_args(Candidates))}")
    if candidates == "argmax":
        return _top_predicted(logits, quota)
    score = class_log_odds(logits).T.contiguous()
    chosen = [own.argsort(descending=True, stable=True)[:n] for own, n in zip(score, quota.tolist(), strict=True)]
    labels = torch.cat([torch.full_like(own, c) for c, own in enumerate(chosen)])
    return PseudoLabels(indices=torch.cat(chosen), labels=labels)


def _top_predicted(logits: Tensor, quota: Tensor) -> PseudoLabels:
    """The most probable images among those predicted as each class, all classes in one go."""
    order = log_odds(logits).argsort(descending=True, stable=True)
    labels, by_class = logits.argmax(dim=1)[order].sort(stable=True)
    counts = class_counts(labels, logits.shape[1])
    place = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels]
    taken = place < quota.to(labels.device)[labels]
    return PseudoLabels(indices=order[by_class][taken], labels=labels[taken])
