"""What the tests of the steps share: a check of error messages, and a small random CLIP with a plain forward."""

from contextlib import contextmanager
from types import SimpleNamespace

import open_clip
import pytest
import torch
from torch.nn import functional as F

from fedcopl_lab import FedCoPLError
from fedcopl_lab.models.prompted_clip import PromptedCLIP

NAMES = ["zero", "forest-fire", "a very long name"]


@pytest.fixture
def refused():
    """A context that expects our own error, on one line, with all of the given words."""

    @contextmanager
    def check(*words):
        with pytest.raises(FedCoPLError) as caught:
            yield
        message = str(caught.value)
        assert "\n" not in message
        for word in words:
            assert word in message

    return check


@pytest.fixture(scope="session")
def small():
    """A random float64 CLIP, its fast prompted form, and the plain form of the same logits."""
    torch.manual_seed(0)
    text = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}
    vision = {"image_size": 16, "layers": 3, "width": 24, "head_width": 12, "patch_size": 8}
    model = open_clip.CLIP(12, vision, text).eval().double()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if parameter.ndim == 1:  # biases start at 0, which would hide a forgotten one
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.logit_scale.fill_(2.0)
    tokenizer = open_clip.SimpleTokenizer(context_length=16)
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4, n_visual=3)

    def plain_logits(images, text_prompt, visual_prompt):
        tokens = tokenizer([f"X X X X {name}." for name in NAMES])
        x = model.token_embedding(tokens)
        x = torch.cat([x[:, :1], text_prompt.expand(len(NAMES), -1, -1), x[:, 5:]], dim=1)
        x = model.transformer(x + model.positional_embedding, attn_mask=model.attn_mask)
        x = model.ln_final(x)[torch.arange(len(NAMES)), tokens.argmax(dim=1)]
        texts = F.normalize(x @ model.text_projection, dim=-1)
        y = model.visual._embeds(images)
        n = y.shape[1]
        for i, block in enumerate(model.visual.transformer.resblocks):
            if i < len(visual_prompt):
                y = torch.cat([y, visual_prompt[i].expand(len(y), -1, -1)], dim=1)
            y = block(y)[:, :n]
        features = F.normalize(model.visual.ln_post(y)[:, 0] @ model.visual.proj, dim=-1)
        return model.logit_scale.exp() * features @ texts.T

    images = torch.randn(9, 3, 16, 16, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return SimpleNamespace(
        model=model, tokenizer=tokenizer, prompted=prompted, plain_logits=plain_logits, images=images
    )
