"""The fast forward equals the plain one: every class with its full padded text, prompts appended and dropped."""

import open_clip
import pytest
import torch
from torch.nn import functional as F

from fedcopl_lab import FedCoPLError, PromptedCLIP

NAMES = ["zero", "a very long class name of ten whole words here", "six", "forest-fire", "UFO"]


def random_clip(layers=3, quick_gelu=False, dtype=torch.float64, context=32, seed=0):
    torch.manual_seed(seed)
    text = {"context_length": context, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
    vision = {"image_size": 16, "layers": layers, "width": 48, "head_width": 16, "patch_size": 8}
    model = open_clip.CLIP(24, vision, text, quick_gelu=quick_gelu).eval().to(dtype)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if parameter.ndim == 1:  # biases start at 0 in open_clip, which would hide a forgotten one
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.logit_scale.fill_(2.0)
    return model, open_clip.SimpleTokenizer(context_length=context)


def plain_text_features(model, tokenizer, names, prompt):
    """Tokenise '[X]*n name.', put the prompt over the X's, run all positions of all classes."""
    n = len(prompt)
    tokens = tokenizer([" ".join(["X"] * n) + f" {name}." for name in names])
    x = model.token_embedding(tokens)
    x = torch.cat([x[:, :1], prompt.expand(len(names), -1, -1), x[:, 1 + n :]], dim=1)
    x = model.transformer(x + model.positional_embedding, attn_mask=model.attn_mask)
    x = model.ln_final(x)[torch.arange(len(names)), tokens.argmax(dim=1)]
    return F.normalize(x @ model.text_projection, dim=-1)


def plain_image_features(model, images, prompt):
    """Append each layer's prompt to the tokens, run the layer, drop the prompt's outputs."""
    x = model.visual._embeds(images)
    n = x.shape[1]
    for i, block in enumerate(model.visual.transformer.resblocks):
        if i < len(prompt):
            x = torch.cat([x, prompt[i].expand(len(x), -1, -1)], dim=1)
        x = block(x)[:, :n]
    return F.normalize(model.visual.ln_post(x)[:, 0] @ model.visual.proj, dim=-1)


def plain_logits(model, tokenizer, names, images, text, visual):
    features = plain_text_features(model, tokenizer, names, text)
    return model.logit_scale.exp() * plain_image_features(model, images, visual) @ features.T


def gradients(function, *prompts):
    prompts = [p.clone().requires_grad_() for p in prompts]
    logits = function(*prompts)
    labels = torch.arange(len(logits)) % logits.shape[1]
    return logits.detach(), torch.autograd.grad(F.cross_entropy(logits, labels), prompts)


@pytest.mark.parametrize("quick_gelu", [False, True])
@pytest.mark.parametrize(("layers", "depth"), [(1, 1), (3, None), (3, 3), (3, 1)])
@pytest.mark.parametrize("batch", [1, 5])
def test_logits_and_gradients_equal_the_plain_form(layers, depth, batch, quick_gelu):
    model, tokenizer = random_clip(layers, quick_gelu)
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4, visual_depth=depth, n_visual=3)
    text, visual = prompted.initial_prompts(torch.Generator().manual_seed(1))
    images = torch.randn(batch, 3, 16, 16, dtype=torch.float64)
    fast, fast_gradients = gradients(lambda t, v: prompted.logits(images, t, v), text, visual)
    plain, plain_gradients = gradients(lambda t, v: plain_logits(model, tokenizer, NAMES, images, t, v), text, visual)
    assert (fast - plain).abs().max() <= 1e-10
    for ours, theirs in zip(fast_gradients, plain_gradients, strict=True):
        assert (ours - theirs).abs().max() <= 1e-10
        assert ours.abs().max() > 1e-6


@pytest.mark.parametrize("n_classes", [1, 200])
def test_any_number_of_classes(n_classes):
    model, tokenizer = random_clip()
    names = [f"kind {i}" for i in range(n_classes)]
    prompted = PromptedCLIP(model, tokenizer, names, n_text=8)
    text, _ = prompted.initial_prompts(torch.Generator().manual_seed(2))
    assert (prompted.text_features(text) - plain_text_features(model, tokenizer, names, text)).abs().max() <= 1e-10


def test_float32_agrees_to_1e_5():
    model, tokenizer = random_clip(dtype=torch.float32)
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4)
    text, visual = prompted.initial_prompts(torch.Generator().manual_seed(1))
    images = torch.randn(7, 3, 16, 16)
    plain = plain_logits(model, tokenizer, NAMES, images, text, visual)
    assert (prompted.logits(images, text, visual) - plain).abs().max() <= 1e-5 * plain.abs().max()


def test_image_tokens_give_the_features_of_their_images():
    model, tokenizer = random_clip()
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4)
    _, visual = prompted.initial_prompts(torch.Generator().manual_seed(3))
    images = torch.randn(4, 3, 16, 16, dtype=torch.float64)
    tokens = prompted.image_tokens(images)
    assert torch.equal(prompted.image_features(images, visual), prompted.image_features(tokens, visual))


def test_default_depth_is_all_layers_but_the_last():
    model, tokenizer = random_clip(layers=3)
    assert PromptedCLIP(model, tokenizer, NAMES, n_text=4).visual_shape == (2, 5, 48)


@pytest.mark.parametrize("depth", [0, 4, -1])
def test_refuses_a_depth_the_tower_does_not_have(depth):
    model, tokenizer = random_clip(layers=3)
    with pytest.raises(FedCoPLError, match="visual_depth"):
        PromptedCLIP(model, tokenizer, NAMES, n_text=4, visual_depth=depth)


def test_refuses_a_class_name_that_does_not_fit_the_context():
    model, tokenizer = random_clip()
    with pytest.raises(FedCoPLError, match=r"class name 'long long.*context holds 32"):
        PromptedCLIP(model, tokenizer, ["zero", "long " * 40 + "name"], n_text=4)
    with pytest.raises(FedCoPLError, match="'zero' needs 3 tokens"):
        PromptedCLIP(model, tokenizer, ["zero"], n_text=29)
    assert PromptedCLIP(model, tokenizer, ["zero"], n_text=28).text_shape == (28, 32)


def test_refuses_prompts_of_another_shape():
    model, tokenizer = random_clip()
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4)
    with pytest.raises(FedCoPLError, match="text prompt has shape"):
        prompted.text_features(torch.zeros(5, 32, dtype=torch.float64))
    with pytest.raises(FedCoPLError, match="visual prompt has shape"):
        prompted.image_features(torch.zeros(1, 3, 16, 16, dtype=torch.float64), torch.zeros(2, 4, 48).double())


def test_refuses_an_image_tower_without_a_class_token():
    vision = {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
    text = {"context_length": 32, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    model = open_clip.CLIP(24, vision, text)
    with pytest.raises(FedCoPLError, match="ModifiedResNet"):
        PromptedCLIP(model, open_clip.SimpleTokenizer(context_length=32), NAMES, n_text=4)
