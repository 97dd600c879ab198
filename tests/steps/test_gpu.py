"""The steps on a GPU give what they give on the CPU."""

from copy import deepcopy

import pytest
import torch
from small_round import config_of, start_of, trained

from fedcopl_lab import (
    PromptedCLIP,
    PromptState,
    aggregate,
    allocate,
    cosine_distance,
    drift_diversity,
    filter_confident,
    load_clip,
    select_top,
)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
LOGITS = 20 * torch.randn(64, 5, generator=torch.Generator().manual_seed(0))


def test_filter_and_allocate():
    ours, theirs = filter_confident(LOGITS.cuda()), filter_confident(LOGITS)
    assert torch.equal(ours.kept.cpu(), theirs.kept)
    assert torch.equal(ours.counts.cpu(), theirs.counts)
    counts = torch.stack([theirs.counts, 2 * theirs.counts + 1])
    for mode in ("paper", "authors", "none"):
        on_gpu = allocate(counts.cuda(), mode, n_train=100).quota.cpu()
        assert torch.equal(on_gpu, allocate(counts, mode, n_train=100).quota)


@pytest.mark.parametrize("candidates", ["argmax", "any"])
def test_select(candidates):
    quota = torch.tensor([3, 0, 40, 2, 5])
    ours = select_top(LOGITS.cuda(), quota.cuda(), candidates)
    theirs = select_top(LOGITS, quota, candidates)
    assert torch.equal(ours.indices.cpu(), theirs.indices)
    assert torch.equal(ours.labels.cpu(), theirs.labels)


def test_aggregate_and_drift():
    stacked, weights = LOGITS.view(8, 8, 5), torch.arange(8)
    assert torch.allclose(aggregate(stacked.cuda(), weights).cpu(), aggregate(stacked, weights), rtol=1e-6)
    assert drift_diversity(stacked.cuda()) == pytest.approx(drift_diversity(stacked))
    assert cosine_distance(stacked.cuda()) == pytest.approx(cosine_distance(stacked))


def test_train_round(small):
    on_gpu = PromptedCLIP(
        deepcopy(small.model).cuda(), small.tokenizer, small.prompted.class_names, n_text=4, n_visual=3
    )
    start = start_of(small)
    moved = PromptState(text=start.text.cuda(), visual=start.visual.cuda())
    updates = [
        trained(small, config_of(), start),
        trained(small, config_of(), moved, images=small.images.cuda(), prompted=on_gpu),
    ]
    assert (updates[0].text - updates[1].text.cpu()).abs().max() <= 1e-8
    assert (updates[0].visual - updates[1].visual.cpu()).abs().max() <= 1e-8


@pytest.mark.parametrize("name", ["tiny", "tiny-rn"])
def test_images_as_bytes_become_the_same_input(name):
    side = load_clip(name).image_size
    images = torch.randint(0, 256, (5, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected, found = load_clip(name).to_input(images), load_clip(name, device="cuda").to_input(images)
    assert found.is_cuda
    assert (found.cpu() - expected).abs().max() <= 1e-6


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_stack_of_clients(small, precision):
    on_gpu = PromptedCLIP(
        deepcopy(small.model).float().cuda(), small.tokenizer, small.prompted.class_names, n_text=4, n_visual=3,
        precision=precision,
    )  # fmt: skip
    drawn = [on_gpu.initial_prompts(torch.Generator().manual_seed(k)) for k in range(2)]
    text, visual = (torch.stack(part) for part in zip(*drawn, strict=True))
    batches = [small.images[:3].float().cuda(), small.images[3:4].float().cuda()]
    together = on_gpu.logits(batches, text, visual)
    for k, batch in enumerate(batches):
        alone = on_gpu.logits(batch, text[k], visual[k])
        assert (together[k] - alone).abs().max() <= (1e-4 if precision == "fp32" else 0.05) * alone.abs().max()
