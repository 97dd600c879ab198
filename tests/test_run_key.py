"""The key that names a result: everything that can change a number changes it, and nothing else does."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from other_values import other_values

from fedcopl_lab import PromptConfig, SageConfig, configure
from fedcopl_lab.config import METHODS, PROFILES, SAGE_METHODS, STORED_NAMES, config_from, readers_of, run_key

pytestmark = pytest.mark.usefixtures("as_installed")
PROMPT = configure("smoke", clients_per_forward=1)
SAGE = configure("smoke", method="SAGE")
STORED = {"fedprox_mu": "mu_prox", "label_fraction": "label_share"}


def key(config, data="d", weights="w"):
    return run_key(config, data_sha=data, weights_sha=weights)


def stored_values(config):
    return {{stored: name for name, stored in STORED.items()}.get(k, k): v for k, v in config.as_dict().items()}


@pytest.mark.parametrize("base", [PROMPT, SAGE], ids=["FedCoPL", "SAGE"])
def test_every_setting_changes_the_key_and_all_keys_differ(base):
    values = stored_values(base)
    others = other_values(type(base), values)
    assert set(others) == set(values)
    assert all(values[name] != value for name, value in others.items())
    keys = {key(base)}
    for name, value in others.items():
        reader = (readers_of(name) or [base.method])[0]
        own = config_from(base.as_dict() | {"method": reader})
        changed = config_from(base.as_dict() | {"method": reader, name: value})
        assert key(changed) != key(own), name
        keys.add(key(changed))
    assert len(keys) == len(others) + 1


def test_the_names_of_stored_configurations_stay():
    assert STORED_NAMES == STORED
    stored = SAGE.as_dict()
    assert list(stored)[14:17] == ["mu_prox", "flexmatch_mapping", "flexmatch_warm_up"]
    assert stored["fedmatch_unsent"] == 5e-5
    assert stored["label_share"] == 0.1
    assert not {"fedmatch", "fedprox_mu", "label_fraction"} & set(stored)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "FedCoPL"}, "d1f23b23dbaa3a0f"),
        ({"method": "FedOTP", "mode": "native"}, "23e16aa0923eda72"),
        ({"method": "SAGE", "kappa": 5.0}, "5d480fbb4ac6257e"),
        ({"method": "FedMatch", "fedmatch_helpers": 3}, "274632316897cb02"),
        ({"method": "FedProx", "mu_prox": 0.1, "label_share": 0.2}, "60fc5617a18e31b0"),
    ],
)
def test_keys_stay_the_same_over_versions(settings, expected):
    assert key(configure("smoke", **settings)) == expected


def test_data_weights_and_numerics_change_the_key(monkeypatch):
    keys = {key(PROMPT), key(PROMPT, data="e"), key(PROMPT, weights="v")}
    monkeypatch.setattr("fedcopl_lab.config._run_config.NUMERICS", 10**6)
    assert len(keys | {key(PROMPT)}) == 4


def test_nothing_else_changes_the_key():
    config = configure("smoke", device="cuda:0")
    assert key(config) == key(dataclasses.replace(config)) == key(configure("smoke", device="cuda:0"))
    assert key(config) == key(dataclasses.replace(config, device="cuda:1"))
    assert key(config) == key(dataclasses.replace(config, device="cuda"))
    assert key(config) != key(dataclasses.replace(config, device="cpu"))


@pytest.mark.parametrize("method", [*METHODS, *SAGE_METHODS])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_configuration_comes_back_from_its_values(profile, method):
    config = configure(profile, method=method)
    assert config_from(config.as_dict()) == config
    assert key(config_from(config.as_dict())) == key(config)
    assert type(config) is (SageConfig if method in SAGE_METHODS else PromptConfig)


@pytest.mark.parametrize("kind", [int, float, np.float64, np.float32])
def test_a_number_has_one_key_however_it_is_spelled(kind):
    config = configure("smoke", beta=kind(1), participation=kind(1), q_conf=kind(0))
    assert key(config) == key(configure("smoke", beta=1.0, participation=1.0, q_conf=0.0))
    assert type(config.beta) is float
    nested = configure("smoke", method="FedMatch", fedmatch_lambda_s=kind(1))
    assert key(nested) == key(configure("smoke", method="FedMatch", fedmatch_lambda_s=1.0))
    assert type(nested.fedmatch.lambda_s) is float


def test_the_key_is_the_same_in_every_process():
    code = (
        "from fedcopl_lab.config import configure, run_key;"
        "print(run_key(configure('smoke', beta=0.3), data_sha='d', weights_sha='w'))"
    )
    for seed in ("0", "1"):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == key(configure("smoke", beta=0.3))
    assert len(done.stdout.strip()) == 16
