"""A whole round at the size of the paper: 224 px images and ViT-B/32 with random weights, in bounded memory."""

import resource
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab.extras.bench.plan import plan_run
from fedcopl_lab.extras.bench.rates import measure_rates
from fedcopl_lab.methods import PromptMethod, PromptSetting, _prompt_setting

N_TRAIN, N_TEST = 240, 60


def synthetic():
    """Coloured noise at 224 px with the classes of the digits: shapes and sizes, no meaning."""
    digits = lab.load_dataset("digits")
    coarse = torch.randint(0, 256, (N_TRAIN + N_TEST, 3, 7, 7), generator=torch.Generator().manual_seed(0))
    images = coarse.repeat_interleave(32, 2).repeat_interleave(32, 3).to(torch.uint8)
    everything = torch.arange(N_TRAIN + N_TEST)
    return replace(
        digits,
        images=images,
        labels=everything % 10,
        train_indices=everything[:N_TRAIN],
        test_indices=everything[N_TRAIN:],
    )


@pytest.mark.long
def test_a_round_of_two_clients_fits_in_six_gigabytes_and_is_planned(monkeypatch):
    dataset = synthetic()
    monkeypatch.setattr(_prompt_setting, "load_dataset", lambda name, image_size: dataset)
    _prompt_setting._frozen_for.cache_clear()
    config = lab.configure(
        "paper", dataset="digits", weights="random", n_clients=2, scheme="iid", rounds=1, local_epochs=1,
        labeller="FPL", shots=6, threads=torch.get_num_threads(),
    )  # fmt: skip
    rates = measure_rates(config.clip, 10)
    start = time.perf_counter()
    method = PromptMethod(PromptSetting.of(config))
    state, row = method.step(method.initial_state())
    seconds = time.perf_counter() - start
    _prompt_setting._frozen_for.cache_clear()
    assert state.round == 1
    assert 0 < row["n_selected"] <= 120
    assert row["n_steps"] >= 2
    assert np.isfinite(row["loss_last_epoch"])
    plan = plan_run(config, rates, sizes=(N_TRAIN, N_TEST, 10, 224), selected_share=row["n_selected"] / N_TRAIN)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"\nplanned {plan.seconds:.1f} s, {plan.bytes / 1e9:.2f} GB; took {seconds:.1f} s, {peak / 1e9:.2f} GB")
    assert peak < 6e9
    assert plan.steps == row["n_steps"]  # seconds are compared by the bench, on a quiet machine
    assert plan.bytes < 6e9
