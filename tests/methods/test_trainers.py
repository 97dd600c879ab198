"""Trainers and labellers in small federations: any pair runs, a state continues as it was, and logs add up."""

import itertools
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save

from fedcopl_lab import Shard, allocate, configure, cosine_distance, drift_diversity, load_dataset, partition
from fedcopl_lab.config import AUTHORS_MODE
from fedcopl_lab.data import split_table
from fedcopl_lab.methods import ClientModels, open_method

TRAINERS = ("PromptFL", "PromptProx", "pFedPrompt", "FedOTP", "FedCoPL")
LABELLERS = ("FPL", "CPL", "CoPL", "UPL", "true")
SMALL = {"n_clients": 2, "rounds": 1, "local_epochs": 1, "n_text": 2, "n_visual": 1, "shots": 2, "scheme": "iid"}
STRICT = {"q_conf": 0.9, "q_ent": 0.9}


def small(**changes):
    """A method on 60 training and 30 test images per client."""
    config = configure("smoke", **{**SMALL, **STRICT, **changes})
    drawn = partition(load_dataset("digits"), config.scheme, config.n_clients, beta=config.beta, seed=0)
    few = tuple(Shard(shard.train[:60], shard.test[:30]) for shard in drawn.shards)
    return open_method(config, split_table(replace(drawn, shards=few)))


def after(method, rounds, state=None):
    state, rows = state or method.initial_state(), []
    for _ in range(rounds):
        state, row = method.step(state)
        rows.append(row)
    return state, rows


@pytest.mark.parametrize(("trainer", "labeller"), list(itertools.product(TRAINERS, LABELLERS)))
def test_any_labeller_works_with_any_trainer(trainer, labeller):
    method = small(method=trainer, labeller=labeller)
    state, (row,) = after(method, 1)
    assert 0 <= row["accuracy"] <= 1
    assert row["n_selected"] > 0
    for part, stack in state.clients.items():
        assert torch.isfinite(stack).all()
        assert not torch.equal(stack, method.initial_state().clients[part]), part
    assert set(state.clients) == {"text", "visual"} | ({"text_local"} if trainer == "FedOTP" else set())


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "PromptProx", "labeller": "CPL"},
        {"method": "pFedPrompt", "labeller": "CPL"},
        {"method": "FedOTP", "momentum_state": "per_client"},
        {"method": "FedOTP", "modalities": "text", "aggregate": "none"},
        {"method": "FedCoPL", "modalities": "text"},
        {"method": "FedCoPL", "modalities": "visual", "momentum_state": "per_client"},
        {"method": "PromptFL", "labeller": "UPL", "upl_confident": 0.99},
        {"method": "FedCoPL", "count_noise": "laplace", "epsilon": 0.5},
        {"method": "FedCoPL", "labeller": "true"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_a_restored_state_goes_on_with_the_same_bytes(changes):
    method = small(**changes, rounds=3, refresh_every=2)
    whole, rows = after(method, 3)
    halfway, _ = after(method, 1)
    restored = method.restored_state(load(save(halfway.to_tensors())))
    resumed, later = after(small(**changes, rounds=3, refresh_every=2), 2, restored)
    assert later == rows[1:]
    ours, theirs = resumed.to_tensors(), whole.to_tensors()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(("method", "aggregate", "modalities", "floats"), [
    ("PromptFL", "both", "both", 50_432),
    ("PromptProx", "both", "both", 50_432),
    ("pFedPrompt", "both", "both", 50_432),
    ("FedOTP", "both", "both", 50_432),
    ("FedCoPL", "visual", "both", 42_240),
    ("PromptFL", "both", "text", 8_192),
    ("FedOTP", "both", "text", 8_192),
    ("FedOTP", "text", "both", 8_192),
    ("FedCoPL", "none", "both", 0),
])  # fmt: skip
def test_what_is_sent_at_the_sizes_of_vit_b_32(method, aggregate, modalities, floats):
    shapes = {"text": (16, 512), "visual": (11, 5, 768), "text_local": (16, 512)}
    shared = configure("paper", method=method, aggregate=aggregate, modalities=modalities).shared
    assert sum(torch.Size(shapes[part]).numel() for part in shared) == floats
    own = {"text": 2 * 64, "visual": 3 * 1 * 64}
    setup = small(method=method, aggregate=aggregate, modalities=modalities, rounds=2, refresh_every=2)
    _, rows = after(setup, 2)
    counts = 8 * 2 * 10 if method == "FedCoPL" else 0
    prompts = 4 * 2 * sum(own[part] for part in shared)
    assert [row["bytes_up"] for row in rows] == [prompts + counts, prompts]
    assert [row["bytes_down"] for row in rows] == [prompts + counts, prompts]


@pytest.mark.parametrize(("name", "value"), AUTHORS_MODE.items())
def test_the_authors_habits_can_be_taken_up_one_at_a_time(name, value):
    _, rows = after(small(rounds=2, **{name: value}), 2)
    assert all(0 <= row["accuracy"] <= 1 for row in rows)


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "half", "uniform", "shuffled"])
def test_noise_changes_what_the_server_sees_and_nothing_before(kind):
    budget = {"epsilon": 0.1} if kind in ("laplace", "gaussian") else {}
    exact, noisy = (
        after(small(q_conf=0.5, q_ent=0.5, **settings), 1)[1][0]["labels"]
        for settings in ({}, {"count_noise": kind, **budget})
    )
    assert exact["uploaded"] == exact["filtered"] == noisy["filtered"]
    assert noisy["uploaded"] != exact["uploaded"]
    assert noisy["quota"] == allocate(torch.tensor(noisy["uploaded"])).quota.tolist()


