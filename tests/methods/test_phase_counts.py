"""Counts of a label phase against counting one image at a time."""

from dataclasses import replace

import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab.methods import copl, phase_counts


@pytest.fixture
def phase_and_truth():
    generator = torch.Generator().manual_seed(4)
    logits = [3 * torch.randn(n, 4, generator=generator) for n in (30, 21)]
    true = [torch.randint(4, (len(z),), generator=generator) for z in logits]
    return copl(logits, lab.configure("smoke"), n_train=51, phase=0), true


def test_every_stage_is_counted(phase_and_truth):
    phase, true = phase_and_truth
    counts = phase_counts(phase, true)
    for k, t in enumerate(true):
        filtered, chosen = phase.filtered[k], phase.labels[k]
        predicted = phase.logits[k].argmax(dim=1).tolist()
        kept = [(predicted[i], int(t[i])) for i in range(len(t)) if filtered.kept[i]]
        selected = list(zip(chosen.labels.tolist(), t[chosen.indices].tolist(), strict=True))
        for c in range(4):
            assert counts.true[k, c] == sum(int(x) == c for x in t)
            assert counts.predicted[k, c] == predicted.count(c)
            assert counts.kept[k, c] == sum(label == c for label, _ in kept)
            assert counts.kept_right[k, c] == sum(label == c == truth for label, truth in kept)
            assert counts.selected[k, c] == sum(label == c for label, _ in selected)
            assert counts.selected_right[k, c] == sum(label == c == truth for label, truth in selected)
    right = [label == truth for label, truth in selected]
    assert counts.accuracy("selected")[1] == pytest.approx(sum(right) / len(right), abs=1e-12)


def test_a_phase_without_filter_is_refused(phase_and_truth):
    phase, true = phase_and_truth
    with pytest.raises(lab.FedCoPLError, match="count a phase of the labeller CoPL"):
        phase_counts(replace(phase, filtered=()), true)
