"""The image side of a prompted CLIP: what each kind of tower does with visual prompts."""

from collections.abc import Sequence

import open_clip
import torch
from jaxtyping import Float
from open_clip.modified_resnet import ModifiedResNet
from open_clip.transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.models.layers import Layer, attend, project


def tower_of(model: open_clip.CLIP, depth: int | None, dtype: torch.dtype | None = None) -> "ViTTower | ResNetTower":
    """The tower of a model, with prompts on ``depth`` layers (None: its default) and matrix products of type ``dtype``.

    Raises:
        FedCoPLError: a kind of tower that is not known here, or a depth it does not have.
    """
    visual = model.visual
    if isinstance(visual, ModifiedResNet):
        return ResNetTower(visual, depth)
    plain = isinstance(visual, VisionTransformer) and visual.attn_pool is None and visual.pool_type == "tok"
    if not plain or visual.final_ln_after_pool:
        raise FedCoPLError(
            f"the image tower is {type(visual).__name__}; expected a ViT that reads its class token, such as "
            "ViT-B-32, or a ModifiedResNet, such as RN50"
        )
    return ViTTower(visual, depth, dtype)


class ViTTower:
    """A ViT that reads its class token: prompts are extra keys and values of its layers, from the first one on."""

    def __init__(self, visual: VisionTransformer, depth: int | None, dtype: torch.dtype | None) -> None:
        self.visual = visual
        self.layers = [Layer.of(block, dtype) for block in visual.transformer.resblocks]
        self.depth = len(self.layers) - 1 if depth is None else depth
        self.prompt_width = int(visual.class_embedding.shape[0])
        if not 1 <= self.depth <= len(self.layers):
            raise FedCoPLError(
                f"visual_depth={self.depth}; expected 1 to {len(self.layers)}, the layers of the image tower"
            )

    def tokens(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n width"]:
        """Patches, class token and positions after the first normalisation."""
        return self.visual._embeds(images)

    def features(
        self,
        tokens: Float[Tensor, "b n width"],
        prompts: Float[Tensor, "k depth n_visual width"],
        sizes: Sequence[int],
        n_read: int,
    ) -> Float[Tensor, "b n_read d"]:
        """Features before normalisation of the class token, and behind it of as many patches as are read.

        ``sizes`` says how many images in turn belong to each prompt. Only the tokens that are read go through the
        last layer.
        """
        last, depth = len(self.layers) - 1, self.depth if prompts.numel() else 0
        for i, layer in enumerate(self.layers):
            common = layer.keys_values(prompts[:, i]) if i < depth else None
            reads = (slice(None), slice(n_read)) if i == last and n_read < tokens.shape[1] else None
            tokens = layer(tokens, common, sizes, reads=reads)
        return project(self.visual.ln_post(tokens), self.visual.proj)


class ResNetTower:
    """CLIP's ModifiedResNet: prompts are extra keys and values of its attention pool.

    The paper prints results for RN50 and does not say what a visual prompt is there. This is our reading: the
    attention pool is the tower's one attention layer, so a prompt of depth 1 adds tokens to it, without
    positions, as they enter the layers of a ViT; depth 0 trains the text prompt only.
    """

    def __init__(self, visual: ModifiedResNet, depth: int | None) -> None:
        self.visual = visual
        self.pool = visual.attnpool
        self.depth = 1 if depth is None else depth
        self.prompt_width = int(self.pool.positional_embedding.shape[1])
        if self.depth not in (0, 1):
            raise FedCoPLError(
                f"visual_depth={self.depth}; a ModifiedResNet takes 1 (tokens in its attention pool) or 0 (text only)"
            )

    def tokens(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n width"]:
        """What enters the attention pool: the mean token and every position of the last feature map."""
        visual = self.visual
        x = visual.layer4(visual.layer3(visual.layer2(visual.layer1(visual.stem(images)))))
        x = x.flatten(2).transpose(1, 2)
        return torch.cat([x.mean(dim=1, keepdim=True), x], dim=1) + self.pool.positional_embedding.to(x.dtype)

    def features(
        self,
        tokens: Float[Tensor, "b n width"],
        prompts: Float[Tensor, "k depth n_visual width"],
        sizes: Sequence[int],
        n_read: int,
    ) -> Float[Tensor, "b n_read d"]:
        """Features of the image, whose query is the mean token, and behind it of positions (our reading).

        Keys and values are those of the mean token, of all positions and of the prompt.
        """
        pool = self.pool
        common = None
        if prompts.numel():
            common = torch.cat([part(prompts[:, 0]) for part in (pool.k_proj, pool.v_proj)], dim=2)
        own = torch.cat([part(tokens) for part in (pool.k_proj, pool.v_proj)], dim=2)
        mixed = attend(own, pool.num_heads, queries=pool.q_proj(tokens[:, :n_read]), common=common, sizes=sizes)
        return pool.c_proj(mixed)


def both_features(
    model: open_clip.CLIP, images: Float[Tensor, "n 3 h w"]
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Unit features of images, and the means of their patches' unit features; no prompts."""
    tower = tower_of(model, None)
    tokens = tower.tokens(images)
    none = tokens.new_zeros(1, 0, 0, tokens.shape[2])
    every = F.normalize(tower.features(tokens, none, [len(images)], tokens.shape[1]), dim=-1)
    return every[:, 0], every[:, 1:].mean(dim=1)


class PatchDropout(nn.Module):
    """Leaves out random patches of an image while training, in place of open_clip's ``patch_dropout``.

    It halves the cost and keeps a small model from learning images by heart. Random numbers come from a Generator
    instead of torch's own stream.

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
