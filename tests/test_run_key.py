"""The key that names a result: everything that can change a number changes it, and nothing else does."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from other_values import OF_EVERY_RUN

from fedcopl_lab import PromptConfig, configure
from fedcopl_lab.config import run_key

pytestmark = pytest.mark.usefixtures("as_installed")
OTHER = OF_EVERY_RUN | {
    "method": "PromptFL",
    "seed_scope": "prompts",
    "clip": "mini",
    "scheme": "iid",
    "beta": 0.3,
    "fraction": 0.5,
    "partition_mode": "authors",
    "test_split": "independent",
    "min_train": 11,
    "min_test": 6,
    "lr_schedule": "run",
    "momentum_state": "shared",
    "n_text": 9,
    "n_visual": 4,
    "visual_depth": 2,
    "aggregate": "both",
    "weight_by": "selected",
    "labeller": "FPL",
    "refresh_every": 1,
    "relabel_with": "local",
    "q_conf": None,
    "q_ent": 0.4,
    "filter_scope": "global",
    "allocation": "none",
    "unseen_class": "authors_quota",
    "candidates": "any",
    "shots": 3,
    "label_scope": "global",
    "overflow": "next_best",
    "upl_confident": 0.9,
    "cpl_alpha": 0.6,
    "cpl_beta": 0.7,
    "count_noise": "half",
    "epsilon": 2.0,
    "modalities": "text",
    "warmup_epochs": 1,
    "prox_mu": 0.1,
    "prox_gradient": False,
    "cache_weight": 2.0,
    "cache_sharpness": 3.0,
    "ot_mass": 0.5,
    "ot_epsilon": 0.2,
    "ot_threshold": 0.01,
    "ot_iterations": 9,
    "clients_per_forward": 3,
    "precision": "bf16",
    "weights": "random",
}
"""Another value for every field than ``configure("smoke")`` has."""


def key(config, data="d", weights="w"):
    return run_key(config, data_sha=data, weights_sha=weights)


def test_the_list_of_other_values_is_whole():
    base = configure("smoke", clients_per_forward=1)
    assert set(OTHER) == {field.name for field in dataclasses.fields(PromptConfig)}
    assert all(getattr(base, name) != value for name, value in OTHER.items())


@pytest.mark.parametrize("name", OTHER)
def test_every_field_changes_the_key(name):
    base = configure("smoke", clients_per_forward=1)
    assert key(dataclasses.replace(base, **{name: OTHER[name]})) != key(base)


def test_all_keys_of_single_changes_differ():
    base = configure("smoke", clients_per_forward=1)
    keys = {key(dataclasses.replace(base, **{name: value})) for name, value in OTHER.items()}
    assert len(keys | {key(base)}) == len(OTHER) + 1


def test_data_weights_and_numerics_change_the_key(monkeypatch):
    config = configure("smoke")
    keys = {key(config), key(config, data="e"), key(config, weights="v")}
    monkeypatch.setattr("fedcopl_lab.config._key.NUMERICS", 10**6)
    assert len(keys | {key(config)}) == 4


def test_nothing_else_changes_the_key():
    config = configure("smoke", device="cuda:0")
    assert key(config) == key(dataclasses.replace(config)) == key(configure("smoke", device="cuda:0"))
    assert key(config) == key(dataclasses.replace(config, device="cuda:1"))
    assert key(config) == key(dataclasses.replace(config, device="cuda"))
    assert key(config) != key(dataclasses.replace(config, device="cpu"))
    assert key(PromptConfig(**config.as_dict())) == key(config)


@pytest.mark.parametrize("kind", [int, float, np.float64, np.float32])
def test_a_number_has_one_key_however_it_is_spelled(kind):
    config = configure("smoke", beta=kind(1), participation=kind(1), q_conf=kind(0))
    assert key(config) == key(configure("smoke", beta=1.0, participation=1.0, q_conf=0.0))
    assert type(config.beta) is float


def test_the_key_is_the_same_in_every_process():
    code = (
        "from fedcopl_lab.config import configure, run_key;"
        "print(run_key(configure('smoke', beta=0.3), data_sha='d', weights_sha='w'))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("0", "1", "2")
    }
    assert keys == {key(configure("smoke", beta=0.3))}
    assert len(keys.pop()) == 16
