"""A method's round against its parts, and the state that a run stores."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_semi import config_of

from fedcopl_lab import FedCoPLError
from fedcopl_lab.methods import SemiMethod, SemiState, open_method
from fedcopl_lab.methods._sage_local_task import LocalTask
from fedcopl_lab.methods._sage_setting import sage_participants, sage_weight
from fedcopl_lab.models import start_resnet8
from fedcopl_lab.steps import average_models, model_scores


def weight_in(method, client):
    return sage_weight(method.config, len(method.setting.labelled(client)), len(method.setting.pool(client)))


def accuracy(setting, state, tests):
    scores = model_scores(setting.placed_model(state.model), setting.images[tests], setting.testing)
    return float((scores.argmax(dim=1) == setting.labels[tests]).double().mean())


def test_a_round_sends_trains_merges_and_counts_bytes():
    method = open_method(config_of(steps_per_epoch=2))
    state = method.initial_state()
    after, row = method.step(state)
    participants = sage_participants(method.config, 0)
    assert row["participants"] == participants
    assert len(participants) == 8
    updates = [
        LocalTask(method.setting, method.recipe, k, 0, state.model, {}, {}, {}).run().model for k in participants
    ]
    expected = average_models(updates, torch.tensor([weight_in(method, k) for k in participants]))
    assert all(torch.equal(after.model[name], value) for name, value in expected.items())
    size = sum(value.nbytes for value in state.model.values())
    assert row["bytes_up"] == row["bytes_down"] == 8 * size
    assert row["accuracy"] == accuracy(method.setting, after, method.setting.tests)


@pytest.mark.parametrize(("rounds", "stride"), [(6, 7), (5, 1)])
def test_the_last_five_rounds_test_all_images_those_before_each_nth(rounds, stride):
    method = open_method(config_of(steps_per_epoch=1, participation=0.1, rounds=rounds, test_stride=7))
    after, row = method.step(method.initial_state())
    assert row["accuracy"] == accuracy(method.setting, after, method.setting.tests[::stride])
    assert ("right" in row) == (stride == 1)


def test_a_run_goes_on_from_trained_weights():
    method = open_method(config_of(start="resnet8-cifar100", width=2.0, steps_per_epoch=1, participation=0.1))
    begin, body = method.initial_state(), start_resnet8("resnet8-cifar100", 10, 32).stem.weight
    assert torch.equal(begin.model["stem.weight"], body)
    after, row = method.step(begin)
    assert not torch.equal(after.model["stem.weight"], body)
    assert 0 < row["accuracy"] <= 1


def test_weights_are_the_sizes_that_the_configuration_names():
    method = open_method(config_of())
    assert [weight_in(method, k) for k in (0, 1)] == [66, 66]
    for name, expected in (("uniform", 1), ("authors", 2000 * 6 + 60)):
        assert weight_in(SemiMethod(replace(method.setting, config=config_of(weight_by=name))), 0) == expected


@pytest.mark.parametrize("bn", ["local", "recalibrate"])
def test_running_statistics_can_stay_or_be_measured_anew(bn):
    few = {"steps_per_epoch": 2, "participation": 0.1}
    plain, other = open_method(config_of(**few)), open_method(config_of(bn=bn, **few))
    a, _ = plain.step(plain.initial_state())
    b, _ = other.step(other.initial_state())
    assert torch.equal(a.model["stem.weight"], b.model["stem.weight"])
    if bn == "recalibrate":
        assert not torch.equal(a.model["norm.running_mean"], b.model["norm.running_mean"])
        assert b.memories == {}
    else:
        assert sorted(b.memories) == sage_participants(plain.config, 0)
        client = sage_participants(plain.config, 0)[0]
        kept = b.memories[client]["own statistics/norm.running_mean"]
        assert not torch.equal(kept, b.model["norm.running_mean"])
        task = LocalTask(other.setting, other.recipe, client, 1, b.model, {}, b.memories[client], {})
        assert torch.equal(task.global_model.norm.running_mean, kept)


def test_authors_participants_are_one_legacy_stream_in_the_order_drawn():
    method = open_method(config_of(partition_mode="authors", seed=2))
    stream = np.random.RandomState(9)
    for round_index in range(3):
        assert sage_participants(method.config, round_index) == stream.choice(20, 8, replace=False).tolist()
    assert sage_participants(method.config, 0) != sorted(sage_participants(method.config, 0))
    first, second = (sage_participants(config_of(), round_index) for round_index in (0, 1))
    assert first == sorted(first) != second


def test_clients_are_visited_as_drawn_and_the_last_one_passes_its_momentum_on():
    method = open_method(config_of(partition_mode="authors", momentum_state="carry", participation=0.1))
    state = method.initial_state()
    first, last = sage_participants(method.config, 0)
    momentum, updates = {}, []
    for client in (first, last):
        task = LocalTask(method.setting, method.recipe, client, 0, state.model, {}, {}, momentum)
        updates.append(task.run())
        momentum = updates[-1].momentum
    after = method.round(state).state
    assert after.momentum.keys() == momentum.keys()
    assert all(torch.equal(after.momentum[name], value) for name, value in momentum.items())


def test_a_state_survives_its_file():
    state = SemiState(
        round=3, model={"a.b": torch.ones(2)}, extras={"velocity/a": torch.zeros(1)},
        memories={2: {"seen": torch.arange(3)}, 11: {"own/x": torch.ones(1)}}, momentum={"a.b": torch.ones(2)},
    )  # fmt: skip
    again = SemiState.from_tensors(state.to_tensors(), "cpu")
    assert again.round == 3
    assert sorted(again.memories) == [2, 11]
    assert again.to_tensors().keys() == state.to_tensors().keys()
    assert all(torch.equal(v, again.to_tensors()[n]) for n, v in state.to_tensors().items())


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 61},
        {"unlabelled_batch_size": 61},
        {"scheme": "dirichlet", "alpha": 0.3, "unlabelled_batch_size": 40},
    ],
)
def test_a_client_without_a_step_is_refused(changes):
    with pytest.raises(FedCoPLError, match=r"client \d+ has \d+ unlabelled images, too few .*; choose smaller batches"):
        open_method(config_of(**changes))
