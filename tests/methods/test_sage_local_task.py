"""One client's round against a loop written out."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from small_semi import config_of
from torch.nn import functional as F

from fedcopl_lab import correct_pseudo_labels
from fedcopl_lab.methods import RECIPES, LocalTask, SemiSetting, open_method
from fedcopl_lab.models import load_values


def task_of(config, client=0, round_index=0, momentum=None, memory=None, start=None):
    setting = SemiSetting.of(config)
    start = dict(setting.new_model().state_dict()) if start is None else start
    return LocalTask(setting, RECIPES[config.method], client, round_index, start, {}, memory, momentum)


@pytest.fixture(scope="module")
def some_rounds():
    """A model that is sure of some images."""
    method = open_method(config_of("FedAvg-SL", local_epochs=3, participation=0.15))
    state = method.initial_state()
    for _ in range(3):
        state, _ = method.step(state)
    return state.model


def drawn(task):
    """All batches of the task's round; drawing them again gives the same."""
    return list(task.batches())


def plain_round(task, batches, sage=True):
    """SAGE's or FixMatch-LPL's local round with nothing but tensors: one network, SGD by hand."""
    config, setting = task.config, task.setting
    model, frozen = setting.placed_model(task.start), setting.placed_model(task.start).eval()
    velocity = {}
    for batch in batches:
        model.train()
        everything = torch.cat([batch.labelled, batch.weak, batch.strong])
        logits = model(everything)
        x, w, s = logits.split([len(batch.labelled), len(batch.weak), len(batch.strong)])
        loss = F.cross_entropy(x, batch.labels)
        if sage:
            with torch.no_grad():
                global_logits = frozen(batch.weak)
            labels = correct_pseudo_labels(w.detach(), global_logits, config.threshold)
            target, used = labels.target, labels.used
        else:
            p = w.detach().softmax(dim=1)
            target, used = F.one_hot(p.argmax(dim=1), p.shape[1]).float(), p.amax(dim=1) >= config.threshold
        log_p = s.log_softmax(dim=1)
        divergence = (target * (target.clamp(min=1e-30).log() - log_p)).sum(dim=1)
        loss = loss + (divergence * used).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
                step = gradient + config.weight_decay * parameter
                velocity[name] = step if name not in velocity else config.momentum * velocity[name] + step
                parameter -= config.lr * velocity[name]
    return model.state_dict()


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("method", ["SAGE", "FixMatch-LPL"])
def test_a_round_is_the_loop_written_out(method, channels_last, some_rounds):
    config = config_of(method, threshold=0.6, lr=0.03, channels_last=channels_last, log_both=False)
    task = task_of(config, client=3, start=some_rounds)
    batches = drawn(task)
    assert len(batches) == 7  # 60 images of the pool over 8 labelled ones
    update = task.run()
    expected = plain_round(task, batches, sage=method == "SAGE")
    assert 0 < int(update.noted.used.sum()) < 7 * 16
    for name, value in update.model.items():
        assert torch.allclose(value, expected[name], atol=2e-5), name
    assert update.n_steps == 7
    assert len(update.noted) == 7 * 16


def test_threads_have_models_of_their_own():
    def models():
        task = task_of(config_of())
        return task.model, task.global_model

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(models).result()
    assert not {*map(id, other)} & {*map(id, models())}


def test_a_learning_rate_of_zero_is_zero():
    task = task_of(config_of())
    rates = [task.sgd(task.model.parameters(), lr).param_groups[0]["lr"] for lr in (None, 0.0, 0.3)]
    assert rates == [task.lr, 0.0, 0.3]


@pytest.mark.parametrize("method", ["SAGE", "FedDure", "FedMatch"])
@pytest.mark.parametrize(("completed", "lr"), [(3, 0.1), (4, 0.05)])
def test_the_last_fifth_of_the_rounds_has_its_own_learning_rate(method, completed, lr, some_rounds):
    few = {"rounds": 5, "steps_per_epoch": 2, "threshold": 0.6}
    falling, plain = config_of(method, lr=0.1, lr_at_end=0.5, **few), config_of(method, lr=lr, **few)
    ours, expected = (task_of(config, round_index=completed, start=some_rounds).run() for config in (falling, plain))
    assert all(torch.equal(ours.model[name], value) for name, value in expected.model.items())
    assert not torch.equal(ours.model["stem.weight"], some_rounds["stem.weight"])


