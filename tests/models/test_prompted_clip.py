"""The fast forward equals the plain one: every class with its full padded text, prompts appended and dropped."""

import open_clip
import pytest
import torch
from torch.nn import functional as F

from fedcopl_lab import FedCoPLError, PromptedCLIP
from fedcopl_lab.extras.bench.plain_prompted import PlainPromptedCLIP

NAMES = ["zero", "a very long class name of ten whole words here", "six", "forest-fire", "UFO"]


def random_clip(layers=3, quick_gelu=False, dtype=torch.float64, vision=None):
    torch.manual_seed(0)
    text = {"context_length": 32, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
    vision = vision or {"image_size": 16, "layers": layers, "width": 48, "head_width": 16, "patch_size": 8}
    model = open_clip.CLIP(24, vision, text, quick_gelu=quick_gelu).eval().to(dtype)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if parameter.ndim == 1:  # biases start at 0 in open_clip, which would hide a forgotten one
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.logit_scale.fill_(2.0)
    return model, open_clip.SimpleTokenizer(context_length=32)


def random_resnet():
    vision = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
    return random_clip(quick_gelu=True, vision=vision)


def prompted_clip(seed=1, **changes):
    model, tokenizer = random_clip(**changes)
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4)
    return model, tokenizer, prompted, *prompted.initial_prompts(torch.Generator().manual_seed(seed))


def plain_logits(model, tokenizer, names, images, text, visual):
    return PlainPromptedCLIP(model, tokenizer, names).logits(images, text, visual)


def gradients(function, *prompts):
    prompts = [p.clone().requires_grad_() for p in prompts]
    logits = function(*prompts)
    labels = torch.arange(len(logits), device=logits.device) % logits.shape[1]
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
    plain = PlainPromptedCLIP(model, tokenizer, names).text_features(text)
    assert (prompted.text_features(text) - plain).abs().max() <= 1e-10


def test_float32_agrees_to_1e_5():
    model, tokenizer, prompted, text, visual = prompted_clip(dtype=torch.float32)
    images = torch.randn(7, 3, 16, 16)
    plain = plain_logits(model, tokenizer, NAMES, images, text, visual)
    assert (prompted.logits(images, text, visual) - plain).abs().max() <= 1e-5 * plain.abs().max()


def test_image_tokens_give_the_features_of_their_images():
    _, _, prompted, _, visual = prompted_clip(3)
    images = torch.randn(4, 3, 16, 16, dtype=torch.float64)
    tokens = prompted.image_tokens(images)
    assert torch.equal(prompted.image_features(images, visual), prompted.image_features(tokens, visual))


def test_default_depth_is_all_layers_but_the_last():
    model, tokenizer = random_clip(layers=3)
    assert PromptedCLIP(model, tokenizer, NAMES, n_text=4).visual_shape == (2, 5, 48)


@pytest.mark.parametrize(
    ("names", "sizes", "message"),
    [
        *((NAMES, {"visual_depth": depth}, "visual_depth") for depth in (0, 4, -1)),
        ((), {}, r"0 classes, n_text=.*; expected a class, no size below 0"),
        (("a",), {"n_text": -1}, "n_text=-1, n_visual=5; expected a class, no size below 0"),
        (("a",), {"n_visual": -2}, "n_visual=-2; expected a class, no size below 0"),
        (("zero", "long " * 40 + "name"), {}, r"class name 'long long.*context holds 32"),
        (("zero",), {"n_text": 29}, "'zero' needs 3 tokens"),
        (NAMES, {"precision": "fp8"}, "precision='fp8' is unknown; choose one of fp32, bf16"),
    ],
)
def test_refuses_sizes_and_names_that_do_not_fit_the_model(names, sizes, message):
    with pytest.raises(FedCoPLError, match=message):
        PromptedCLIP(*random_clip(), names, **{"n_text": 4, **sizes})
    assert PromptedCLIP(*random_clip(), ["zero"], n_text=28).text_shape == (28, 32)


def test_refuses_an_image_tower_without_a_class_token():
    model, tokenizer = random_clip()
    model.visual.pool_type = "avg"
    with pytest.raises(FedCoPLError, match="the image tower is VisionTransformer; expected a ViT that reads its class"):
        PromptedCLIP(model, tokenizer, NAMES, n_text=4)


def test_layers_that_are_not_batch_first():
    model, tokenizer, first, text, visual = prompted_clip()
    images = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    expected = first.logits(images, text, visual)
    for tower in (model.transformer, model.visual.transformer):
        tower.batch_first = False
        for block in tower.resblocks:
            block.attn.batch_first = False
    assert torch.equal(PromptedCLIP(model, tokenizer, NAMES, n_text=4).logits(images, text, visual), expected)
    assert (plain_logits(model, tokenizer, NAMES, images, text, visual) - expected).abs().max() <= 1e-10


