"""FedMatch: two parts of a model, votes, helpers, and what travels."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from fedcopl_lab.methods._fedmatch import (
    disagreement,
    holds,
    initial_psi,
    nearest_clients,
    noise_image,
    packed,
    unpacked,
    voted_labels,
)
from fedcopl_lab.methods._recipe import RoundEnd
from fedcopl_lab.methods._sage_state import SemiState
from fedcopl_lab.methods._sage_together import Team
from fedcopl_lab.models import ResNet8

GENERATOR = torch.Generator().manual_seed(9)
OWN, *OTHERS = (2 * torch.randn(60, 4, generator=GENERATOR) for _ in range(3))


def nbytes(tensors):
    return sum(value.nbytes for value in tensors.values())


def flat(model):
    return torch.cat([value.detach().flatten() for value in model.parameters() if value.ndim > 1])


@pytest.mark.parametrize("n_helpers", [0, 1, 2])
def test_the_vote_is_a_majority_and_the_own_label_breaks_ties(n_helpers):
    helpers = OTHERS[:n_helpers]
    labels = voted_labels(OWN, helpers, 0.6)
    for i in range(60):
        ballots = [int(scores[i].argmax()) for scores in (OWN, *helpers)]
        counts = Counter(ballots)
        most = max(counts.values())
        expected = ballots[0] if counts[ballots[0]] == most else min(k for k, n in counts.items() if n == most)
        assert labels.target[i].tolist() == [float(k == expected) for k in range(4)]
        assert bool(labels.used[i]) == (float(OWN[i].softmax(dim=0).max()) >= 0.6)


def test_disagreement_is_the_mean_kl_with_the_helper_first():
    used = torch.rand(60, generator=GENERATOR) < 0.5
    expected = sum(F.kl_div(OWN.log_softmax(1)[used], h.softmax(1)[used], reduction="sum") for h in OTHERS) / 2 / 60
    assert disagreement(OWN, OTHERS, used).item() == pytest.approx(expected.item(), rel=1e-5)
    assert disagreement(OWN, [], used) == 0


@given(seed=st.integers(0, 1000), seen=st.lists(st.booleans(), min_size=2, max_size=7), n=st.integers(0, 4))
def test_helpers_are_the_nearest_clients_that_were_seen(seed, seen, n):
    answers = torch.randn(len(seen), 3, generator=torch.Generator().manual_seed(seed)).softmax(dim=1)
    answers[~torch.tensor(seen)] = torch.nan
    table = nearest_clients(answers, n)
    assert table.shape == (len(seen), n)
    for client in range(len(seen)):
        others = [k for k in range(len(seen)) if k != client and seen[k]] if seen[client] else []
        others.sort(key=lambda k: float((answers[k] - answers[client]).double().square().sum()))
        assert table[client].tolist() == (others + [-1] * n)[:n]


@given(st.lists(st.sampled_from([0.0, 0.0, 1.5, -2.0]), min_size=1, max_size=30))
def test_packed_vectors_come_back_and_never_take_more_bytes_than_dense(values):
    vector = torch.tensor(values)
    tensors = packed(vector, "psi")
    assert holds(tensors, "psi")
    assert not holds(tensors, "ps")
    assert torch.equal(unpacked(tensors, "psi", len(values)), vector)
    assert nbytes(tensors) == min(8 * sum(value != 0 for value in values), 4 * len(values))


def test_the_parts_add_up_to_the_model_and_psi_is_a_fifth_of_sigma_at_first(start_task):
    task = start_task("FedMatch", begun=True)
    sigma, psi = task.models["sigma"], task.models["psi"]
    assert torch.allclose(flat(psi), 0.2 * flat(sigma), atol=1e-7)
    assert torch.allclose(flat(sigma) + flat(psi), flat(task.model), atol=1e-7)
    assert torch.equal(sigma.head.bias, task.model.head.bias)
    assert not any(name.startswith("helper") for name in task.models)
    assert torch.allclose(initial_psi(task.start, 0.2), flat(psi))


def reference_step(task, batch, psi, helpers, lambdas):
    """Both descents with the sum written as a function of the two parts, all slopes by autograd."""
    model = task.copy_of(task.start).train()
    names = [name for name, value in task.start.items() if name in dict(model.named_parameters())]
    parts = dict(zip([n for n in names if task.start[n].ndim > 1], psi, strict=True))
    sigma = {n: (task.start[n] - parts[n] if n in parts else task.start[n]).clone().requires_grad_() for n in names}
    psi = {n: value.clone().requires_grad_() for n, value in parts.items()}

    def scores(images):
        whole = {n: sigma[n] + psi[n] if n in psi else sigma[n] for n in names}
        return torch.func.functional_call(model, whole, (images,))

    def descend(leaves, loss):
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        with torch.no_grad():
            for leaf, slope in zip(leaves.values(), slopes, strict=True):
                leaf -= 0.01 * (slope + 1e-4 * leaf)

    descend(sigma, 10 * F.cross_entropy(scores(batch.labelled), batch.labels))
    w, s = scores(torch.cat([batch.weak, batch.strong])).split(16)
    with torch.no_grad():
        answers = [helper(batch.weak) for helper in helpers]
    labels = voted_labels(w, answers, 0.1)
    per_image = F.cross_entropy(s, labels.target.argmax(dim=1), reduction="none")
    apart = sum((sigma[n].detach() - value).square().sum() for n, value in psi.items())
    size = sum(value.abs().sum() for value in psi.values())
    agree, vote, l2, l1 = lambdas
    loss = agree * disagreement(w, answers, labels.used) + vote * (per_image * labels.used).mean()
    descend(psi, loss + l2 * apart + l1 * size)
    return sigma, psi


@pytest.mark.parametrize("with_helpers", [False, True])
def test_a_step_is_two_descents_written_out(start_task, with_helpers):
    lambdas = (3.0, 2.0, 0.5, 0.01)
    names = ("fedmatch_lambda_i", "fedmatch_lambda_a", "fedmatch_lambda_l2", "fedmatch_lambda_l1")
    options = {**dict(zip(names, lambdas, strict=True)), "fedmatch_threshold": 0.1}
    plain = start_task("FedMatch", 2)
    shapes = [value for name, value in plain.start.items() if value.ndim > 1]
    mean_psi = 0.1 * torch.cat([value.flatten() for value in shapes])
    theirs = mean_psi + 0.05 * torch.randn(len(mean_psi), generator=torch.Generator().manual_seed(2))
    received = packed(mean_psi, "psi") | (packed(theirs, "helper 0") if with_helpers else {})
    task = start_task("FedMatch", 2, 1, received, begun=True, **options)
    batch = next(iter(task.batches()))
    sizes = [value.numel() for value in shapes]
    split = [v.view(value.shape) for v, value in zip(mean_psi.split(sizes), shapes, strict=True)]
    helpers = []
    if with_helpers:
        changes = (theirs - mean_psi).split(sizes)
        ends = dict(zip([n for n, v in task.start.items() if v.ndim > 1], changes, strict=True))
        moved = {n: v + ends[n].view(v.shape) if n in ends else v for n, v in task.start.items()}
        helpers = [task.copy_of(moved).eval()]
    sigma, psi = reference_step(task, batch, split, helpers, lambdas)
    losses = task.step(batch)
    assert (losses["disagreement"] > 0) == with_helpers
    for part, expected in (("sigma", sigma), ("psi", psi)):
        found = dict(task.models[part].named_parameters())
        assert all(torch.allclose(found[n], value, atol=2e-6) for n, value in expected.items()), part
    for name, value in task.model.named_parameters():
        whole = sigma[name] + psi[name] if name in psi else sigma[name]
        assert torch.allclose(value, whole, atol=4e-6), name


def test_helpers_answer_where_clients_share_a_pass_without_being_stacked(start_task):
    received = packed(initial_psi(start_task("FedMatch").start, 0.5), "helper 0")
    tasks = [start_task("FedMatch", k, received=received, begun=True, fedmatch_threshold=0.1) for k in (3, 8)]
    team = Team(tasks)
    assert team._stacked == {"model", "sigma", "psi"}
    assert all(losses["disagreement"] > 0 for losses in team.step([next(task.batches()) for task in tasks]))


def test_small_changes_stay_behind_and_the_server_ends_with_what_was_sent(open_tiny, start_task):
    changes = {"fedmatch_unsent": 2e-3, "fedmatch_zero": 1e-3}
    method = open_tiny("FedMatch", **changes)
    state = method.initial_state()
    updates = {k: start_task("FedMatch", k, model=state.model, **changes).run() for k in (3, 8, 11)}
    before = initial_psi(state.model, 0.2)
    sent = [unpacked(update.sent, "psi change", len(before)) for update in updates.values()]
    for change in sent:
        assert (change[change != 0].abs() >= 2e-3).all()
        assert 0 < (change == 0).sum() < len(before)
    weights = torch.tensor([1, 1, 2])
    after = method.recipe.merge(RoundEnd(method.setting, state, updates, weights))
    expected = before + (sent[0] + sent[1] + 2 * sent[2]) / 4
    assert torch.allclose(after.extras["psi"], expected, atol=1e-7)
    for change, client in zip(sent, updates, strict=True):
        assert torch.equal(unpacked(after.extras, f"psi of {client:04d}", len(before)), before + change)
    answers = after.extras["answer"]
    assert answers.isnan().all(dim=1).nonzero().squeeze(1).tolist() == [k for k in range(20) if k not in updates]
    assert torch.equal(after.extras["helpers"], nearest_clients(answers, 2))
    assert sorted(after.extras["helpers"][3].tolist()) == [8, 11]


def test_answers_are_those_of_the_sent_model_to_the_same_noise(open_tiny, start_task):
    method = open_tiny("FedMatch")
    update = start_task("FedMatch", 5).run()
    image = noise_image(method.setting)
    assert image.abs().max() <= 2
    assert torch.equal(image, noise_image(method.setting))
    with torch.no_grad():
        expected = method.setting.placed_model(update.model).eval()(image).softmax(dim=1)[0]
    assert torch.allclose(update.sent["answer"], expected, atol=1e-6)


def test_helpers_are_looked_up_when_the_period_ends(open_tiny):
    method = open_tiny("FedMatch", rounds=4, fedmatch_lookup_every=2, participation=0.15, steps_per_epoch=1, n_probe=0)
    state = method.initial_state()
    assert method.recipe.message(method.setting, state, [0, 1]) == {0: {}, 1: {}}
    tables = []
    for _ in range(3):
        state, _ = method.step(state)
        tables.append(state.extras.get("helpers"))
    assert tables[0] is None
    assert torch.equal(tables[1], tables[2])


def test_bytes_follow_from_shapes_at_the_papers_scale_without_training(open_tiny):
    """8 clients of ResNet-8 with 64 channels: 2 models each elsewhere, 6 with dense psi and two helpers, 3 at 25 %."""
    method = open_tiny("FedMatch")
    n_parameters = sum(p.numel() for p in ResNet8(10, 64).parameters())
    n_psi = sum(p.numel() for p in ResNet8(10, 64).parameters() if p.ndim > 1)
    assert (n_parameters, n_psi) == (1_227_594, 1_224_896)
    plain = 8 * 2 * n_parameters
    for share, expected in ((1.0, 6 / 2), (0.25, 3 / 2), (0.0, 1.0)):
        vector = torch.zeros(n_psi)
        vector[: int(share * n_psi)] = 1
        extras = {"psi": vector, "helpers": torch.tensor([[1, 2]] * 20)}
        for client in (1, 2):
            extras |= packed(vector, f"psi of {client:04d}")
        messages = method.recipe.message(method.setting, SemiState(1, {}, extras), list(range(8)))
        down = sum(_n_values(message) for message in messages.values())
        up = 8 * _n_values(packed(vector, "psi change"))
        assert (plain + down + up) / plain == pytest.approx(expected, rel=0.01)
        size = nbytes(packed(vector, "psi"))
        assert size == min(8 * int(share * n_psi), 4 * n_psi)
        assert sum(nbytes(message) for message in messages.values()) == 8 * 3 * size


def _n_values(tensors):
    return sum(value.numel() for name, value in tensors.items() if not name.endswith("positions"))
