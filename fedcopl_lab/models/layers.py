"""A frozen transformer layer taken apart, so that a token can be a key without being a query."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from open_clip.transformer import QuickGELU, ResidualAttentionBlock
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.models.attention import attend

_QUICK_SLOPE = 1.702  # QuickGELU(x) = x * sigmoid(1.702 x)


@dataclass(frozen=True, repr=False)
class Layer:
    """One pre-norm layer of a frozen tower: open_clip's own block, and its weights and biases by matrix product.

    ``qkv`` are queries, keys and values together, ``out`` follows attention, ``up`` and ``down`` are the MLP's, with
    the activation between. They may be copies in a lower precision; norms and the sums between layers keep the
    precision of the prompts.
    """

    block: ResidualAttentionBlock
    heads: int
    qkv: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]
    activation: Callable[[Tensor], Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, block: ResidualAttentionBlock, dtype: torch.dtype | None = None) -> "Layer":
        """Take a layer apart; with a dtype, its matrix products run on copies of that type."""
        if type(block) is not ResidualAttentionBlock:
            raise FedCoPLError(f"a layer is {type(block).__name__}; expected open_clip's ResidualAttentionBlock")
        attention, mlp = block.attn, block.mlp
        # slope * x * sigmoid(slope * x) is one fused kernel; the slope goes into the frozen weights on either side
        quick, slope = isinstance(mlp.gelu, QuickGELU), _QUICK_SLOPE

        def pair(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            return (weight, bias) if dtype is None else (weight.to(dtype), bias.to(dtype))

        return cls(
            block=block,
            heads=attention.num_heads,
            qkv=pair(attention.in_proj_weight, attention.in_proj_bias),
            out=pair(attention.out_proj.weight, attention.out_proj.bias),
            up=pair(mlp.c_fc.weight * slope, mlp.c_fc.bias * slope) if quick else pair(mlp.c_fc.weight, mlp.c_fc.bias),
            down=pair(mlp.c_proj.weight / slope if quick else mlp.c_proj.weight, mlp.c_proj.bias),
            activation=F.silu if quick else mlp.gelu,
        )

    def __repr__(self) -> str:
        return f"Layer(width {self.out[0].shape[0]}, {self.heads} heads, {self.out[0].dtype})"

    def queries_keys_values(self, x: Float[Tensor, "b n w"]) -> Float[Tensor, "b n three_w"]:
        """Queries, keys and values of the tokens x, side by side."""
        return F.linear(self._normed(x), *self.qkv)

    def keys_values(self, x: Float[Tensor, "b n w"]) -> Float[Tensor, "b n two_w"]:
        """Keys and values of tokens that have no queries, such as prompts whose outputs are dropped."""
        width = x.shape[-1]
        return F.linear(self._normed(x), *(part[width:] for part in self.qkv))

    def __call__(
        self,
        x: Float[Tensor, "b n w"],
        common: Float[Tensor, "k m two_w"] | None = None,
        sizes: Sequence[int] = (),
        mask: Bool[Tensor, "..."] | None = None,
        reads: tuple[Any, ...] | None = None,
        projected: Float[Tensor, "b n three_w"] | None = None,
    ) -> Float[Tensor, "b r w"]:
        """The layer's outputs for the tokens x.

        Args:
            x: sequences of tokens.
            common: keys and values of tokens in common, of each of K clients; see :func:`attend`.
            sizes: how many sequences in turn belong to each client.
            mask: which keys a token sees, own ones first; None: all.
            reads: index of the tokens whose outputs are read, such that x[reads] is [b, r, w]; None: all.
            projected: queries, keys and values of x, where they are computed already.
        """
        if reads is None:
            projected = self.queries_keys_values(x) if projected is None else projected
            return self._output(x, attend(projected, self.heads, common=common, sizes=sizes, mask=mask))
        normed, width = self._normed(x), x.shape[-1]
        queries = F.linear(normed[reads], *(part[:width] for part in self.qkv))
        own = F.linear(normed, *(part[width:] for part in self.qkv))
        mixed = attend(own, self.heads, queries=queries, common=common, sizes=sizes, mask=mask)
        return self._output(x[reads], mixed)

    def _normed(self, x: Float[Tensor, "b n w"]) -> Float[Tensor, "b n w"]:
        return self.block.ln_1(x).to(self.qkv[0].dtype)

    def _output(self, x: Float[Tensor, "b n w"], mixed: Float[Tensor, "b n w"]) -> Float[Tensor, "b n w"]:
        x = x + self.block.ls_1(F.linear(mixed, *self.out))
        hidden = F.linear(self.block.ln_2(x).to(self.up[0].dtype), *self.up)
        return x + self.block.ls_2(F.linear(self.activation(hidden), *self.down))


def project(features: Float[Tensor, "*b w"], projection: Tensor | torch.nn.Linear | None) -> Float[Tensor, "*b d"]:
    """Into the space that images and texts share."""
    if projection is None:
        return features
    return projection(features) if isinstance(projection, torch.nn.Linear) else features @ projection