def test_batches_come_from_the_right_images_without_replacement():
    task = task_of(config_of(), client=5)
    batches = drawn(task)
    assert set(task.labelled.tolist()) <= set(task.pool.tolist())
    places = [batch.places.tolist() for batch in batches]
    for first in (0, 3):  # three whole batches of 16 fit into 60 images
        whole = [place for batch in places[first : first + 3] for place in batch]
        assert len(set(whole)) == len(whole) == 48
    allowed = set(task.setting.labels[task.labelled].tolist())
    assert all(set(batch.labels.tolist()) <= allowed for batch in batches)
    again = drawn(task_of(config_of(), client=5))
    assert all(torch.equal(a.strong, b.strong) for a, b in zip(batches, again, strict=True))
    for other in (task_of(config_of(), client=6), task_of(config_of(), 5, 1), task_of(config_of(seed=1), 5)):
        assert not torch.equal(drawn(other)[0].weak, batches[0].weak)


@pytest.mark.parametrize(
    ("method", "changes", "steps"),
    [
        ("SAGE", {}, 7),
        ("SAGE", {"epoch_rule": "one_pass"}, 3),
        ("SAGE", {"local_epochs": 2}, 14),
        ("SAGE", {"steps_per_epoch": 4}, 4),
        ("SAGE", {"labelled_in_pool": False}, 6),
        ("FedAvg", {}, 7),
        ("FedAvg", {"supervised_schedule": "labelled_epochs", "local_epochs": 3}, 3),
        ("FedAvg-SL", {"supervised_schedule": "labelled_epochs"}, 8),
    ],
)
def test_steps_of_a_round(method, changes, steps):
    task = task_of(config_of(method, **changes), client=0)
    assert len(drawn(task)) == steps
    assert task.run().n_steps == steps


def test_fedavg_sl_reads_all_labels_and_others_only_the_few():
    few, all_ = task_of(config_of("FedAvg")), task_of(config_of("FedAvg-SL"))
    assert len(few.labelled) == 6
    assert all_.labelled.tolist() == few.pool.tolist()


def test_momentum_is_carried_to_the_next_client_or_forgotten():
    carry = config_of(momentum_state="carry")
    first = task_of(carry, 0).run()
    assert set(first.momentum) == {name for name, _ in SemiSetting.of(carry).new_model().named_parameters()}
    fresh, carried = task_of(carry, 1).run(), task_of(carry, 1, momentum=first.momentum).run()
    assert not torch.equal(fresh.model["head.weight"], carried.model["head.weight"])
    assert task_of(config_of(), 0).run().momentum == {}
    # a buffer that was stored and read again lies differently in memory and must do the same
    flat = {name: value.contiguous().clone() for name, value in first.momentum.items()}
    again = task_of(carry, 1, momentum=flat).run()
    assert all(torch.equal(again.model[name], value) for name, value in carried.model.items())


@pytest.mark.parametrize(
    ("method", "own"),
    [("FedMatch", "psi"), ("FedLabel", "unsupervised"), ("FedLoKe", "private"), ("FedDure", "coarse")],
)
def test_momentum_of_every_optimiser_is_carried(method, own):
    changes = {"fedlabel_burn_in": 0} if method == "FedLabel" else {}
    carry = config_of(method, momentum_state="carry", steps_per_epoch=2, **changes)
    first = task_of(carry, 0).run()
    names = {name for name, _ in SemiSetting.of(carry).new_model().named_parameters()}
    assert names < set(first.momentum)
    assert f"{own}/0" in first.momentum
    fresh, carried = task_of(carry, 1).run(), task_of(carry, 1, momentum=first.momentum).run()
    assert not torch.equal(fresh.model["head.weight"], carried.model["head.weight"])
    only_own = {name: value for name, value in first.momentum.items() if name.startswith(f"{own}/")}
    moved = task_of(carry, 1, momentum=only_own).run()
    ends = [one.model | one.sent | one.memory for one in (fresh, moved)]
    assert any(ends[0][n].shape != v.shape or not torch.equal(ends[0][n], v) for n, v in ends[1].items())


