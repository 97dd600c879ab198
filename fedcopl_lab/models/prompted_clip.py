"""A frozen CLIP with learned text and visual prompts, computing only what the prompts can change."""

from collections.abc import Callable, Sequence
from typing import Any, overload

import open_clip
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.models.layers import Layer, project
from fedcopl_lab.models.towers import tower_of

PROMPT_STD = 0.02  # spread of the initial prompts, spec of the released code

Images = Float[Tensor, "_ 3 _ _"] | Float[Tensor, "_ _ _"]
"""Pixels [B, 3, H, W], or what :meth:`PromptedCLIP.image_tokens` made of them, [B, n, width]."""


class PromptedCLIP:
    """CLIP with a text prompt shared by all classes and deep visual prompts (Sec. 3.1, Eq. 1).

    The forward pass equals the plain one (every class with its full padded text, prompt tokens appended to
    the image tokens and dropped after each layer) up to rounding, with less work: the positions that all
    classes share (start token and text prompt) run once; a class runs only its own tokens up to the end
    token; visual prompts enter as keys and values only, since their outputs are dropped; the last layers
    run only the token that is read.

    Prompts of several clients may come stacked, [K, …], with a list of one image batch per client; batches
    may differ in size, results are a list as well, and each client's loss reaches its own prompt alone.

    Args:
        model: a frozen ``open_clip.CLIP``; its image tower is a ViT that reads its class token, or a
            ModifiedResNet, whose prompts enter the attention pool (our reading: the paper names none).
        tokenizer: list of strings -> token ids, [n, context_length].
        class_names: the classes as the prompts name them, C of them.
        n_text: vectors of the text prompt.
        visual_depth: image layers that get prompts, counted from the input; None: all but the last. For a
            ModifiedResNet 1 (None) or 0, text only.
        n_visual: vectors per prompted image layer.
        precision: ``"fp32"`` computes in the type of the weights; ``"bf16"`` runs the layers' matrix
            products in bfloat16, while prompts, norms, sums, features and logits stay as they are.

    Raises:
        FedCoPLError: another kind of image tower, a depth the tower does not have, no class, a negative
            number of vectors, or a class name too long for the context.

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
        precision: str = "fp32",
    ) -> None:
        check_choice("precision", precision, ("fp32", "bf16"))
        if not class_names or min(n_text, n_visual) < 0:
            raise FedCoPLError(
                f"{len(class_names)} classes, n_text={n_text}, n_visual={n_visual}; expected a class, no size below 0"
            )
        dtype = torch.bfloat16 if precision == "bf16" else None
        self.model = model
        self.precision = precision
        self.tower = tower_of(model, visual_depth, dtype)
        self.text_layers = [Layer.of(block, dtype) for block in model.transformer.resblocks]
        self.class_names = tuple(class_names)
        self.visual_depth = self.tower.depth
        self.text_shape = (n_text, model.token_embedding.embedding_dim)
        self.visual_shape = (self.visual_depth, n_visual, self.tower.prompt_width)
        self._embed_class_names(tokenizer)

    def initial_prompts(
        self, generator: torch.Generator
    ) -> tuple[Float[Tensor, "n_text text_width"], Float[Tensor, "depth n_visual image_width"]]:
        """A text and a visual prompt drawn from N(0, 0.02²), as the released code starts."""
        weight = self.model.token_embedding.weight
        text = torch.randn(self.text_shape, generator=generator) * PROMPT_STD
        visual = torch.randn(self.visual_shape, generator=generator) * PROMPT_STD
        return text.to(weight), visual.to(weight)

    def text_features(
        self, text_prompt: Float[Tensor, "n_text text_width"] | Float[Tensor, "k n_text text_width"]
    ) -> Float[Tensor, "c d"] | Float[Tensor, "k c d"]:
        """Unit features of ``[start] prompt name . [end]`` for every class, [C, d], or [K, C, d] for K prompts."""
        _check_shape("text", text_prompt, self.text_shape, stacked=text_prompt.ndim == 3)
        prompts = text_prompt if text_prompt.ndim == 3 else text_prompt[None]
        clients, classes = len(prompts), len(self.class_names)
        start = self._start.expand(clients, -1, -1)
        shared = torch.cat([start, prompts], dim=1) + self._shared_positions
        own, own_qkv = self._own_embedding, self._own_qkv  # [C, …] until prompts mix in, then [K * C, …]
        if clients > 1:
            own, own_qkv = own.repeat(clients, 1, 1), own_qkv.repeat(clients, 1, 1)
        sizes, last = [classes] * clients, len(self.text_layers) - 1
        for i, layer in enumerate(self.text_layers):
            if i == last:
                ends = self._end.repeat(clients)
                at_end = torch.arange(len(own), device=own.device)[:, None], ends[:, None]
                own = layer(own, layer.keys_values(shared), sizes, self._own_mask[ends][:, None, None], reads=at_end)
                break
            shared_qkv = layer.queries_keys_values(shared)
            common = shared_qkv[..., shared.shape[-1] :]
            own = layer(own, common, sizes, self._own_mask, projected=own_qkv if i == 0 else None)
            shared = layer(shared, mask=self._shared_mask, projected=shared_qkv)
        features = F.normalize(project(self.model.ln_final(own[:, 0]), self.model.text_projection), dim=-1)
        return features.unflatten(0, (clients, classes)) if text_prompt.ndim == 3 else features

    @torch.no_grad()
    def image_tokens(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n image_width"]:
        """What enters the first prompted layer; constant per image, so that training computes it once."""
        return self.tower.tokens(images)

    @overload
    def image_features(self, images: Tensor, visual_prompt: Tensor) -> Tensor: ...

    @overload
    def image_features(self, images: Sequence[Tensor], visual_prompt: Tensor) -> list[Tensor]: ...

    def image_features(
        self,
        images: Images | Sequence[Images],
        visual_prompt: Float[Tensor, "depth n_visual image_width"] | Float[Tensor, "k depth n_visual image_width"],
    ) -> Float[Tensor, "b d"] | list[Tensor]:
        """Unit features of images, or of their :meth:`image_tokens`, under the visual prompt, [B, d].

        With K stacked prompts ``images`` is a list of K batches, and so is the result.
        """
        return self._features(images, visual_prompt, patches=False)

    def patch_features(
        self,
        images: Images | Sequence[Images],
        visual_prompt: Float[Tensor, "depth n_visual image_width"] | Float[Tensor, "k depth n_visual image_width"],
    ) -> Any:
        """Unit features of every patch under the visual prompt, without the class token, [B, patches, d].

        For a ModifiedResNet the patches are the positions of its last feature map, each with a query of its own in
        the attention pool, as the mean token has (our reading: the paper names none). Stacks as above.
        """
        return self._features(images, visual_prompt, patches=True)

    @overload
    def logits(self, images: Tensor, text_prompt: Tensor, visual_prompt: Tensor) -> Tensor: ...

    @overload
    def logits(self, images: Sequence[Tensor], text_prompt: Tensor, visual_prompt: Tensor) -> list[Tensor]: ...

    def logits(
        self,
        images: Images | Sequence[Images],
        text_prompt: Float[Tensor, "n_text text_width"] | Float[Tensor, "k_text n_text text_width"],
        visual_prompt: Float[Tensor, "depth n_visual image_width"] | Float[Tensor, "k depth n_visual image_width"],
    ) -> Float[Tensor, "b c"] | list[Tensor]:
        """Cosine similarities times the model's own logit scale, [B, C], or a list of them (Eq. 1)."""
        features, texts = self.image_features(images, visual_prompt), self.text_features(text_prompt)
        if isinstance(features, Tensor):
            return self.logits_from_features(features, texts)
        if len(features) != len(texts):
            raise FedCoPLError(f"{len(features)} image batches came with {len(texts)} text prompts; expected as many")
        return [self.logits_from_features(own, text) for own, text in zip(features, texts, strict=True)]

    def logits_from_features(
        self, image_features: Float[Tensor, "b d"], text_features: Float[Tensor, "c d"]
    ) -> Float[Tensor, "b c"]:
        """The same from unit features that are known already, [B, C]."""
        return self.model.logit_scale.exp() * image_features @ text_features.T

    @property
    def own_lengths(self) -> list[int]:
        """Tokens that belong to each class alone: its name, the period and the end token."""
        return [end + 1 for end in self._end.tolist()]

    def __repr__(self) -> str:
        return f"PromptedCLIP({len(self.class_names)} classes, text {self.text_shape}, visual {self.visual_shape})"

    def _features(
        self, images: Images | Sequence[Images], visual_prompt: Tensor, patches: bool
    ) -> Tensor | list[Tensor]:
        """All tokens one after another through the tower, split again by prompt."""
        alone = isinstance(images, Tensor)
        _check_shape("visual", visual_prompt, self.visual_shape, stacked=not alone)
        batches, prompts = ([images], visual_prompt[None]) if isinstance(images, Tensor) else (images, visual_prompt)
        if len(batches) != len(prompts):
            raise FedCoPLError(f"{len(batches)} image batches came with {len(prompts)} prompts; expected as many")
        tokens = [self.image_tokens(batch) if batch.ndim == 4 else batch for batch in batches]
        sizes = [len(batch) for batch in batches]
        together = torch.cat(tokens) if len(tokens) > 1 else tokens[0]
        every = self.tower.features(together, prompts, sizes, together.shape[1] if patches else 1)
        features = F.normalize(every[:, 1:] if patches else every[:, 0], dim=-1)
        return features if alone else list(features.split(sizes))

    def _embed_class_names(self, tokenizer: Callable[[list[str]], Tensor]) -> None:
        """Compute once what no prompt changes in the texts: start token, positions, each class's own tokens."""
        weight = self.model.token_embedding.weight
        context = self.model.positional_embedding.shape[0]
        shared = 1 + self.text_shape[0]
        tokens = tokenizer([f"{name}." for name in self.class_names])
        own_length = tokens.argmax(dim=1)  # the end token has the highest id; the start token is not counted
        self._end, tokens = (own_length - 1).to(weight.device), tokens.to(weight.device)
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
            self._own_qkv = self.text_layers[0].queries_keys_values(self._own_embedding)
        every = torch.ones(longest, shared, dtype=torch.bool, device=weight.device)
        self._own_mask = torch.cat([_earlier(longest, weight.device), every], dim=1)
        self._shared_mask = _earlier(shared, weight.device)


@torch.no_grad()
def image_tokens(model: open_clip.CLIP, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n image_width"]:
    """What enters the first prompted layer: all that no prompt can change."""
    return tower_of(model, None).tokens(images)


def _earlier(n: int, device: torch.device) -> Bool[Tensor, "n n"]:
    """Which tokens each token of a text sees: itself and those before it."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def _check_shape(part: str, prompt: Tensor, expected: tuple[int, ...], stacked: bool) -> None:
    shape = tuple(prompt.shape)
    if shape[1:] != expected if stacked else shape != expected:
        wanted = f"[K, {', '.join(map(str, expected))}]" if stacked else str(expected)
        raise FedCoPLError(f"{part} prompt has shape {shape}; expected {wanted}")
