"""SAGE's configurations: what they refuse, and how profiles and modes fill them."""

import dataclasses

import pytest
from other_values import other_values, types_of

from fedcopl_lab import FedCoPLError, SageConfig, configure
from fedcopl_lab.config import (
    KAPPA_STAR,
    METHODS,
    READERS,
    SAGE_AUTHORS_MODE,
    SAGE_METHODS,
    SAGE_PROFILES,
    readers_of,
    setting_names,
)
from fedcopl_lab.config._run_config import flat

pytestmark = pytest.mark.usefixtures("as_installed")


def smoke(**changes):
    return configure("smoke", method="SAGE", **changes)


@pytest.mark.parametrize("method", SAGE_METHODS)
def test_a_setting_that_a_method_does_not_read_is_refused(method):
    values = flat(vars(smoke(clients_per_forward=1)))
    for name, value in other_values(SageConfig, values).items():
        readers = readers_of(name)
        if readers is None or method in readers:
            continue
        with pytest.raises(FedCoPLError, match=f"{name}=.* would change nothing in .*; it is read by .*: leave it at"):
            configure("smoke", method=method, **{name: value})


def test_settings_and_readers_name_fields_and_methods():
    names = setting_names()
    assert all(word in names or any(name.startswith(f"{word}_") for name in names) for word in READERS)
    assert all(set(readers) <= {*METHODS, *SAGE_METHODS} for readers in READERS.values())
    assert setting_names(SageConfig) == {"profile", "method", *types_of(SageConfig)}
    assert setting_names() >= {"kappa", "q_conf", "seed"}


def test_a_baselines_settings_are_nested():
    config = configure("smoke", method="FedMatch", fedmatch_helpers=3)
    assert config.fedmatch == dataclasses.replace(smoke().fedmatch, helpers=3)
    assert config.as_dict()["fedmatch_helpers"] == 3
    fewer = dataclasses.replace(config, fedmatch=dataclasses.replace(config.fedmatch, helpers=1))
    assert fewer == configure("smoke", method="FedMatch", fedmatch_helpers=1)
    with pytest.raises(FedCoPLError, match="fedmatch_helpers=-1 is not valid"):
        dataclasses.replace(config.fedmatch, helpers=-1)
    with pytest.raises(FedCoPLError, match="fedmatch_helpers=3 would change nothing in SAGE; it is read by FedMatch"):
        dataclasses.replace(config, method="SAGE")


def test_spellings_of_stored_configurations_are_accepted():
    assert smoke(label_share=0.2) == smoke(label_fraction=0.2)
    assert configure("smoke", method="FedProx", mu_prox=0.1).fedprox.mu == 0.1


@pytest.mark.parametrize("method", SAGE_METHODS)
@pytest.mark.parametrize("profile", SAGE_PROFILES)
def test_every_method_has_every_profile(profile, method):
    config = configure(profile, method=method)
    assert isinstance(config, SageConfig)
    preset = SAGE_PROFILES[profile]
    assert {name: getattr(config, name) for name in preset} == preset
    assert config.lr == {"smoke": 0.045, "mini": 0.02, "paper": 0.1}[profile]
    assert (config.momentum, config.weight_decay, config.threshold) == (0.9, 1e-4, 0.95)
    assert config.kappa == KAPPA_STAR == pytest.approx(13.8629, abs=1e-4)
    assert config.clients_per_round == (8 if profile == "paper" else 4)


def test_the_values_of_the_paper():
    paper = configure("paper", method="SAGE")
    assert (paper.batch_size, paper.unlabelled_batch_size, paper.local_epochs, paper.width) == (128, 256, 5, 4)
    rounds = {name: configure("paper", method="SAGE", dataset=name).rounds for name in ("cifar100", "svhn", "cinic10")}
    assert (paper.rounds, rounds) == (300, {"cifar100": 500, "svhn": 150, "cinic10": 400})
    assert configure("paper", method="SAGE", dataset="cifar100", rounds=600).rounds == 600
    assert paper.channels == 64
    assert len(SAGE_METHODS) == 13


@pytest.mark.parametrize(
    ("method", "setting", "paper", "smoke"),
    [("FedLabel", "burn_in_rounds", 50, 8), ("FedLoKe", "ramp_rounds", 200, 20), ("FedMatch", "lookup_period", 10, 2)],
)
def test_schedules_are_the_public_codes_numbers_in_paper_and_shares_elsewhere(method, setting, paper, smoke):
    for dataset in ("cifar10", "svhn", "cinic10"):
        assert getattr(configure("paper", method=method, dataset=dataset), setting) == paper
    assert getattr(configure("paper", method=method, dataset="cifar100", rounds=600), setting) == paper
    assert getattr(configure("smoke", method=method), setting) == smoke
    assert getattr(configure("smoke", method=method, rounds=1), setting) == (0 if setting == "burn_in_rounds" else 1)
    assert configure("smoke", method="FedLabel", fedlabel_burn_in=0).burn_in_rounds == 0


def test_feddb_is_its_public_code_and_the_other_form_a_switch():
    for profile in SAGE_PROFILES:
        config = configure(profile, method="FedDB")
        assert (config.feddb.labels, config.feddb.weights) == ("round", "authors")
    assert configure("smoke", method="FedDB", feddb_labels="batch", feddb_weights="exact").feddb.labels == "batch"


@pytest.mark.parametrize(
    ("share", "clients", "expected"), [(0.29, 100, 29), (0.57, 100, 57), (0.39, 10, 3), (0.01, 10, 1)]
)
def test_participants_are_the_share_rounded_down_not_its_binary_error(share, clients, expected):
    assert smoke(participation=share, n_clients=clients).clients_per_round == expected


def test_authors_mode():
    config = smoke(mode="authors")
    assert {name: getattr(config, name) for name in SAGE_AUTHORS_MODE} == dict(SAGE_AUTHORS_MODE)
    assert smoke(mode="authors", norm="matched").norm == "matched"


def test_the_label_is_short():
    assert smoke(seed=7).label == "SAGE digits α=0.1 4/class seed=7"
    assert smoke(label_fraction=0.2).label == "SAGE digits α=0.1 20% seed=0"
    assert smoke(scheme="iid").alpha is None
    assert smoke(scheme="iid", labelled_per_class=5, target="soft").label == "SAGE soft digits iid 5/class seed=0"
