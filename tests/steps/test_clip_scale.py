"""The label steps on logits of a real CLIP at its own scale, where those features are stored."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedcopl_lab import allocate, filter_confident, select_top

FEATURES = Path(__file__).resolve().parents[3] / "shared" / "data" / "clip_features"
FILE = FEATURES / "openai_vitb32_cifar10_test500.npz"

pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="needs stored features of OpenAI's CLIP, which are not shipped"
)


@pytest.fixture(scope="module")
def scores():
    """Logits and labels of 500 CIFAR-10 test images under ViT-B/32."""
    stored = np.load(FILE)
    images, texts = (torch.tensor(stored[f"{part}_features"]) for part in ("image", "text"))
    cosine = torch.nn.functional.normalize(images, dim=1) @ torch.nn.functional.normalize(texts, dim=1).T
    return 100 * cosine, torch.tensor(stored["labels"])


@pytest.mark.parametrize("level", [0.3, 0.5, 0.7])
def test_filter_keeps_some_and_the_better_ones(scores, level):
    logits, labels = scores
    kept = filter_confident(logits, level, level)
    right = (kept.labels == labels).float()
    assert not kept.fallback
    assert 0 < int(kept.kept.sum()) <= round(500 * (1 - level))
    assert right[kept.kept].mean() >= right.mean()
    assert 0 < kept.confidence_threshold < 1
    assert kept.entropy_threshold > 0


@pytest.mark.parametrize("mode", ["paper", "authors"])
def test_cooperative_labels_are_at_least_as_right_as_zero_shot(scores, mode):
    logits, labels = scores
    clients = [np.arange(k, 500, 5) for k in range(5)]
    counts = torch.stack([filter_confident(logits[own]).counts for own in clients])
    result = allocate(counts, mode, n_train=500)
    budget = float(counts.sum()) / 10
    assert all(budget <= float(column) < budget + 1 + 5 for column in result.quota.sum(dim=0))
    right = selected = 0
    for own, quota in zip(clients, result.quota, strict=True):
        chosen = select_top(logits[own], quota)
        assert bool((chosen.counts(10) <= quota).all())
        right += int((labels[own][chosen.indices] == chosen.labels).sum())
        selected += len(chosen)
    assert selected > 0
    assert right / selected >= float((logits.argmax(dim=1) == labels).float().mean())
