"""A client's memory of its own labelled images, which votes beside the prompts."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab.steps._select import PseudoLabels


@dataclass(frozen=True, repr=False)
class ImageCache:
    """Unit features of a client's pseudo-labelled images and what each is labelled as; never leaves the client.

    RECONSTRUCTION: no code of pFedPrompt (WWW 2023) is public. Its abstract says that the visual side adapts
    to the user without parameters; this is our reading, in the form of a key-value cache.

    Attributes:
        keys: unit features, as they were when the round started, [m, d].
        values: one-hot pseudo-labels, or equal weights on the candidates of each, [m, C].
        weight: a, how much the cache counts beside the prompts.
        sharpness: b, how fast an image loses influence with distance.
    """

    keys: Float[Tensor, "m d"]
    values: Float[Tensor, "m c"]
    weight: float
    sharpness: float

    @classmethod
    def of(
        cls, features: Float[Tensor, "m d"], labels: PseudoLabels, n_classes: int, weight: float, sharpness: float
    ) -> "ImageCache":
        """The cache of images whose features are in the order of their pseudo-labels."""
        if labels.candidates is None:
            values = F.one_hot(labels.labels, n_classes)
        else:
            values = labels.candidates / labels.candidates.sum(dim=1, keepdim=True)
        return cls(keys=features.detach(), values=values.to(features), weight=weight, sharpness=sharpness)

    def votes(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        """a · exp(-b (1 - f Kᵀ)) L, added to the prompts' logits, [B, C]."""
        return self.weight * (-self.sharpness * (1 - features @ self.keys.T)).exp() @ self.values

    def __repr__(self) -> str:
        return f"ImageCache({len(self.keys)} images)"
