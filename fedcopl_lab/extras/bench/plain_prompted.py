"""The plain form of a prompted CLIP, as the released code computes it: what tests and ``bench step`` compare with."""

from collections.abc import Callable, Sequence

import open_clip
import torch
from jaxtyping import Float
from open_clip.modified_resnet import ModifiedResNet
from torch import Tensor
from torch.nn import functional as F


class PlainPromptedCLIP:
    """Every class with its full padded text; visual prompts appended to the tokens and dropped after each layer.

    >>> clip = lab.load_clip("tiny")
    >>> plain = PlainPromptedCLIP(clip.model, clip.tokenizer, ["zero", "one"])
    >>> plain.text_features(torch.zeros(8, 64)).shape
    torch.Size([2, 64])
    """

    def __init__(
        self, model: open_clip.CLIP, tokenizer: Callable[[list[str]], Tensor], class_names: Sequence[str]
    ) -> None:
        self.model, self.tokenizer, self.class_names = model, tokenizer, tuple(class_names)
        self._tokens: dict[int, Tensor] = {}

    def text_features(self, prompt: Float[Tensor, "n_text w"]) -> Float[Tensor, "c d"]:
        """Tokenise ``X … X name.``, put the prompt in the place of the X's, run all positions of all classes."""
        model, n, classes = self.model, len(prompt), len(self.class_names)
        if n not in self._tokens:  # the released code tokenises once as well
            texts = [" ".join(["X"] * n) + f" {name}." for name in self.class_names]
            self._tokens[n] = self.tokenizer(texts).to(prompt.device)
        tokens = self._tokens[n]
        x = model.token_embedding(tokens)
        x = torch.cat([x[:, :1], prompt.expand(classes, -1, -1), x[:, 1 + n :]], dim=1)
        x = model.transformer(x + model.positional_embedding, attn_mask=model.attn_mask)
        x = model.ln_final(x)[torch.arange(classes, device=x.device), tokens.argmax(dim=1)]
        return F.normalize(x @ model.text_projection, dim=-1)

    def image_features(
        self, images: Float[Tensor, "b 3 h w"], prompt: Float[Tensor, "depth n_visual width"]
    ) -> Float[Tensor, "b d"]:
        """Append each layer's prompt to the tokens, run the layer, drop the prompt's outputs."""
        visual = self.model.visual
        if isinstance(visual, ModifiedResNet):
            return F.normalize(_pooled(visual, images, prompt), dim=-1)
        x = visual._embeds(images)
        n = x.shape[1]
        for i, block in enumerate(visual.transformer.resblocks):
            if i < len(prompt):
                x = torch.cat([x, prompt[i].expand(len(x), -1, -1)], dim=1)
            x = _run(block, x, visual.transformer.batch_first)[:, :n]
        return F.normalize(visual.ln_post(x)[:, 0] @ visual.proj, dim=-1)

    def logits(
        self,
        images: Float[Tensor, "b 3 h w"],
        text_prompt: Float[Tensor, "n_text w_text"],
        visual_prompt: Float[Tensor, "depth n_visual width"],
    ) -> Float[Tensor, "b c"]:
        """Cosine similarities times the model's own logit scale."""
        features = self.image_features(images, visual_prompt)
        return self.model.logit_scale.exp() * features @ self.text_features(text_prompt).T

    def __repr__(self) -> str:
        return f"PlainPromptedCLIP({len(self.class_names)} classes)"


def _run(block: torch.nn.Module, x: Float[Tensor, "b n w"], batch_first: bool) -> Float[Tensor, "b n w"]:
    return block(x) if batch_first else block(x.transpose(0, 1)).transpose(0, 1)


def _pooled(
    visual: ModifiedResNet, images: Tensor, prompt: Float[Tensor, "depth n_visual width"]
) -> Float[Tensor, "b d"]:
    """CLIP's attention pool over the feature map with the prompt's tokens behind it, by torch's own attention."""
    x = visual.layer4(visual.layer3(visual.layer2(visual.layer1(visual.stem(images)))))
    pool = visual.attnpool
    x = x.flatten(2).permute(2, 0, 1)
    x = torch.cat([x.mean(dim=0, keepdim=True), x]) + pool.positional_embedding[:, None]
    x = torch.cat([x, *(tokens[:, None].expand(-1, x.shape[1], -1) for tokens in prompt)])
    out, _ = F.multi_head_attention_forward(
        x, x, x, x.shape[-1], pool.num_heads, None,
        torch.cat([pool.q_proj.bias, pool.k_proj.bias, pool.v_proj.bias]),
        None, None, False, 0.0, pool.c_proj.weight, pool.c_proj.bias, training=False, need_weights=False,
        use_separate_proj_weight=True,
        q_proj_weight=pool.q_proj.weight, k_proj_weight=pool.k_proj.weight, v_proj_weight=pool.v_proj.weight,
    )  # fmt: skip
    return out[0]
