"""What one label phase ends with."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from fedcopl_lab.steps import FilteredSet, PseudoLabels


@dataclass(frozen=True, repr=False)
class LabelPhase:
    """The pseudo-labels of all clients from one label phase.

    Attributes:
        labels: one set per client.
        quota: images wanted per client and class, [K, C].
        filtered: the filtered sets they were estimated from; empty for a labeller that does not filter.
        uploaded: the counts that the server received, noise included, [K, C]; None where none are sent.
        logits: each client's scores, that the labels come from, K of [n_k, C].
        bytes_up: what all clients sent for it.
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
