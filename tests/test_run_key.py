"""The key that names a result: everything that can change a number changes it, and nothing else does."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from other_values import other_values

from fedcopl_lab import FedCoPLError, PromptConfig, SageConfig, configure
from fedcopl_lab._identity import _data_sha, key_of
from fedcopl_lab.config import METHODS, PROFILES, SAGE_METHODS, STORED_NAMES, config_from, readers_of, run_key
from fedcopl_lab.config._run_config import READ_WITH, flat
from fedcopl_lab.data import read_manifest_table

pytestmark = pytest.mark.usefixtures("as_installed")
PROMPT = configure("smoke", clients_per_forward=1)
SAGE = configure("smoke", method="SAGE", clients_per_forward=1)
BEFORE = {"steps_per_epoch": 12, "lr": 0.03}  # smoke's when these keys were stored
STORED = {"fedprox_mu": "mu_prox", "label_fraction": "label_share"}


def key(config, data="d", weights="w"):
    return run_key(config, data_sha=data, weights_sha=weights)


@pytest.mark.parametrize("base", [PROMPT, SAGE], ids=["FedCoPL", "SAGE"])
def test_every_setting_changes_the_key_and_all_keys_differ(base):
    values = flat(vars(base))
    others = other_values(type(base), values)
    assert set(others) == set(values)
    assert all(values[name] != value for name, value in others.items())
    keys = {key(base)}
    for name, value in others.items():
        reader = (readers_of(name) or [base.method])[0]
        reading = {"method": reader}
        if name in type(base)._ADDED:  # a younger setting counts where it is read, and not at its old value
            before, field, needed = type(base)._ADDED[name]
            value = before if values[name] != before else value
            reading = ({field: needed} if field else {}) | ({"fraction": 0.2} if needed == "quantity" else {})
        if name in READ_WITH:
            reading |= {READ_WITH[name][0]: READ_WITH[name][1][0], name: 0.2}
        own = config_from(base.as_dict() | reading)
        changed = config_from(base.as_dict() | reading | {name: value})
        assert key(changed) != key(own), name
        keys.add(key(changed))
    assert len(keys) == len(others) + 1


def test_a_stored_run_with_a_setting_that_nothing_read_can_be_opened():
    settings = PROMPT.as_dict()
    assert config_from(settings | {"prox_mu": 9.0, "cache_votes": "sum", "fraction": 0.2, "epsilon": 1.0}) == PROMPT
    assert config_from(settings | {"method": "PromptProx", "prox_mu": 9.0}).prox_mu == 9.0
    with pytest.raises(FedCoPLError, match=r"kappa=9\.0 would change nothing in FedAvg"):
        config_from(SAGE.as_dict() | {"method": "FedAvg", "kappa": 9.0})


def test_the_names_of_stored_configurations_stay():
    assert STORED_NAMES == STORED
    stored = SAGE.as_dict()
    assert list(stored)[14:17] == ["mu_prox", "flexmatch_mapping", "flexmatch_warm_up"]
    assert stored["fedmatch_unsent"] == 5e-5
    assert stored["label_share"] == 0.1
    assert not {"fedmatch", "fedprox_mu", "label_fraction"} & set(stored)


OLD_MINI = {
    "profile": "mini", "dataset": "cifar10:unseen:6000", "clip": "mini", "rounds": 6, "local_epochs": 2, "lr": 0.1,
    "refresh_every": 2, "shots": 16, "candidate_scope": "client", "cpl_gamma": 2.0, "class_order": "by_number",
    "test_stride": 1,
}  # fmt: skip
OLD_MINI_SAGE = {
    "profile": "mini", "n_clients": 20, "participation": 0.4, "rounds": 20, "steps_per_epoch": 10, "batch_size": 32,
    "unlabelled_batch_size": 64, "lr": 0.1, "lr_at_end": 1.0, "labelled_per_class": None, "image_size": None,
    "start": "drawn", "width": 1.0, "bn_momentum": 0.35, "precision": "fp32", "test_stride": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "FedCoPL"}, "ff3cf2f5014cd743"),
        ({"method": "FedCoPL"} | OLD_MINI, "10b429e98f65d604"),
        ({"method": "PromptFL", "labeller": "CPL", "scheme": "quantity"} | OLD_MINI, "a3f82b675068c499"),
        ({"method": "FedOTP", "mode": "native"}, "7b9316488f370c67"),
        ({"method": "SAGE", "kappa": 5.0} | BEFORE, "344228517b4b048a"),
        ({"method": "FedMatch", "fedmatch_helpers": 3, "clients_per_forward": 1} | BEFORE, "b9d239083a4cbd04"),
        ({"method": "FedProx", "mu_prox": 0.1, "label_share": 0.2} | BEFORE, "a3f90bd74409ac14"),
        ({"method": "SAGE", "kappa": 5.0} | OLD_MINI_SAGE, "f8b7c2a6bfe4ccba"),
        ({"method": "FedMatch", "fedmatch_helpers": 3} | OLD_MINI_SAGE, "4d1a88fedd8ff458"),
    ],
)
def test_keys_stay_the_same_over_versions(settings, expected):
    assert key(configure(**{"profile": "smoke"} | settings)) == expected


def test_a_younger_setting_counts_only_where_a_run_reads_it():
    stored = configure("smoke").as_dict()
    assert {key(config_from(stored | {"cache_votes": name})) for name in ("mean", "sum")} == {key(configure("smoke"))}
    votes = {name: key(configure("smoke", method="pFedPrompt", cache_votes=name)) for name in ("mean", "sum")}
    assert votes["mean"] != votes["sum"]
    old = configure("smoke", method="pFedPrompt").as_dict()
    del old["cache_votes"]  # stored before the setting existed
    assert config_from(old).cache_votes == "sum"
    assert key(config_from(old)) == votes["sum"]


def test_data_weights_and_numerics_change_the_key(monkeypatch):
    keys = {key(PROMPT), key(PROMPT, data="e"), key(PROMPT, weights="v")}
    monkeypatch.setattr("fedcopl_lab.config._run_config.NUMERICS", 10**6)
    assert len(keys | {key(PROMPT)}) == 4


def test_trained_weights_to_start_from_have_keys_of_their_own():
    drawn, started = (configure("smoke", method="SAGE", start=name) for name in ("drawn", "resnet8-cifar100"))
    assert "start" not in drawn.as_dict()
    data = _data_sha("digits")
    assert key_of(drawn) == key(drawn, data, "from scratch")
    assert key_of(started) == key(started, data, read_manifest_table("resnet8-cifar100")["sha256"])
    with pytest.raises(FedCoPLError, match="start='resnet9' is unknown; choose one of drawn, resnet8-cifar100"):
        configure("smoke", method="SAGE", start="resnet9")


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
