"""Leave out random patches of an image while training, which costs half as much and keeps a small model from rote."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LeftOut(nn.Module):
    """Takes the place of open_clip's ``patch_dropout``, with random numbers from a Generator instead of torch's own.

    Attributes:
        share: of the patches that are left out in the next training steps; 0 leaves all in.
        generator: where the random numbers come from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.share = 0.0
        self.generator: torch.Generator | None = None

    def forward(self, tokens: Float[Tensor, "b n w"]) -> Float[Tensor, "b kept w"]:
        """Keep the class token and as many patches, drawn for each image by itself."""
        patches = tokens.shape[1] - 1
        kept = patches - round(self.share * patches)
        if not self.training or kept == patches:
            return tokens
        order = torch.rand(len(tokens), patches, generator=self.generator).argsort(dim=1)[:, :kept]
        chosen = tokens[:, 1:].gather(1, order[..., None].expand(-1, -1, tokens.shape[2]))
        return torch.cat([tokens[:, :1], chosen], dim=1)
