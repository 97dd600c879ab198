"""A frozen CLIP with learned text and visual prompts, computing only what the prompts can change."""

from collections.abc import Callable, Sequence

import open_clip
import torch
from jaxtyping import Bool, Float
from open_clip.transformer import ResidualAttentionBlock, VisionTransformer
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError

PROMPT_STD = 0.02  # spread of the initial prompts, spec of the released code


class PromptedCLIP:
    """CLIP with a text prompt shared by all classes and deep visual prompts (Sec. 3.1, Eq. 1).

    The forward pass equals the plain one (every class with its full padded text, prompt tokens appended to
    the image tokens and dropped after each layer) up to rounding, with less work: the positions that all
    classes share (start token and text prompt) run once; a class runs only its own tokens up to the end
    token; visual prompts enter as keys and values only, since their outputs are dropped; the last layers
    run only the token that is read.

    Args:
        model: a frozen ``open_clip.CLIP`` with a ViT image tower that reads its class token.
        tokenizer: list of strings -> token ids, [n, context_length].
        class_names: the classes as the prompts name them, C of them.
        n_text: vectors of the text prompt.
        visual_depth: image layers that get prompts, counted from the input; None: all but the last.
        n_visual: vectors per prompted image layer.

    Raises:
        FedCoPLError: another kind of image tower, a depth the tower does not have, or a class name too long
            for the context.

    >>> clip = lab.load_clip("tiny")
    >>> prompted = lab.PromptedCLIP(clip.model, clip.tokenizer, ["zero", "one"], n_text=8)
    >>> text, visual = prompted.initial_prompts(torch.Generator().manual_seed(0))

    Shown in notebook ``00_quickstart``.
    """

    def __init__(
        self,
        model: open_clip.CLIP,
        tokenizer: Callable[[list[str]], Tensor],
        class_names: Sequence[str],
        n_text: int = 16,
        visual_depth: int | None = None,
        n_visual: int = 5,
    ) -> None:
        self.model = model
        self.image_blocks: list[ResidualAttentionBlock] = list(_plain_blocks(model))
        self.text_blocks: list[ResidualAttentionBlock] = list(model.transformer.resblocks)
        self.class_names = tuple(class_names)
        layers = len(self.image_blocks)
        self.visual_depth = layers - 1 if visual_depth is None else visual_depth
        if not 1 <= self.visual_depth <= layers:
            raise FedCoPLError(f"visual_depth={visual_depth}; expected 1 to {layers}, the layers of the image tower")
        self.text_shape = (n_text, model.token_embedding.embedding_dim)
        self.visual_shape = (self.visual_depth, n_visual, model.visual.class_embedding.shape[0])
        self._embed_class_names(tokenizer)

    def initial_prompts(
        self, generator: torch.Generator
    ) -> tuple[Float[Tensor, "n_text text_width"], Float[Tensor, "depth n_visual image_width"]]:
        """A text and a visual prompt drawn from N(0, 0.02²), as the released code starts."""
        weight = self.model.token_embedding.weight
        text = torch.randn(self.text_shape, generator=generator) * PROMPT_STD
        visual = torch.randn(self.visual_shape, generator=generator) * PROMPT_STD
        return text.to(weight), visual.to(weight)

    def text_features(self, text_prompt: Float[Tensor, "n_text text_width"]) -> Float[Tensor, "c d"]:
        """Unit features of ``[start] prompt name . [end]`` for every class, [C, d]."""
        if text_prompt.shape != self.text_shape:
            raise FedCoPLError(f"text prompt has shape {tuple(text_prompt.shape)}; expected {self.text_shape}")
        shared = (torch.cat([self._start, text_prompt]) + self._shared_positions)[None]
        own = self._own_embedding
        last = len(self.text_blocks) - 1
        for i, block in enumerate(self.text_blocks):
            classes = len(own)
            shared_q, *shared_keys = _queries_keys_values(block, block.ln_1(shared))
            own_q, *own_keys = _queries_keys_values(block, block.ln_1(own))
            keys = [
                torch.cat([s.expand(classes, -1, -1, -1), o], dim=2) for s, o in zip(shared_keys, own_keys, strict=True)
            ]
            if i == last:
                end = torch.arange(classes, device=own.device), self._end
                own_q = own_q.transpose(1, 2)[end][:, :, None]
                own = _block_output(block, own[end][:, None], own_q, keys, self._mask[self._end][:, None, None])
            else:
                own = _block_output(block, own, own_q, keys, self._mask)
                shared = _block_output(block, shared, shared_q, shared_keys, causal=True)
        features = self.model.ln_final(own[:, 0])
        return F.normalize(_project(features, self.model.text_projection), dim=-1)

    def image_tokens(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n image_width"]:
        """What enters the first image layer; constant per image, so that training computes it once."""
        return image_tokens(self.model, images)

    def image_features(
        self,
        images: Float[Tensor, "b 3 h w"] | Float[Tensor, "b n image_width"],
        visual_prompt: Float[Tensor, "depth n_visual image_width"],
    ) -> Float[Tensor, "b d"]:
        """Unit features of images, or of their :meth:`image_tokens`, under the visual prompt, [B, d]."""
        if visual_prompt.shape != self.visual_shape:
            raise FedCoPLError(f"visual prompt has shape {tuple(visual_prompt.shape)}; expected {self.visual_shape}")
        tokens = self.image_tokens(images) if images.ndim == 4 else images
        last = len(self.image_blocks) - 1
        for i, block in enumerate(self.image_blocks):
            queries, *keys = _queries_keys_values(block, block.ln_1(tokens))
            if i < self.visual_depth:
                _, *prompt_keys = _queries_keys_values(block, block.ln_1(visual_prompt[i][None]))
                keys = [
                    torch.cat([k, p.expand(len(k), -1, -1, -1)], dim=2) for k, p in zip(keys, prompt_keys, strict=True)
                ]
            if i == last:
                tokens, queries = tokens[:, :1], queries[:, :, :1]
            tokens = _block_output(block, tokens, queries, keys)
        features = self.model.visual.ln_post(tokens[:, 0])
        return F.normalize(_project(features, self.model.visual.proj), dim=-1)

    def logits(
        self,
        images: Float[Tensor, "b 3 h w"] | Float[Tensor, "b n image_width"],
        text_prompt: Float[Tensor, "n_text text_width"],
        visual_prompt: Float[Tensor, "depth n_visual image_width"],
    ) -> Float[Tensor, "b c"]:
        """Cosine similarities times the model's own logit scale, [B, C] (Eq. 1)."""
        return self.logits_from_features(self.image_features(images, visual_prompt), self.text_features(text_prompt))

    def logits_from_features(
        self, image_features: Float[Tensor, "b d"], text_features: Float[Tensor, "c d"]
    ) -> Float[Tensor, "b c"]:
        """The same from unit features that are already there, [B, C]."""
        return self.model.logit_scale.exp() * image_features @ text_features.T

    def __repr__(self) -> str:
        return f"PromptedCLIP({len(self.class_names)} classes, text {self.text_shape}, visual {self.visual_shape})"

    def _embed_class_names(self, tokenizer: Callable[[list[str]], Tensor]) -> None:
        """Keep what of the texts no prompt changes: start token, positions, each class's own tokens."""
        weight = self.model.token_embedding.weight
        context = self.model.positional_embedding.shape[0]
        shared = 1 + self.text_shape[0]
        tokens = tokenizer([f"{name}." for name in self.class_names]).to(weight.device)
        own_length = tokens.argmax(dim=1)  # the end token has the highest id; the start token is not counted
        self._end = own_length - 1
        for name, length in zip(self.class_names, own_length.tolist(), strict=True):
            if shared + length > context or length == tokens.shape[1] - 1:
                raise FedCoPLError(
                    f"class name {name!r} needs {length} tokens after {shared} shared ones; the context holds "
                    f"{context}: shorten the name or lower n_text"
                )
        longest = int(own_length.max())
        with torch.no_grad():
            self._start = self.model.token_embedding(tokens[:1, 0])
            positions = self.model.positional_embedding
            self._shared_positions = positions[:shared].detach()
            self._own_embedding = (
                self.model.token_embedding(tokens[:, 1 : 1 + longest]) + positions[shared : shared + longest]
            )
        self._mask = _sees_shared_and_earlier(shared, longest).to(weight.device)


@torch.no_grad()
def image_tokens(model: open_clip.CLIP, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n image_width"]:
    """Patches, class token and positions after the first normalisation: all that no prompt can change."""
    return model.visual._embeds(images)


def _plain_blocks(model: open_clip.CLIP) -> torch.nn.ModuleList:
    visual = model.visual
    supported = isinstance(visual, VisionTransformer) and visual.attn_pool is None and visual.pool_type == "tok"
    if not supported or visual.final_ln_after_pool:
        raise FedCoPLError(
            f"the image tower is {type(visual).__name__}; expected a ViT that reads its class token, such as ViT-B-32"
        )
    blocks = visual.transformer.resblocks
    for block in (*blocks, *model.transformer.resblocks):
        if type(block) is not ResidualAttentionBlock:
            raise FedCoPLError(f"a layer is {type(block).__name__}; expected open_clip's ResidualAttentionBlock")
    return blocks


def _sees_shared_and_earlier(shared: int, own: int) -> Bool[Tensor, "own keys"]:
    """Which keys (shared first, then own) each own token attends to: all shared ones, and no later own one."""
    return torch.cat([torch.ones(own, shared, dtype=torch.bool), torch.ones(own, own).tril().bool()], dim=1)


def _heads(block: ResidualAttentionBlock, x: Float[Tensor, "b n w"]) -> Float[Tensor, "b heads n w_head"]:
    return x.unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2)


def _queries_keys_values(block: ResidualAttentionBlock, normed: Float[Tensor, "b n w"]) -> list[Tensor]:
    together = F.linear(normed, block.attn.in_proj_weight, block.attn.in_proj_bias)
    return [_heads(block, part) for part in together.chunk(3, dim=-1)]


def _block_output(
    block: ResidualAttentionBlock,
    x: Float[Tensor, "b n w"],
    queries: Float[Tensor, "b heads n w_head"],
    keys_values: Sequence[Tensor],
    mask: Tensor | None = None,
    causal: bool = False,
) -> Float[Tensor, "b n w"]:
    """One pre-norm transformer layer for the tokens x, given their queries and all keys and values."""
    keys, values = keys_values
    mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal)
    x = x + block.ls_1(block.attn.out_proj(mixed.transpose(1, 2).flatten(2)))
    return x + block.ls_2(block.mlp(block.ln_2(x)))


def _project(features: Float[Tensor, "b w"], projection: Tensor | torch.nn.Linear | None) -> Float[Tensor, "b d"]:
    if projection is None:
        return features
    return projection(features) if isinstance(projection, torch.nn.Linear) else features @ projection