def test_the_oracle_labels_the_same_images_truly():
    estimated, oracle = (after(small(labeller=labeller, q_conf=0.5, q_ent=0.5), 1) for labeller in ("CoPL", "true"))
    for ours, theirs in zip(oracle[0].labels, estimated[0].labels, strict=True):
        assert torch.equal(ours.indices, theirs.indices)
    assert oracle[1][0]["label_accuracy"] == 1.0
    assert oracle[1][0]["n_selected"] == estimated[1][0]["n_selected"]
    assert oracle[1][0]["labels"]["quota"] == estimated[1][0]["labels"]["quota"]


def test_a_label_row_counts_what_it_says():
    method = small(q_conf=0.5, q_ent=0.5)
    _, (row,) = after(method, 1)
    labels, phase = row["labels"], method.round(method.initial_state()).labels
    for k in range(2):
        scores = method.setting.zero_shot_logits[method.setting.train_indices(k)]
        true = method.setting.dataset.labels[method.setting.train_indices(k)]
        found = scores.argmax(dim=1)
        assert labels["predicted"][k] == [int((found == c).sum()) for c in range(10)]
        assert labels["predicted_correct"][k] == [int(((found == c) & (true == c)).sum()) for c in range(10)]
        p = scores.double().softmax(dim=1)
        confident = p.amax(dim=1) > p.amax(dim=1).quantile(0.5)
        spread = -(p * p.log().clamp(min=-1e9)).sum(dim=1)
        certain = spread < spread.quantile(0.5)
        kept = {name: values[k] for name, values in labels["kept"].items()}
        assert (kept["confidence"], kept["entropy"]) == (int(confident.sum()), int(certain.sum()))
        assert kept["both"] == int((confident & certain).sum()) == sum(labels["filtered"][k])
        assert kept["jaccard"] == pytest.approx(kept["both"] / int((confident | certain).sum()))
        ranked = p.amax(dim=1).argsort(descending=True)
        head = ranked[: round(0.1 * len(ranked))]
        assert labels["pool_accuracy_at"]["10%"][k] == pytest.approx(float((found == true)[head].double().mean()))
        chosen = phase.labels[k]
        sure = p[chosen.indices, chosen.labels].argsort(descending=True)[: round(0.3 * len(true))]
        right = (true[chosen.indices] == chosen.labels)[sure].double().mean()
        assert labels["accuracy_at"]["30%"][k] == pytest.approx(float(right))
        assert labels["accuracy_at"]["50%"][k] is None or len(chosen) >= round(0.5 * len(true))


