"""Step 4: the pseudo-labelled images a client trains on, by quota or from CPL's candidate sets and pools."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab._html import folded, table
from fedcopl_lab.steps._confidence import check_logits, class_counts, class_log_odds, log_odds, quantile

Candidates = Literal["argmax", "any"]


@dataclass(frozen=True, repr=False)
class PseudoLabels:
    """Images of one client and the class each is trained as.

    Attributes:
        indices: positions among the client's images, class by class, most probable first, [m].
        labels: the pseudo-label of each, [m].
        candidates: the classes that each may belong to, for labels that admit doubt (CPL), [m, C]; None
            where the label is all there is.

    Raises:
        FedCoPLError: not one whole-number label for each position, or not one row of candidates.
    """

    indices: Int[Tensor, "m"]
    labels: Int[Tensor, "m"]
    candidates: Bool[Tensor, "m c"] | None = None

    def __post_init__(self) -> None:
        pair = [torch.as_tensor(one) for one in (self.indices, self.labels)]
        whole = not any(one.is_floating_point() or one.dtype == torch.bool for one in pair)
        if not whole or self.indices.ndim != 1 or self.indices.shape != self.labels.shape:
            told = " and ".join(f"{tuple(one.shape)} of {one.dtype}" for one in pair)
            raise FedCoPLError(f"indices and labels are {told}; expected one label for each position, whole numbers")
        if self.candidates is not None and len(self.candidates) != len(self):
            raise FedCoPLError(f"{len(self.candidates)} rows of candidates for {len(self)} images; expected one each")

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
    check_choice("candidates", candidates, get_args(Candidates))
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


def candidate_sets(logits: Float[Tensor, "n c"], alpha: float, beta: float) -> Bool[Tensor, "n c"]:
    """The candidate classes of every image, within the image and between images, [n, C] (CPL, ICML 2024).

    Within an image: its most probable classes until their sum first exceeds the ``alpha`` quantile of all
    images' top probabilities. Between images: the classes whose probability reaches the ``beta`` quantile
    of that class's probabilities. A candidate passes both; an image may be left without one. Under label
    skew the second gives every class the share (1 - beta) of a client's images, present or not.

    Args:
        logits: scores of the images, [n, C].
        alpha: quantile level within images, in [0, 1].
        beta: quantile level between images, in [0, 1].

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
    # mass of a class and of all less probable ones: it does not round to 0 where the top probability rounds to 1
    tail = p.gather(1, order).flip(1).cumsum(dim=1).flip(1)
    missing = tail[:, 1] if p.shape[1] > 1 else torch.zeros_like(p[:, 0])
    within = (tail >= quantile(missing, 1 - alpha)) & (tail > 0)
    within[:, 0] = True
    within = torch.zeros_like(within).scatter(1, order, within)
    between = torch.stack([column >= quantile(column, beta) for column in p.T], dim=1)
    return within & between


def fill_pools(logits: Float[Tensor, "n c"], allowed: Bool[Tensor, "n c"], capacity: Int[Tensor, "c"]) -> PseudoLabels:
    """Let images apply to their classes from the most probable one on; a full pool keeps its most probable images.

    An image that is refused, or evicted later, applies to its next allowed class, and is left out when it
    has none. Each class ranks images by their probability of it, so the result is the stable matching that
    images prefer, in any order of applying. Equal probabilities keep the order of the images. With one allowed
    class per image this is :func:`select_top`. The idea is that of the leaderboards of FPL's public code
    ("Enhancing CLIP with CLIP", NeurIPS 2023) and of the pools of CPL ("Candidate Pseudolabel Learning", ICML 2024).

    Args:
        logits: scores of the images, [n, C].
        allowed: the classes that each image may apply to, [n, C].
        capacity: images that each class has room for, [C].

    Raises:
        FedCoPLError: shapes that do not fit, a negative capacity, or logits that are not finite.

    >>> logits = torch.tensor([[3.0, 2, 0], [4, 1, 0]])
    >>> fill_pools(logits, torch.ones(2, 3).bool(), torch.tensor([1, 1, 1])).labels.tolist()
    [0, 1]

    Shown in notebook ``fedcopl_main_table1``.
    """
    check_logits(logits)
    n, n_classes = logits.shape
    if allowed.shape != logits.shape or capacity.shape != (n_classes,):
        raise FedCoPLError(
            f"allowed has shape {tuple(allowed.shape)} and capacity {tuple(capacity.shape)}; expected "
            f"{(n, n_classes)} and {(n_classes,)}, as the logits"
        )
    if bool((capacity < 0).any()):
        raise FedCoPLError(f"capacity holds {int(capacity.min())}; expected numbers of images, 0 or more")
    score = class_log_odds(logits)
    wish_list = logits.double().masked_fill(~allowed, -torch.inf).argsort(dim=1, descending=True, stable=True)
    n_wishes = allowed.sum(dim=1)
    asked = torch.zeros_like(n_wishes)
    member = torch.full_like(n_wishes, -1)
    while bool((applying := (member < 0) & (asked < n_wishes)).any()):
        images = applying.nonzero().squeeze(1)
        member[images] = wish_list[images, asked[images]]
        asked[images] += 1
        for c in member[images].unique().tolist():
            member[_ranked(member, score, c)[int(capacity[c]) :]] = -1
    indices = torch.cat([_ranked(member, score, c) for c in range(n_classes)])
    return PseudoLabels(indices=indices, labels=member[indices])


def _ranked(member: Int[Tensor, "n"], score: Float[Tensor, "n c"], c: int) -> Int[Tensor, "m"]:
    """The images in a class's pool, most probable first."""
    pool = (member == c).nonzero().squeeze(1)
    return pool[score[pool, c].argsort(descending=True, stable=True)]
