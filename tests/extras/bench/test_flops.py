"""The count of unavoidable operations, against the published figures and against torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import fedcopl_lab as lab
from fedcopl_lab.extras.bench.flops import SHAPES
from fedcopl_lab.models.prompted_clip import image_tokens

NAMES = ["zero", "one", "a very long name", "two"]


def test_figures_of_the_spec():
    b32, b16 = SHAPES["ViT-B-32"], SHAPES["ViT-B-16"]
    first_projections = 3 * 768**2 / 1e9  # the spec's count also caches these of the image tokens; we do not
    assert b32.image_forward(64) / 64 / 2e9 - 50 * first_projections == pytest.approx(3.92, rel=0.002)
    assert b16.image_forward(64) / 64 / 2e9 - 197 * first_projections == pytest.approx(15.90, rel=0.002)
    assert b32.stem / 1e9 == pytest.approx(0.116, rel=0.01)


@pytest.mark.parametrize("name", ["tiny", "tiny-p1", "tiny-rn", "mini", "mini-traits", "RN50"])
def test_what_precedes_the_prompts_is_counted_as_torch_counts_it(name):
    clip = lab.load_clip(name, weights="random")
    with FlopCounterMode(display=False) as counted:
        tokens = image_tokens(clip.model, torch.randn(1, 3, clip.image_size, clip.image_size))
    assert counted.get_total_flops() == 2 * SHAPES[name].stem
    assert tokens.shape == (1, SHAPES[name].image_tokens, SHAPES[name].image_width)


@pytest.mark.parametrize("name", ["tiny", "tiny-p1", "tiny-rn"])
def test_not_more_than_our_form_does_and_not_much_less(name):
    clip = lab.load_clip(name)
    prompted = lab.PromptedCLIP(clip.model, clip.tokenizer, NAMES, n_text=8)
    text, visual = (p.requires_grad_() for p in prompted.initial_prompts(torch.Generator().manual_seed(0)))
    tokens = prompted.image_tokens(torch.randn(6, 3, clip.image_size, clip.image_size))
    with FlopCounterMode(display=False) as counted:
        prompted.logits(tokens, text, visual).sum().backward()
    minimal = SHAPES[name].step(6, prompted.own_lengths)
    assert 0.75 * counted.get_total_flops() <= minimal <= counted.get_total_flops()
    assert [len(name.split()) for name in NAMES] == [n - 2 for n in prompted.own_lengths]
