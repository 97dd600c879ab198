"""SAGE's configurations: what they refuse, how profiles and modes fill them, and their key."""

import dataclasses
import math
from typing import Literal, get_args, get_origin

import pytest
from other_values import OF_EVERY_RUN

from fedcopl_lab import FedCoPLError, PromptConfig, SageConfig, configure
from fedcopl_lab.config import (
    KAPPA_STAR,
    SAGE_AUTHORS_MODE,
    SAGE_METHODS,
    SAGE_PROFILES,
    config_from,
    readers_of,
    run_key,
    setting_names,
)

OTHER = OF_EVERY_RUN | {
    "method": "FixMatch-LPL",
    "image_size": 16,
    "scheme": "dirichlet",
    "partition_mode": "authors",
    "alpha": 0.5,
    "label_share": 0.2,
    "labelled_per_class": 12,
    "labelled_in_pool": False,
    "flip": False,
    "cutout": "16",
    "norm": "authors",
    "width": 0.5,
    "bn": "local",
    "bn_momentum": 0.2,
    "unlabelled_batch_size": 32,
    "epoch_rule": "one_pass",
    "supervised_schedule": "labelled_epochs",
    "steps_per_epoch": 3,
    "momentum_state": "carry",
    "weight_by": "uniform",
    "threshold": 0.9,
    "kappa": 2.0,
    "fixed_weight": 0.5,
    "use_cpg": False,
    "use_cdsc": False,
    "target": "soft",
    "pl_bn": "eval",
    "kl": "reverse",
    "lambda_u": 0.5,
    "n_probe": 7,
    "log_both": False,
    "mu_prox": 0.01,
    "flexmatch_mapping": "linear",
    "flexmatch_warm_up": False,
    "flexmatch_memory": "round",
    "fedmatch_threshold": 0.5,
    "fedmatch_lambda_s": 1.0,
    "fedmatch_lambda_i": 0.1,
    "fedmatch_lambda_a": 0.1,
    "fedmatch_lambda_l2": 1.0,
    "fedmatch_lambda_l1": 1e-3,
    "fedmatch_helpers": 1,
    "fedmatch_lookup_every": 10,
    "fedmatch_psi_share": 0.1,
    "fedmatch_zero": 0.0,
    "fedmatch_unsent": 0.0,
    "fedlabel_burn_in": 5,
    "fedlabel_choice": "entropy",
    "fedlabel_threshold": 0.95,
    "fedlabel_lambda_u": 0.5,
    "fedlabel_lambda_c": 0.5,
    "fedlabel_pull": 1.0,
    "fedloke_mu": 0.5,
    "fedloke_entropy": 0.5,
    "fedloke_ramp": 3,
    "feddure_threshold": 0.6,
    "feddure_coarse": False,
    "feddure_feedback": "fall",
    "feddure_fine": False,
    "feddb_labels": "round",
    "feddb_weights": "authors",
    "feddb_momentum": 0.0,
    "channels_last": False,
    "precision": "bf16",
    "compile": True,
}
"""Another value for every field than ``configure("smoke", method="SAGE")`` has."""

pytestmark = pytest.mark.usefixtures("as_installed")
FIELDS = {field.name: field for field in dataclasses.fields(SageConfig)}


def smoke(**changes):
    return configure("smoke", method="SAGE", **changes)


def key(config):
    return run_key(config, data_sha="d", weights_sha="from scratch")


def test_the_list_of_other_values_is_whole():
    assert set(OTHER) == set(FIELDS)
    assert all(getattr(smoke(), name) != value for name, value in OTHER.items())


def test_every_field_changes_the_key_and_all_keys_differ():
    bases = {name: configure("smoke", method=(readers_of(name) or ["SAGE"])[0]) for name in OTHER}
    keys = {name: key(dataclasses.replace(base, **{name: OTHER[name]})) for name, base in bases.items()}
    assert len(set(keys.values())) == len(OTHER)
    assert all(keys[name] != key(base) for name, base in bases.items())


@pytest.mark.parametrize("method", SAGE_METHODS)
def test_a_setting_that_a_method_does_not_read_is_refused(method):
    for name, value in OTHER.items():
        readers = readers_of(name)
        if readers is None or method in readers:
            continue
        with pytest.raises(FedCoPLError, match=f"{name}=.* would change nothing in .*; it is read by .*: leave it at"):
            configure("smoke", method=method, **{name: value})