@pytest.mark.parametrize("method", ["FedMatch", "FedLabel", "FedLoKe"])
def test_the_direction_of_the_divergence_reaches_the_baselines(method, some_rounds):
    sure = {"FedMatch": {"fedmatch_threshold": 0.0}, "FedLabel": {"fedlabel_burn_in": 0, "fedlabel_threshold": 0.0},
            "FedLoKe": {"fedloke_entropy": 9.0, "fedloke_ramp": 1}}[method]  # fmt: skip
    losses = [
        task_of(config_of(method, kl=kl, steps_per_epoch=1, **sure), round_index=1, start=some_rounds).run().losses
        for kl in ("forward", "reverse")
    ]
    assert losses[0]["unsupervised"] != losses[1]["unsupervised"]


def test_the_proximal_term_starts_at_zero_and_holds_back():
    start = task_of(config_of("FedProx+FixMatch")).start
    held, free = (task_of(config_of("FedProx+FixMatch", mu_prox=mu)).run() for mu in (1.0, 0.0))
    same = task_of(config_of("FixMatch-LPL")).run()
    assert all(torch.allclose(free.model[n], v, atol=1e-6) for n, v in same.model.items())

    def distance(update):
        return sum(float((update.model[n] - start[n]).square().sum()) for n in ("head.weight", "stem.weight"))

    assert distance(held) < distance(free)
    assert held.losses["regulariser"] > 0


AS_SET = {"threshold": 0.3, "pl_bn": "eval", "steps_per_epoch": 3}


@pytest.fixture(scope="module")
def as_set(some_rounds):
    return task_of(config_of(**AS_SET), start=some_rounds).run()


@pytest.mark.parametrize("change", [
    {"kl": "reverse"}, {"pl_bn": "joint"}, {"target": "soft"}, {"use_cpg": False}, {"use_cdsc": False},
    {"fixed_weight": 0.5}, {"kappa": 1.0}, {"threshold": 0.4}, {"lambda_u": 0.2}, {"cutout": "16"}, {"flip": False},
    {"norm": "authors"}, {"bn_momentum": 0.2}, {"labelled_in_pool": False}, {"precision": "bf16"}, {"lr": 0.2},
])  # fmt: skip
def test_every_switch_reaches_the_training(change, some_rounds, as_set):
    other = task_of(config_of(**{**AS_SET, **change}), start=some_rounds).run()
    assert [name for name, value in as_set.model.items() if not torch.equal(value, other.model[name])]


def test_the_global_model_scores_many_steps_at_once_and_each_gets_its_own():
    task = task_of(config_of("SAGE"))
    batches = drawn(task)
    assert len(batches) == 7
    for batch in batches:
        assert torch.allclose(batch.global_, task.global_scores(batch.weak), atol=1e-5)
        assert task.global_scores_of(batch) is batch.global_
        assert torch.equal(task.global_scores_of(replace(batch, global_=None)), task.global_scores(batch.weak))
    bare = task_of(config_of("FixMatch-LPL", log_both=False))
    assert {bare.global_scores_of(batch) for batch in drawn(bare)} == {None}


def test_values_are_loaded_as_by_load_state_dict():
    setting = SemiSetting.of(config_of("SAGE"))
    one, other = setting.new_model(), setting.placed_model(setting.new_model().state_dict())
    assert other is not setting.placed_model(one.state_dict())
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.stride() == theirs.stride()
        assert mine.data_ptr() != theirs.data_ptr()
    state = {name: value + 1 for name, value in one.state_dict().items()}
    load_values(other, state)
    assert all(torch.equal(value, state[name]) for name, value in other.state_dict().items())
    for wrong in ({"head.bias": state["head.bias"]}, state | {"head.bias": torch.zeros(1)}):
        with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for ResNet8"):
            load_values(other, wrong)