def test_candidate_sets_are_reported():
    _, (row,) = after(small(method="PromptFL", labeller="CPL", shots=5), 1)
    found = row["labels"]["candidates"]
    assert all(1 <= mean <= 10 for mean in found["mean"])
    right = [sum(c) / sum(n) for c, n in zip(row["labels"]["selected_correct"], row["labels"]["selected"], strict=True)]
    assert all(covered >= share for covered, share in zip(found["covered"], right, strict=True))
    assert "candidates" not in after(small(), 1)[1][0]["labels"]


@pytest.mark.parametrize("changes", [{}, {"aggregate": "none"}, {"method": "FedOTP"}])
def test_exchanged_texts_are_tested_on_every_shard(changes):
    method = small(**changes, rounds=2, n_clients=3, q_conf=0.5, q_ent=0.5, scheme="dirichlet")
    state, rows = after(method, 2)
    assert "exchange" not in rows[0]
    table = rows[1]["exchange"]
    assert [table[k][k] for k in range(3)] == rows[1]["clients"]["accuracy"]
    part = "text_local" if changes.get("method") == "FedOTP" else "text"
    swapped = replace(state, clients={**state.clients, part: state.clients[part].roll(1, dims=0)})
    models = ClientModels(method.setting, swapped)
    assert list(models.evaluate(everywhere=False).per_client) == [table[k][k - 1] for k in range(3)]
    weights = state.quota.sum(dim=1).double()
    mean = torch.einsum("k,k...->...", weights / weights.sum(), state.clients[part].double()).float()
    same = replace(state, clients={**state.clients, part: mean.expand_as(state.clients[part])})
    found = ClientModels(method.setting, same).evaluate(everywhere=False).per_client
    assert list(found) == pytest.approx(rows[1]["exchange_mean"], abs=0.035)  # a rounding may flip one of 30 images


def test_shared_texts_are_not_exchanged():
    for changes in ({"method": "PromptFL"}, {"modalities": "visual"}):
        assert "exchange" not in after(small(**changes), 1)[1][0]


def test_text_drift_is_also_measured_from_the_mean():
    method = small(rounds=2, n_clients=3)
    before, _ = after(method, 1)
    later, (row,) = after(method, 1, before)
    moves = later.clients["text"].double() - before.clients["text"].double().mean(dim=0)
    assert row["drift_text_from_mean"] == pytest.approx(drift_diversity(moves))
    assert row["cosine_text_from_mean"] == pytest.approx(cosine_distance(moves))
    assert row["drift_text_from_mean"] != pytest.approx(row["drift_text"])
    shared = after(small(method="PromptFL", n_clients=3), 1)[1][0]
    assert shared["drift_text_from_mean"] == pytest.approx(shared["drift_text"], rel=1e-4)


def test_a_side_that_is_not_trained_is_plain_clip():
    method = small(modalities="text")
    state = method.initial_state()
    assert state.clients["visual"].shape == (2, 3, 0, 64)
    features = method.setting.scorer.known_images(method.setting.tokens[:5], state.clients["visual"][0])
    images = method.setting.clip.to_input(method.setting.dataset.images[:5])
    with torch.no_grad():
        plain = method.setting.clip.model.encode_image(images, normalize=True)
    assert (features - plain).abs().max() <= 1e-5
    visual = small(modalities="visual")
    logits = visual.setting.scorer.logits(features, visual.setting.scorer.texts({"text": torch.zeros(2, 64)}))
    assert (logits - method.setting.zero_shot_logits[:5]).abs().max() <= 1e-3


def test_a_client_without_test_images_is_left_out_where_visual_prompts_stay_at_home():
    few = {"n_clients": 10, "beta": 0.05, "seed": 9, "min_test": 0, "min_train": 1, "local_epochs": 1}
    method = open_method(configure("smoke", aggregate="none", **few))
    assert 0 in [len(shard.test) for shard in method.setting.federation.shards]
    assert 0 < method.round(method.initial_state()).row["accuracy"] < 1