def test_a_configuration_comes_back_from_its_values():
    config = smoke(alpha=1, fixed_weight=None)
    assert config_from(config.as_dict()) == config
    assert type(config.alpha) is float
    assert isinstance(config_from(configure("smoke").as_dict()), PromptConfig)
    assert setting_names() >= {"kappa", "q_conf", "seed"}
    assert "q_conf" not in setting_names(SageConfig)


@pytest.mark.parametrize("method", SAGE_METHODS)
@pytest.mark.parametrize("profile", SAGE_PROFILES)
def test_every_method_has_every_profile(profile, method):
    config = configure(profile, method=method)
    assert isinstance(config, SageConfig)
    expected = {**SAGE_PROFILES[profile], **SAGE_METHODS[method]}
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.lr, config.momentum, config.weight_decay, config.threshold) == (0.1, 0.9, 1e-4, 0.95)
    assert config.kappa == KAPPA_STAR == pytest.approx(13.8629, abs=1e-4)
    assert int(config.participation * config.n_clients) == 8


def test_the_values_of_the_paper():
    paper = configure("paper", method="SAGE")
    assert (paper.batch_size, paper.unlabelled_batch_size, paper.local_epochs, paper.width) == (128, 256, 5, 4)
    rounds = {name: configure("paper", method="SAGE", dataset=name).rounds for name in ("cifar100", "svhn", "cinic10")}
    assert (paper.rounds, rounds) == (300, {"cifar100": 500, "svhn": 150, "cinic10": 400})
    assert configure("paper", method="SAGE", dataset="cifar100", rounds=600).rounds == 600
    assert paper.channels == 64
    assert len(SAGE_METHODS) == 13


def test_authors_mode():
    config = smoke(mode="authors")
    assert {name: getattr(config, name) for name in SAGE_AUTHORS_MODE} == dict(SAGE_AUTHORS_MODE)
    assert smoke(mode="authors", norm="matched").norm == "matched"


def literal_choices(annotation):
    arms = [annotation, *get_args(annotation)]
    return next((get_args(arm) for arm in arms if get_origin(arm) is Literal), ())


CHOICES = {name: literal_choices(field.type) for name, field in FIELDS.items() if literal_choices(field.type)}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_checked(name):
    with pytest.raises(FedCoPLError) as caught:
        dataclasses.replace(smoke(), **{name: "bogus"})
    assert all(str(choice) in str(caught.value) for choice in CHOICES[name])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unlabelled_batch_size", 0),
        ("rounds", 0),
        ("n_probe", -1),
        ("steps_per_epoch", 0),
        ("labelled_per_class", 0),
        ("image_size", 4),
        ("threshold", 1.01),
        ("threshold", None),
        ("fixed_weight", -0.1),
        ("kappa", -1.0),
        ("kappa", math.inf),
        ("lambda_u", -1.0),
        ("label_share", 0.0),
        ("label_share", 1.0),
        ("width", 0.0),
        ("width", 0.3),
        ("bn_momentum", 0.0),
        ("alpha", None),
        ("alpha", 0.0),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(FedCoPLError, match=f"^{name}=.* is not valid; expected [^\n]*$"):
        smoke(**{name: value})


def test_an_even_split_has_no_alpha():
    assert smoke(scheme="iid").alpha is None
    with pytest.raises(FedCoPLError, match=r"alpha=0\.1 is not valid; expected None with scheme='iid'"):
        smoke(scheme="iid", alpha=0.1)


def test_a_setting_of_the_other_paper_is_named_as_such():
    with pytest.raises(FedCoPLError, match="unknown setting 'beta' of SAGE, though of other methods"):
        smoke(beta=0.1)
    with pytest.raises(FedCoPLError, match="unknown setting 'kappa' of FedCoPL, though of other methods"):
        configure("smoke", kappa=1.0)
    with pytest.raises(FedCoPLError, match=r"unknown setting 'kapa'; did you mean 'kappa'\?"):
        smoke(kapa=1.0)


def test_the_label_is_short():
    assert smoke(seed=7).label == "SAGE digits α=0.1 10% seed=7"
    assert smoke(scheme="iid", labelled_per_class=5, target="soft").label == "SAGE soft digits iid 5/class seed=0"
