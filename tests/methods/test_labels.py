"""The labellers as compositions of the steps."""

import pytest
import torch

from fedcopl_lab import allocate, configure, filter_confident, select_top
from fedcopl_lab.methods import copl, fpl

SIZES = (40, 7, 25)


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(4)
    return [(4 + k) * torch.randn(n, 4, generator=generator) for k, n in enumerate(SIZES)]


def pairs(chosen):
    return sorted(zip(chosen.indices.tolist(), chosen.labels.tolist(), strict=True))


def run_copl(logits, **changes):
    return copl(logits, configure("smoke", n_clients=3, **changes), n_train=sum(SIZES), phase=0)


def test_copl_filters_on_clients_allocates_once_and_selects(logits):
    before = [z.clone() for z in logits]
    phase = run_copl(logits, q_conf=0.4, q_ent=0.3)
    filtered = [filter_confident(z, 0.4, 0.3) for z in logits]
    quota = allocate(torch.stack([one.counts for one in filtered])).quota
    assert torch.equal(phase.quota, quota)
    assert [one.kept.tolist() for one in phase.filtered] == [one.kept.tolist() for one in filtered]
    for z, own, chosen in zip(logits, quota, phase.labels, strict=True):
        assert pairs(chosen) == pairs(select_top(z, own))
        assert torch.equal(z.argmax(dim=1)[chosen.indices], chosen.labels)
    assert all(torch.equal(a, b) for a, b in zip(logits, before, strict=True))


def test_global_scope_filters_all_images_together(logits):
    phase = run_copl(logits, filter_scope="global", q_conf=0.5, q_ent=0.4)
    pooled = filter_confident(torch.cat(logits), 0.5, 0.4)
    assert torch.cat([one.kept for one in phase.filtered]).tolist() == pooled.kept.tolist()
    assert [len(one.kept) for one in phase.filtered] == list(SIZES)
    assert torch.equal(sum(one.counts for one in phase.filtered), pooled.counts)
    assert {one.confidence_threshold for one in phase.filtered} == {pooled.confidence_threshold}
    start = 0
    for one, size in zip(phase.filtered, SIZES, strict=True):
        predicted = torch.cat(logits).argmax(dim=1)[start : start + size]
        assert one.labels.tolist() == predicted.tolist()
        assert one.counts.tolist() == [int((predicted[one.kept] == c).sum()) for c in range(4)]
        start += size
    own = run_copl(logits, filter_scope="client", q_conf=0.5, q_ent=0.4)
    assert [one.counts.tolist() for one in own.filtered] != [one.counts.tolist() for one in phase.filtered]


@pytest.mark.parametrize("scope", ["client", "global"])
def test_without_allocation_the_filtered_images_are_the_labels(logits, scope):
    phase = run_copl(logits, allocation="none", filter_scope=scope)
    for one, chosen, quota in zip(phase.filtered, phase.labels, phase.quota, strict=True):
        kept = one.kept.nonzero().squeeze(1)
        assert chosen.indices.tolist() == kept.tolist()
        assert torch.equal(chosen.labels, one.labels[kept])
        assert torch.equal(chosen.counts(4), quota)
        assert torch.equal(quota, one.counts)


def test_authors_switches_reach_the_allocation(logits):
    never = torch.tensor([0.0, 0.0, 0.0, -100.0])  # nobody predicts the last class
    authors = {"allocation": "authors", "unseen_class": "authors_quota"}
    config = configure("smoke", n_clients=3, **authors)
    scores = [z + never for z in logits]
    quota = [copl(scores, config, n_train=720, phase=t).quota[:, 3].tolist() for t in range(2)]
    assert quota == [[15] * 3, [30] * 3]  # 720 / (4 * 4) * (t + 1) / 3
    assert run_copl(scores).quota[:, 3].tolist() == [0, 0, 0]
    assert run_copl(scores, allocation="authors").quota[:, 3].tolist() == [0, 0, 0]


def test_candidates_reach_the_selection(logits):
    scarce = [z + torch.tensor([6.0, 0, 0, 0]) for z in logits]
    config = {"q_conf": 0.2, "q_ent": 0.2}
    few, many = (run_copl(scarce, candidates=word, **config) for word in ("argmax", "any"))
    assert sum(map(len, many.labels)) > sum(map(len, few.labels))
    assert torch.equal(few.quota, many.quota)


def test_fpl_takes_the_same_number_of_every_class(logits):
    phase = fpl(logits, configure("smoke", method="PromptFL", n_clients=3, shots=3))
    assert phase.filtered == ()
    assert phase.quota.tolist() == [[3] * 4] * 3
    for z, chosen in zip(logits, phase.labels, strict=True):
        predicted = z.argmax(dim=1)
        confidence = z.double().softmax(dim=1).max(dim=1).values
        for c in range(4):
            pool = sorted((predicted == c).nonzero().squeeze(1).tolist(), key=lambda i: -confidence[i])
            assert chosen.indices[chosen.labels == c].tolist() == pool[:3]
