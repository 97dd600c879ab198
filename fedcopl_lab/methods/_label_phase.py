"""What one label phase ends with, and what it took from every client per class."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.steps import FilteredSet, PseudoLabels, class_counts


@dataclass(frozen=True, repr=False)
class LabelPhase:
    """The pseudo-labels of all clients from one label phase.

    Attributes:
        labels: one set per client.
        quota: images wanted per client and class, [K, C].
        filtered: the filtered sets they were estimated from; empty for a labeller that does not filter.
        uploaded: the counts that the server received, noise included, [K, C]; None where none are sent.
        logits: each client's scores, that the labels come from, K of [n_k, C].
        bytes_up: what all clients sent for it; scores that CPL's candidate sets or CoPL's filters pool are left out.
        bytes_down: what all clients received for it.
    """

    labels: tuple[PseudoLabels, ...]
    quota: Int[Tensor, "k c"]
    logits: tuple[Tensor, ...]
    filtered: tuple[FilteredSet, ...] = ()
    uploaded: Int[Tensor, "k c"] | None = None
    bytes_up: int = 0
    bytes_down: int = 0

    def __repr__(self) -> str:
        return f"LabelPhase({sum(map(len, self.labels))} images on {len(self.labels)} clients)"


def phase_counts(phase: LabelPhase, true: Sequence[Int[Tensor, "_"]]) -> dict[str, Int[Tensor, "k c"]]:
    """Count images of every client by class at each stage of a label phase, and how many labels are right (Sec. 3.3).

    Args:
        phase: a label phase.
        true: true class of each client's training images, K of [n_k]; for reporting only.

    Returns:
        All [K, C]: ``true``, by true class; ``predicted``, by the class that the scoring model gives; ``kept``, by
        predicted class, those that passed the filter, of a labeller that filters; ``selected``, by pseudo-label,
        those that the client trains on; ``predicted_right``, ``kept_right`` and ``selected_right``, the right ones.

    Raises:
        FedCoPLError: labels of another number of clients.

    >>> logits = [torch.randn(20, 3), torch.randn(9, 3)]
    >>> phase = lab.methods.copl(logits, lab.configure("smoke"), n_train=29, phase=0)
    >>> sorted(phase_counts(phase, [scores.argmax(dim=1) for scores in logits]))[:3]
    ['kept', 'kept_right', 'predicted']

    Shown in notebook ``explore``.
    """
    if len(true) != len(phase.logits):
        raise FedCoPLError(f"labels of {len(true)} clients for {len(phase.logits)}; expected those of each client")
    n_classes = phase.quota.shape[1]
    stages = {
        "predicted": [(scores.argmax(dim=1), t) for scores, t in zip(phase.logits, true, strict=True)],
        "selected": [(one.labels, t[one.indices]) for one, t in zip(phase.labels, true, strict=True)],
    }
    if phase.filtered:
        stages["kept"] = [(one.labels[one.kept], t[one.kept]) for one, t in zip(phase.filtered, true, strict=True)]
    counted = {"true": torch.stack([class_counts(t, n_classes) for t in true])}
    for name, clients in stages.items():
        counted[name] = torch.stack([class_counts(labels, n_classes) for labels, _ in clients])
        right = [class_counts(labels[labels == t], n_classes) for labels, t in clients]
        counted[f"{name}_right"] = torch.stack(right)
    return counted
