"""What the tests of the steps share: a check of error messages, and a small random CLIP with a plain forward."""

from contextlib import contextmanager
from types import SimpleNamespace

import open_clip
import pytest
import torch

from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.bench.plain_prompted import PlainPromptedCLIP
from fedcopl_lab.models import PromptedCLIP

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

    plain = PlainPromptedCLIP(model, tokenizer, NAMES)
    images = torch.randn(9, 3, 16, 16, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return SimpleNamespace(
        model=model, tokenizer=tokenizer, prompted=prompted, plain_logits=plain.logits, images=images
    )