def stack_of(prompted, n_clients, sizes):
    """Prompts that differ by client, [K, …], and image batches of the given sizes."""
    drawn = [prompted.initial_prompts(torch.Generator().manual_seed(k)) for k in range(n_clients)]
    text, visual = (torch.stack(part) for part in zip(*drawn, strict=True))
    generator = torch.Generator().manual_seed(9)
    return [torch.randn(n, 3, 16, 16, dtype=torch.float64, generator=generator) for n in sizes], text, visual


@pytest.mark.parametrize("quick_gelu", [False, True])
@pytest.mark.parametrize("sizes", [(4,), (1, 1), (3, 1, 5)])
def test_several_clients_equal_one_by_one(sizes, quick_gelu):
    prompted = PromptedCLIP(*random_clip(quick_gelu=quick_gelu), NAMES, n_text=4, n_visual=3)
    images, text, visual = stack_of(prompted, len(sizes), sizes)
    text, visual = text.requires_grad_(), visual.requires_grad_()
    labels = [torch.arange(n) % len(NAMES) for n in sizes]
    together = prompted.logits(images, text, visual)
    loss = sum(F.cross_entropy(z, y) for z, y in zip(together, labels, strict=True))
    gradients_together = torch.autograd.grad(loss, (text, visual))
    assert prompted.text_features(text).shape == (len(sizes), len(NAMES), 24)
    for k, batch in enumerate(images):
        own, own_gradients = text[k].detach().requires_grad_(), visual[k].detach().requires_grad_()
        alone = prompted.logits(batch, own, own_gradients)
        assert together[k].shape == (sizes[k], len(NAMES))
        assert (together[k] - alone).abs().max() <= 1e-10
        expected = torch.autograd.grad(F.cross_entropy(alone, labels[k]), (own, own_gradients))
        for stacked, single in zip(gradients_together, expected, strict=True):
            assert (stacked[k] - single).abs().max() <= 1e-10


def test_no_gradient_reaches_another_client():
    prompted = PromptedCLIP(*random_clip(), NAMES, n_text=4, n_visual=3)
    images, text, visual = stack_of(prompted, 3, (2, 4, 3))
    text, visual = text.requires_grad_(), visual.requires_grad_()
    for gradient in torch.autograd.grad(prompted.logits(images, text, visual)[1].square().sum(), (text, visual)):
        assert gradient[1].abs().max() > 0
        assert not gradient[0].any()
        assert not gradient[2].any()


def test_stack_of_tokens_equals_stack_of_pixels():
    prompted = PromptedCLIP(*random_clip(), NAMES, n_text=4)
    images, _, visual = stack_of(prompted, 2, (2, 3))
    tokens = [prompted.image_tokens(batch) for batch in images]
    for a, b in zip(prompted.image_features(images, visual), prompted.image_features(tokens, visual), strict=True):
        assert (a - b).abs().max() <= 1e-12


def test_refuses_prompts_of_another_shape_and_stacks_that_do_not_fit_each_other():
    prompted = PromptedCLIP(*random_clip(), NAMES, n_text=4)
    images, text, visual = stack_of(prompted, 2, (2, 3))
    with pytest.raises(FedCoPLError, match="text prompt has shape"):
        prompted.text_features(torch.zeros(5, 32, dtype=torch.float64))
    with pytest.raises(FedCoPLError, match="visual prompt has shape"):
        prompted.image_features(images[0], torch.zeros(2, 4, 48, dtype=torch.float64))
    with pytest.raises(FedCoPLError, match="2 image batches came with 1 prompts"):
        prompted.image_features(images, visual[:1])
    with pytest.raises(FedCoPLError, match="2 image batches came with 1 text prompts"):
        prompted.logits(images, text[:1], visual)
    with pytest.raises(FedCoPLError, match=r"visual prompt has shape \(2, 2, 5, 48\); expected \(2, 5, 48\)"):
        prompted.image_features(images[0], visual)
    with pytest.raises(FedCoPLError, match=r"text prompt has shape \(2, 3, 32\); expected \[K, 4, 32\]"):
        prompted.text_features(text[:, :3])


def test_patch_features_under_a_prompt_are_those_of_the_plain_tower():
    model, _, prompted, _, visual = prompted_clip(3, layers=2)
    images = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    x = model.visual._embeds(images)
    first, second = model.visual.transformer.resblocks
    x = first(torch.cat([x, visual[0].expand(3, -1, -1)], dim=1))[:, :5]
    plain = F.normalize(model.visual.ln_post(second(x)) @ model.visual.proj, dim=-1)
    assert (prompted.patch_features(images, visual) - plain[:, 1:]).abs().max() <= 1e-10
    assert (prompted.image_features(images, visual) - plain[:, 0]).abs().max() <= 1e-10


