"""What one label phase ends with, and what it took from every client per class."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
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


@dataclass(frozen=True, repr=False)
class PhaseCounts:
    """Images of every client by class, at each stage of a label phase; all [K, C].

    Attributes:
        true: by true class.
        predicted: by the class that the scoring model gives them.
        predicted_right: those whose prediction is true.
        kept: by predicted class, those that passed the filter.
        kept_right: those whose prediction is true.
        selected: by pseudo-label, those that the client trains on.
        selected_right: those whose pseudo-label is true.
    """

    true: Int[Tensor, "k c"]
    predicted: Int[Tensor, "k c"]
    predicted_right: Int[Tensor, "k c"]
    kept: Int[Tensor, "k c"]
    kept_right: Int[Tensor, "k c"]
    selected: Int[Tensor, "k c"]
    selected_right: Int[Tensor, "k c"]

    def accuracy(self, stage: str) -> Float[Tensor, " k"]:
        """Share of right labels of each client at a stage, ``"predicted"``, ``"kept"`` or ``"selected"``, [K].

        NaN for a client without images at that stage.
        """
        return getattr(self, f"{stage}_right").sum(dim=1).double() / getattr(self, stage).sum(dim=1)

    def __repr__(self) -> str:
        clients, classes = self.true.shape
        return f"PhaseCounts({clients} clients × {classes} classes, {int(self.selected.sum())} images selected)"


def phase_counts(phase: LabelPhase, true: Sequence[Int[Tensor, "_"]]) -> PhaseCounts:
    """Count what a label phase kept and selected per client and class, and how much of it is right (Sec. 3.3).

    Args:
        phase: a label phase of a labeller that filters.
        true: true class of each client's training images, K of [n_k]; for reporting only.

    Raises:
        FedCoPLError: labels of another number of clients, or a phase without filter.

    >>> logits = [torch.randn(20, 3), torch.randn(9, 3)]
    >>> phase = lab.methods.copl(logits, lab.configure("smoke"), n_train=29, phase=0)
    >>> phase_counts(phase, [scores.argmax(dim=1) for scores in logits])
    PhaseCounts(2 clients × 3 classes, ... images selected)

    Shown in notebook ``explore``.
    """
    if len(true) != len(phase.logits) or len(phase.filtered) != len(phase.logits):
        raise FedCoPLError(
            f"{len(phase.logits)} clients, {len(phase.filtered)} filtered sets, labels of {len(true)} clients; "
            "expected one of each per client: count a phase of the labeller CoPL"
        )
    return PhaseCounts(**counts_by_stage(phase, true))


def counts_by_stage(phase: LabelPhase, true: Sequence[Int[Tensor, "_"]]) -> dict[str, Int[Tensor, "k c"]]:
    """The attributes of :class:`PhaseCounts`; without ``kept`` and ``kept_right`` for a labeller that does not filter.

    True labels are read for these numbers only.
    """
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
