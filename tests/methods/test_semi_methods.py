"""The methods beside SAGE as whole runs: rows, bytes that travel, and state that survives a stop."""

import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab.config import REGISTERED, SAGE_METHODS
from fedcopl_lab.methods import RECIPES, SemiState
from fedcopl_lab.store import Store

METHODS = ("FedAvg+FlexMatch", "FedMatch", "FedLabel", "FedLoKe", "FedDure", "FedDB")
OWN = {"FedLabel": {"fedlabel_burn_in": 1}, "FedMatch": {"fedmatch_lookup_every": 1}}


def early(method, participation=0.1):
    """Settings under which a method does all it can from the second round on."""
    return {"threshold": 0.3, "participation": participation, **OWN.get(method, {})}


def nbytes(tensors):
    return sum(value.nbytes for value in tensors.values())


def test_every_named_method_has_its_hooks():
    assert set(RECIPES) - set(REGISTERED) == set(SAGE_METHODS)


@pytest.mark.parametrize("method", SAGE_METHODS)
def test_one_round_from_the_front_door(tiny_config, store, method):
    config = tiny_config(method, rounds=1, steps_per_epoch=1, participation=0.1, n_probe=0)
    run = lab.run(config, store, progress=False)
    assert run.complete
    assert len(run.rows) == 1
    assert 0 <= run.result["accuracy"] <= 1
    assert run.result["loss_supervised"] > 0
    assert all(torch.isfinite(value).all() for name, value in run.load_state().items() if name.startswith("model."))


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_resumed_ends_with_the_bytes_of_uninterrupted(tiny_config, tmp_path, power_cut, method):
    config = tiny_config(method, rounds=3, steps_per_epoch=1, **early(method, 0.2), n_probe=0)
    whole = lab.run(config, Store(tmp_path / "whole"), progress=False)
    broken = Store(tmp_path / "broken")
    power_cut(config, broken, after=2)
    resumed = lab.run(config, broken, progress=False)
    for name in ("rounds/0003.json", "result.json", "state-0003.safetensors"):
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes(), name


@pytest.mark.parametrize("method", METHODS)
def test_bytes_of_a_round_follow_from_what_travels(open_tiny, method):
    tiny = open_tiny(method, rounds=3, **early(method))
    state, first = tiny.step(tiny.initial_state())
    after, second = tiny.step(state)
    m = len(first["participants"])
    model, n_classes = nbytes(state.model), 10
    assert m == 2
    n_psi = sum(value.numel() for value in state.model.values() if value.ndim > 1)
    psi_down = {"FedMatch": 4 * n_psi}.get(method, 0)
    up = {"FedLabel": model + 8, "FedDB": 4 * n_classes}.get(method, 0)
    assert first["bytes_down"] == m * model
    if method == "FedMatch":
        helpers = [state.extras["helpers"][client] for client in second["participants"]]
        n_helpers = int((torch.stack(helpers) >= 0).sum())
        assert second["bytes_down"] == m * (model + psi_down) + n_helpers * psi_down
        assert m * (model + 4 * n_classes) < second["bytes_up"] <= m * (model + 4 * n_psi + 4 * n_classes)
    else:
        assert second["bytes_down"] == m * model
        assert second["bytes_up"] == m * (model + up)
    assert first["bytes_up"] == (m * model if method == "FedLabel" else first["bytes_up"])
    again = SemiState.from_tensors(after.to_tensors(), "cpu")
    assert again.to_tensors().keys() == after.to_tensors().keys()


def test_only_methods_that_need_it_keep_something(open_tiny):
    kept, server = {}, {}
    for method in METHODS:
        tiny = open_tiny(method, rounds=1, **early(method), steps_per_epoch=1)
        state, _ = tiny.step(tiny.initial_state())
        kept[method], server[method] = bool(state.memories), bool(state.extras)
    assert {name for name, has in kept.items() if has} == {"FedAvg+FlexMatch", "FedLoKe", "FedDure"}
    assert {name for name, has in server.items() if has} == {"FedMatch", "FedDB"}
