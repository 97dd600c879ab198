"""The pseudo-labels of all steps of one client's round, joined once at its end."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab.steps import CorrectedLabels, check_logits


@dataclass(frozen=True, repr=False)
class ViewLabels:
    """Pseudo-labels of all steps of one client's round, one row per weak view.

    Attributes:
        places: where the images are in the client's pool, [n].
        local: scores by the model in training, [n, C].
        global_: scores by the round's global model, or None.
        target: what the strong view was trained towards, [n, C].
        weight: lambda, [n].
        used: whether the view counted, [n].
    """

    places: Int[Tensor, "n"]
    local: Float[Tensor, "n c"]
    global_: Float[Tensor, "n c"] | None
    target: Float[Tensor, "n c"]
    weight: Float[Tensor, "n"]
    used: Bool[Tensor, "n"]

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return f"ViewLabels({len(self)} weak views, {int(self.used.sum())} labelled)"


class ViewLabelLog:
    """Collects steps; nothing is read back from the device before the round ends."""

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, Tensor, Tensor | None, CorrectedLabels]] = []

    def add(self, places: Tensor, local: Tensor, global_: Tensor | None, labels: CorrectedLabels) -> None:
        """Keep one step."""
        self._steps.append((places, local, global_, labels))

    def joined(self) -> ViewLabels | None:
        """All steps in order; None without any.

        Raises:
            FedCoPLError: scores that are NaN or infinite; looked for here, since every look waits for a GPU.
        """
        if not self._steps:
            return None
        scored = [global_ for _, _, global_, _ in self._steps if global_ is not None]
        joined = ViewLabels(
            places=torch.cat([places for places, _, _, _ in self._steps]),
            local=torch.cat([local for _, local, _, _ in self._steps]),
            global_=torch.cat(scored) if len(scored) == len(self._steps) else None,
            target=torch.cat([labels.target for _, _, _, labels in self._steps]),
            weight=torch.cat([labels.weight for _, _, _, labels in self._steps]),
            used=torch.cat([labels.used for _, _, _, labels in self._steps]),
        )
        for scores in (joined.local, joined.global_):
            if scores is not None:
                check_logits(scores)
        return joined
