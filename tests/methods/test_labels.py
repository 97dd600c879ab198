"""The labellers as compositions of the steps, and the counts of a label phase."""

from dataclasses import replace

import pytest
import torch

from fedcopl_lab import FedCoPLError, allocate, configure, filter_confident, select_top
from fedcopl_lab.config import cpl_levels
from fedcopl_lab.methods import copl, cpl, fpl, make_labels, oracle, phase_counts, upl
from fedcopl_lab.steps import candidate_sets, fill_pools

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


def test_without_a_budget_every_image_is_taken_as_it_is_predicted(logits):
    for phase in (fpl(logits, baseline()), upl(logits, baseline(labeller="UPL"))):
        for z, chosen in zip(logits, phase.labels, strict=True):
            assert sorted(pairs(chosen)) == list(enumerate(z.argmax(dim=1).tolist()))
    few = cpl(logits, baseline(labeller="CPL", shots=max(SIZES)))
    every = cpl(logits, baseline(labeller="CPL"))
    assert [pairs(one) for one in few.labels] == [pairs(one) for one in every.labels]


def baseline(**changes):
    return configure("smoke", method="PromptFL", n_clients=3, **changes)


def test_fpl_over_all_clients_takes_the_surest_of_each_class(logits):
    phase = fpl(logits, baseline(shots=4, label_scope="global"))
    expected = select_top(torch.cat(logits), torch.full((4,), 4))
    starts = torch.tensor([0, SIZES[0], SIZES[0] + SIZES[1]])
    found = {
        (int(i + start), int(c))
        for start, chosen in zip(starts, phase.labels, strict=True)
        for i, c in zip(chosen.indices, chosen.labels, strict=True)
    }
    assert found == set(zip(expected.indices.tolist(), expected.labels.tolist(), strict=True))
    assert phase.quota.tolist() == [chosen.counts(4).tolist() for chosen in phase.labels]
    assert phase.quota.sum(dim=0).max() <= 4
    assert phase.bytes_up == 8 * 4 * 3 * 4  # float64, 4 best scores of 4 classes from each of 3 clients
    assert phase.bytes_down == 8 * 3 * 4
    assert (fpl(logits, baseline(shots=4)).bytes_up, fpl(logits, baseline(shots=4)).bytes_down) == (0, 0)


def test_fpl_overflow_fills_classes_from_their_neighbours(logits):
    tight, wide = (fpl(logits, baseline(shots=4, overflow=word)) for word in ("none", "next_best"))
    for z, few, more in zip(logits, tight.labels, wide.labels, strict=True):
        expected = fill_pools(z, torch.ones_like(z).bool(), torch.full((4,), 4))
        assert pairs(more) == pairs(expected)
        assert len(more) == min(16, len(z)) >= len(few)
    assert torch.equal(tight.quota, wide.quota)


def test_upl_is_fpl_and_whatever_is_sure(logits):
    assert [pairs(a) for a in upl(logits, baseline(shots=2)).labels] == [
        pairs(b) for b in fpl(logits, baseline(shots=2)).labels
    ]
    phase = upl(logits, baseline(shots=2, upl_confident=0.9))
    for z, chosen, few in zip(logits, phase.labels, fpl(logits, baseline(shots=2)).labels, strict=True):
        p = z.double().softmax(dim=1)
        sure = {(i, int(p[i].argmax())) for i in range(len(z)) if p[i].max() > 0.9}
        assert set(pairs(chosen)) == sure | set(pairs(few))


