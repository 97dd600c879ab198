"""A frozen transformer layer taken apart, so that a token can be a key without being a query."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from open_clip.transformer import QuickGELU, ResidualAttentionBlock
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError

_QUICK_SLOPE = 1.702  # QuickGELU(x) = x * sigmoid(1.702 x)


@dataclass(frozen=True, repr=False)
class Layer:
    """One pre-norm layer of a frozen tower.

    Attributes:
        block: open_clip's own layer, for its norms and scales.
        heads: attention heads.
        qkv: weight and bias of queries, keys and values together.
        out: weight and bias after attention.
        up: weight and bias into the MLP.
        down: weight and bias out of the MLP.
        activation: between the two.

    Weights of matrix products may be a copy in a lower precision; norms and the sums between layers keep
    the precision of the prompts.
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
        """Take a layer apart; with a dtype, its matrix products run on copies of that type.

        Raises:
            FedCoPLError: another kind of layer.
        """
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

    def queries_keys_values(self, x: Float[Tensor, "b n w"]) -> list[Tensor]:
        """The three of the tokens x, [b, heads, n, head width] each."""
        normed = self.block.ln_1(x).to(self.qkv[0].dtype)
        return [split_heads(part, self.heads) for part in F.linear(normed, *self.qkv).chunk(3, dim=-1)]

    def output(
        self,
        x: Float[Tensor, "b n w"],
        queries: Float[Tensor, "b heads n w_head"],
        keys_values: Sequence[Tensor],
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "b n w"]:
        """What the layer makes of the tokens x, given their queries and all keys and values."""
        keys, values = keys_values
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal)
        x = x + self.block.ls_1(F.linear(mixed.transpose(1, 2).flatten(2), *self.out))
        hidden = F.linear(self.block.ln_2(x).to(self.up[0].dtype), *self.up)
        return x + self.block.ls_2(F.linear(self.activation(hidden), *self.down))


def split_heads(x: Float[Tensor, "b n w"], heads: int) -> Float[Tensor, "b heads n w_head"]:
    """One slice of the width per attention head."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def project(features: Float[Tensor, "*b w"], projection: Tensor | torch.nn.Linear | None) -> Float[Tensor, "*b d"]:
    """Into the space that images and texts share."""
    if projection is None:
        return features
    return projection(features) if isinstance(projection, torch.nn.Linear) else features @ projection