def test_patch_features_leave_the_class_token_out():
    model, tokenizer = random_clip(layers=3)
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4, n_visual=3)
    images, _, visual = stack_of(prompted, 2, (3, 2))
    together = prompted.patch_features(images, visual)
    for k, batch in enumerate(images):
        patches = prompted.patch_features(batch, visual[k])
        assert patches.shape == (len(batch), 4, 24)
        assert (together[k] - patches).abs().max() <= 1e-12
    without = PromptedCLIP(model, tokenizer, NAMES, n_text=4, n_visual=0)
    none = torch.zeros(without.visual_shape, dtype=torch.float64)
    plain = model.visual.transformer(model.visual._embeds(images[0]))
    plain = F.normalize(model.visual.ln_post(plain) @ model.visual.proj, dim=-1)
    assert (without.patch_features(images[0], none) - plain[:, 1:]).abs().max() <= 1e-10


def test_bf16_stays_close_and_keeps_what_is_summed_in_fp32():
    model, tokenizer = random_clip(dtype=torch.float32)
    full, half = (PromptedCLIP(model, tokenizer, NAMES, n_text=4, precision=p) for p in ("fp32", "bf16"))
    text, visual = full.initial_prompts(torch.Generator().manual_seed(1))
    images = torch.randn(6, 3, 16, 16)
    expected, expected_gradients = gradients(lambda t, v: full.logits(images, t, v), text, visual)
    found, found_gradients = gradients(lambda t, v: half.logits(images, t, v), text, visual)
    assert found.dtype == torch.float32
    assert all(g.dtype == torch.float32 for g in found_gradients)
    assert 0 < (found - expected).abs().max() <= 0.05 * expected.abs().max()
    for ours, theirs in zip(found_gradients, expected_gradients, strict=True):
        assert F.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("depth", [None, 0])
def test_resnet_takes_prompts_in_its_attention_pool_or_only_text(depth):
    model, tokenizer = random_resnet()
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4, visual_depth=depth, n_visual=3)
    assert prompted.visual_shape == (1 if depth is None else 0, 3, 256)
    text, visual = prompted.initial_prompts(torch.Generator().manual_seed(1))
    images = torch.randn(3, 3, 64, 64, dtype=torch.float64)
    plain = plain_logits(model, tokenizer, NAMES, images, text, visual)
    assert (prompted.logits(images, text, visual) - plain).abs().max() <= 1e-10
    if depth == 0:
        own = F.normalize(model.encode_image(images), dim=-1)
        assert (prompted.image_features(images, visual) - own).abs().max() <= 1e-10
        return
    _, fast = gradients(lambda t, v: prompted.logits(images, t, v), text, visual)
    _, slow = gradients(lambda t, v: plain_logits(model, tokenizer, NAMES, images, t, v), text, visual)
    for ours, theirs in zip(fast, slow, strict=True):
        assert ours.abs().max() > 0
        assert (ours - theirs).abs().max() <= 1e-10


def test_resnet_patches_are_the_attention_pool_with_a_query_per_position():
    model, tokenizer = random_resnet()
    prompted = PromptedCLIP(model, tokenizer, NAMES, n_text=4, n_visual=3)
    _, visual = prompted.initial_prompts(torch.Generator().manual_seed(1))
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    tokens, pool = prompted.image_tokens(images), model.visual.attnpool
    everything = torch.cat([tokens, visual[0].expand(2, -1, -1)], dim=1)
    heads = pool.num_heads
    keys, values = (part(everything).unflatten(-1, (heads, -1)) for part in (pool.k_proj, pool.v_proj))
    queries = pool.q_proj(tokens[:, 1:]).unflatten(-1, (heads, -1))
    attention = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
    mixed = torch.einsum("bhqk,bkhd->bqhd", attention.softmax(dim=-1), values).flatten(2)
    expected = F.normalize(pool.c_proj(mixed), dim=-1)
    assert (prompted.patch_features(images, visual) - expected).abs().max() <= 1e-10


def test_resnet_refuses_what_it_does_not_have():
    model, tokenizer = random_resnet()
    with pytest.raises(FedCoPLError, match="visual_depth=2; a ModifiedResNet takes 1"):
        PromptedCLIP(model, tokenizer, NAMES, n_text=4, visual_depth=2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("bf16", 5e-2)])
def test_gpu_agrees_with_cpu(precision, tolerance):
    model, tokenizer, on_cpu, text, visual = prompted_clip(dtype=torch.float32)
    images = torch.randn(6, 3, 16, 16)
    expected, expected_gradients = gradients(lambda t, v: on_cpu.logits(images, t, v), text, visual)
    on_gpu = PromptedCLIP(model.cuda(), tokenizer, NAMES, n_text=4, precision=precision)
    found, found_gradients = gradients(lambda t, v: on_gpu.logits(images.cuda(), t, v), text.cuda(), visual.cuda())
    assert (found.cpu() - expected).abs().max() <= tolerance * expected.abs().max()
    for ours, theirs in zip(found_gradients, expected_gradients, strict=True):
        assert (ours.cpu() - theirs).abs().max() <= 4 * tolerance * theirs.abs().max()