@pytest.mark.parametrize("scope", ["client", "global"])
@pytest.mark.parametrize("of", ["client", "global"])
def test_cpl_takes_pools_of_candidates(logits, scope, of):
    config = baseline(shots=3, label_scope=scope, candidate_scope=of, labeller="CPL", cpl_alpha=0.9, cpl_beta=0.2)
    logits = [z / 4 for z in logits]  # more doubt
    phase = cpl(logits, config)
    assert max(int(one.candidates.sum(dim=1).max()) for one in phase.labels) > 1
    if of == "client":
        sets = [candidate_sets(z, *cpl_levels(config, 4)) for z in logits]
    else:
        sets = list(candidate_sets(torch.cat(logits), *cpl_levels(config, 4)).split(SIZES))
    for allowed, chosen in zip(sets, phase.labels, strict=True):
        assert torch.equal(chosen.candidates, allowed[chosen.indices])
        assert chosen.candidates[torch.arange(len(chosen)), chosen.labels].all()
    if scope == "client":
        assert [pairs(one) for one in phase.labels] == [
            pairs(fill_pools(z, s, torch.full((4,), 3))) for z, s in zip(logits, sets, strict=True)
        ]
    else:
        pooled = fill_pools(torch.cat(logits), torch.cat(sets), torch.full((4,), 3))
        assert sum(one.counts(4) for one in phase.labels).tolist() == pooled.counts(4).tolist()


@pytest.mark.parametrize("labeller", ["FPL", "CPL", "UPL", "CoPL", "true"])
def test_the_configuration_names_the_labeller(logits, labeller):
    config, true = baseline(labeller=labeller, shots=3), [torch.zeros(n, dtype=torch.long) for n in SIZES]
    phase = make_labels(logits, config, n_train=sum(SIZES), phase=0, true_labels=true)
    plain = {"n_train": sum(SIZES), "phase": 0}
    expected = {
        "FPL": lambda: fpl(logits, config),
        "CPL": lambda: cpl(logits, config),
        "UPL": lambda: upl(logits, config),
        "CoPL": lambda: copl(logits, config, **plain),
        "true": lambda: oracle(copl(logits, config, **plain), true),
    }[labeller]()
    assert [pairs(one) for one in phase.labels] == [pairs(one) for one in expected.labels]
    assert torch.equal(phase.quota, expected.quota)


def test_the_oracle_cannot_run_without_true_labels(logits):
    with pytest.raises(FedCoPLError, match="labeller='true' needs true labels"):
        make_labels(logits, baseline(labeller="true"), n_train=sum(SIZES), phase=0)


def test_noise_is_drawn_anew_in_every_phase(logits):
    config = configure("smoke", n_clients=3, count_noise="half")
    uploads = [copl(logits, config, n_train=72, phase=t, seed=s).uploaded for t, s in ((0, 0), (0, 0), (1, 0), (0, 1))]
    assert torch.equal(uploads[0], uploads[1])
    assert not torch.equal(uploads[0], uploads[2])
    assert not torch.equal(uploads[0], uploads[3])
    assert all(
        torch.equal(one.counts, row)
        for one, row in zip(run_copl(logits).filtered, run_copl(logits).uploaded, strict=True)
    )


def test_every_stage_of_a_phase_is_counted(logits):
    phase = run_copl(logits)
    true = [torch.randint(4, (n,), generator=torch.Generator().manual_seed(n)) for n in SIZES]
    counts = phase_counts(phase, true)
    for k, t in enumerate(true):
        filtered, chosen = phase.filtered[k], phase.labels[k]
        predicted = phase.logits[k].argmax(dim=1).tolist()
        kept = [(predicted[i], int(t[i])) for i in range(len(t)) if filtered.kept[i]]
        selected = list(zip(chosen.labels.tolist(), t[chosen.indices].tolist(), strict=True))
        for c in range(4):
            assert counts["true"][k, c] == sum(int(x) == c for x in t)
            assert counts["predicted"][k, c] == predicted.count(c)
            assert counts["kept"][k, c] == sum(label == c for label, _ in kept)
            assert counts["kept_right"][k, c] == sum(label == c == truth for label, truth in kept)
            assert counts["selected"][k, c] == sum(label == c for label, _ in selected)
            assert counts["selected_right"][k, c] == sum(label == c == truth for label, truth in selected)
    assert not {"kept", "kept_right"} & set(phase_counts(replace(phase, filtered=()), true))
    with pytest.raises(FedCoPLError, match="labels of 2 clients for 3"):
        phase_counts(phase, true[:2])
