"""One tiny round of every method on a card gives what it gives on the CPU, and a run goes on there with equal bytes."""

from dataclasses import replace

import jaxtyping
import pytest
import torch
from small_semi import config_of
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab.config import SAGE_METHODS
from fedcopl_lab.extras.bench.plan import plan_card
from fedcopl_lab.methods import open_method
from fedcopl_lab.store import Store

PROMPT_METHODS = ("PromptFL", "PromptProx", "pFedPrompt", "FedOTP", "FedCoPL")
on_a_card = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
CARD = pytest.param("cuda", marks=on_a_card)


def states(config, device):
    """The states after a round on the CPU and on a device, as tensors in memory."""
    for one in (config, replace(config, device=device)):
        method = open_method(one)
        state, row = method.step(method.initial_state())
        assert row["round"] == 1
        yield {name: value.cpu() for name, value in state.to_tensors().items()}


def assert_close(config, device, tolerance):
    ours, theirs = states(config, device)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if value.is_floating_point() and value.numel():
            largest = float(value.abs().max()) or 1.0
            assert float((value - theirs[name]).abs().max()) <= tolerance * largest, name


@pytest.mark.parametrize("device", ["cpu", CARD])
@pytest.mark.parametrize("method", SAGE_METHODS)
def test_semi_supervised(method, device):
    if device == "cpu" and method != "SAGE":
        pytest.skip("one method shows that the comparison runs")
    assert_close(config_of(method, steps_per_epoch=2), device, 1e-3)


@pytest.mark.parametrize("device", [CARD])
@pytest.mark.parametrize("method", ["SAGE", "FedDure"])
def test_clients_together_in_cuda_graphs(method, device, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the model is compiled, not the checks around it
    plain, graphs = (config_of(method, steps_per_epoch=4, clients_per_forward=4, compile=one) for one in (False, True))
    first, second = (open_method(replace(config, device=device)) for config in (plain, graphs))
    ours, theirs = (method.step(method.initial_state())[0].to_tensors() for method in (first, second))
    for name, value in ours.items():
        if value.is_floating_point() and value.numel():
            assert torch.allclose(value, theirs[name], atol=1e-3 * (float(value.abs().max()) or 1.0)), name


@pytest.mark.parametrize("device", ["cpu", CARD])
@pytest.mark.parametrize("method", PROMPT_METHODS)
def test_prompts(method, device, small):
    if device == "cpu" and method != "FedCoPL":
        pytest.skip("one method shows that the comparison runs")
    assert_close(small(method=method, rounds=1), device, 1e-3)


@pytest.mark.parametrize("device", ["cpu", CARD])
@pytest.mark.parametrize("method", ["FedCoPL", "SAGE"])
def test_a_run_goes_on_with_the_same_bytes(method, device, tmp_path, small):
    if device == "cpu" and method == "SAGE":
        pytest.skip("one method shows that the comparison runs")
    config = config_of(steps_per_epoch=2, device=device) if method == "SAGE" else small(device=device)
    whole = lab.run(config, Store(tmp_path / "whole"), progress=False)
    again = lab.run(config, Store(tmp_path / "again"), progress=False)
    for name in ("result.json", "rounds/0002.json"):
        (again.path / name).unlink(missing_ok=True)
    (again.path / "state-0002.safetensors").rename(again.path / "state-0001.safetensors")
    first = lab.round(config).state
    again.commit(again.records()[0], first.to_tensors(), 0.0)
    assert promised_bytes(lab.run(config, Store(tmp_path / "again"), progress=False)) == promised_bytes(whole)


@pytest.mark.parametrize("device", ["cpu", CARD])
def test_stacked_clients(device, small):
    alone, together = (open_method(small(device=device, clients_per_forward=n)) for n in (1, 3))
    found = [method.step(method.initial_state())[0].to_tensors() for method in (alone, together)]
    for name in ("clients.text", "clients.visual"):
        assert torch.allclose(found[0][name], found[1][name], atol=1e-4), name


@pytest.mark.parametrize("device", [CARD])
def test_a_run_takes_no_more_of_a_card_than_planned(device, store):
    config = lab.configure("paper", dataset="digits:300", weights="random", n_clients=2, rounds=1, device=device)
    torch.cuda.reset_peak_memory_stats()
    lab.run(config, store, progress=False)
    assert torch.cuda.max_memory_allocated() <= 1e9 * plan_card(config, 24).gigabytes
