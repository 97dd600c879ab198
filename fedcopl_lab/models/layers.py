"""A frozen transformer layer taken apart, so that a token can be a key without being a query, and its attention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from open_clip.transformer import QuickGELU, ResidualAttentionBlock
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError

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


def attend(
    projected: Float[Tensor, "b n parts_w"],
    heads: int,
    *,
    queries: Float[Tensor, "b r w"] | None = None,
    common: Float[Tensor, "k m two_w"] | None = None,
    sizes: Sequence[int] = (),
    mask: Bool[Tensor, "r keys"] | Bool[Tensor, "b 1 r keys"] | None = None,
) -> Float[Tensor, "b r w"]:
    """Attention of each query to the tokens of its sequence and to the tokens in common.

    Args:
        projected: queries, keys and values side by side, [b, n, 3 w]; with ``queries`` only keys and values.
        heads: attention heads.
        queries: other queries than one per token.
        common: keys and values of tokens that belong to no one sequence, for each of K clients.
        sizes: how many sequences in turn belong to each client; they add up to b.
        mask: which keys a query sees, own ones first, then those in common; None: all.
    """
    if projected.device.type == "cpu":
        return _Attention.apply(projected, queries, common, sizes, heads, mask)
    return fused(projected, queries, common, sizes, heads, mask)


def fused(
    projected: Tensor,
    queries: Tensor | None,
    common: Tensor | None,
    sizes: Sequence[int],
    heads: int,
    mask: Tensor | None,
) -> Tensor:
    """The same by torch's fused kernel: the way to go on a GPU."""
    own = _by_head(projected, heads, 3 if queries is None else 2)
    query = own[0] if queries is None else _by_head(queries, heads, 1)[0]
    keys, values = own[-2:]
    if common is not None:
        extra = _for_each_sequence(_by_head(common, heads, 2), sizes)
        keys, values = torch.cat([keys, extra[0]], dim=2), torch.cat([values, extra[1]], dim=2)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask).transpose(1, 2).flatten(2)


class _Attention(torch.autograd.Function):
    """The same by plain batched products, forward and backward.

    With so few tokens a sequence torch's fused kernel for CPUs takes several times as long, most of all
    backwards in bfloat16. Softmax is computed in float32 or higher. No parameter precedes the own tokens of the
    first layer; the backward pass then stops at the tokens in common.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        queries: Tensor | None,
        common: Tensor | None,
        sizes: Sequence[int],
        heads: int,
        mask: Tensor | None,
    ) -> Tensor:
        own = _by_head(projected, heads, 3 if queries is None else 2)
        query = own[0] if queries is None else _by_head(queries, heads, 1)[0]
        b, _, r, width = query.shape
        n, m = own.shape[3], 0 if common is None else common.shape[1]
        both = own.new_empty(2, b, heads, n + m, width)
        both[:, :, :, :n] = own[-2:]
        if common is not None:
            for place, extra in zip(_places(sizes), _by_head(common, heads, 2).unbind(1), strict=True):
                both[:, place, :, n:] = extra[:, None]
        query = query.reshape(b * heads, r, width)
        keys, values = both.view(2, b * heads, n + m, width)
        scale = width**-0.5
        scores = torch.baddbmm(query.new_empty(1, 1, 1), query, keys.transpose(1, 2), beta=0, alpha=scale)
        if mask is not None:
            scores.view(b, heads, r, n + m).masked_fill_(~mask, -torch.inf)
        shares = torch.softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)
        ctx.save_for_backward(query, both, shares)
        ctx.sizes, ctx.heads, ctx.n, ctx.scale, ctx.joined = sizes, heads, n, scale, queries is None
        return torch.bmm(shares, values).view(b, heads, r, width).transpose(1, 2).flatten(2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, both, shares = ctx.saved_tensors
        _, b, heads, all_keys, width = both.shape
        n, first = ctx.n, 0 if ctx.needs_input_grad[0] else ctx.n
        keys, values = both.view(2, b * heads, all_keys, width)
        received = _by_head(gradient, heads, 1).reshape(query.shape)
        through = torch.bmm(received, values.transpose(1, 2))
        through = torch._softmax_backward_data(through, shares, -1, shares.dtype)
        back = both.new_empty(2, b * heads, all_keys - first, width)
        nothing, scale = query.new_empty(1, 1, 1), ctx.scale
        torch.baddbmm(nothing, through[..., first:].transpose(1, 2), query, beta=0, alpha=scale, out=back[0])
        torch.bmm(shares[..., first:].transpose(1, 2), received, out=back[1])
        back = back.view(2, b, heads, -1, width)
        of_queries = of_projected = of_common = None
        if ctx.needs_input_grad[0]:
            of_projected = gradient.new_empty(b, n, 3 if ctx.joined else 2, heads, width)
            of_projected.permute(2, 0, 3, 1, 4)[-2:] = back[:, :, :, :n]
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            of_query = torch.baddbmm(nothing, through, keys, beta=0, alpha=scale)
            of_query = of_query.view(b, heads, -1, width).transpose(1, 2)
            if of_projected is not None and ctx.joined:
                of_projected[:, :, 0] = of_query
            else:
                of_queries = of_query.flatten(2)
        if ctx.needs_input_grad[2]:
            each = [back[:, place, :, n - first :].sum(dim=1) for place in _places(ctx.sizes)]
            of_common = torch.stack(each).permute(0, 3, 1, 2, 4).flatten(2)
        return None if of_projected is None else of_projected.flatten(2), of_queries, of_common, None, None, None


def _by_head(x: Float[Tensor, "b n parts_w"], heads: int, parts: int) -> Float[Tensor, "parts b heads n w_head"]:
    return x.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4)


def _for_each_sequence(common: Tensor, sizes: Sequence[int]) -> Tensor:
    """Each client's tokens once per sequence, [parts, K, …] -> [parts, b, …], with sizes that stay on the CPU."""
    if len(set(sizes)) == 1:
        return common[:, :, None].expand(-1, -1, sizes[0], -1, -1, -1).flatten(1, 2)
    own = common.split(1, dim=1)
    return torch.cat([one.expand(-1, size, -1, -1, -1) for one, size in zip(own, sizes, strict=True)], dim=1)


def _places(sizes: Sequence[int]) -> list[slice]:
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
