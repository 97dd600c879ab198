"""Configurations: what they refuse, and how profiles and modes fill them."""

import dataclasses
import math
from typing import Literal, get_args, get_origin

import pytest

from fedcopl_lab import FedCoPLError, PromptConfig, configure
from fedcopl_lab.config import AUTHORS_MODE, METHODS, NATIVE_MODE, PROFILES, cpl_levels

pytestmark = pytest.mark.usefixtures("as_installed")
FIELDS = {field.name: field for field in dataclasses.fields(PromptConfig)}


def literal_choices(annotation):
    arms = [annotation, *get_args(annotation)]
    return next((get_args(arm) for arm in arms if get_origin(arm) is Literal), ())


CHOICES = {name: literal_choices(field.type) for name, field in FIELDS.items() if literal_choices(field.type)}


def test_every_kind_of_choice_is_found():
    assert set(CHOICES) >= {"method", "labeller", "scheme", "aggregate", "allocation", "test_split"}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_checked(name):
    with pytest.raises(FedCoPLError) as caught:
        dataclasses.replace(configure("smoke"), **{name: "bogus"})
    message = str(caught.value)
    assert f"{name}='bogus'" in message
    assert "\n" not in message
    assert all(str(choice) in message for choice in CHOICES[name])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clients", 0),
        ("n_clients", 2.5),
        ("n_clients", "5"),
        ("rounds", 0),
        ("rounds", -1),
        ("local_epochs", 0),
        ("batch_size", 0),
        ("n_text", 0),
        ("n_visual", 0),
        ("shots", 0),
        ("threads", 0),
        ("clients_per_forward", 0),
        ("refresh_every", -1),
        ("min_train", -1),
        ("min_test", None),
        ("seed", -1),
        ("q_conf", 1.01),
        ("q_conf", -0.1),
        ("q_ent", 2),
        ("q_ent", math.nan),
        ("q_ent", "half"),
        ("participation", 0.0),
        ("participation", 1.1),
        ("lr", 0.0),
        ("lr", math.nan),
        ("lr", math.inf),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("weight_decay", -1.0),
        ("weight_decay", math.inf),
        ("beta", 0.0),
        ("beta", None),
        ("beta", math.inf),
        ("labeller", "none"),
        ("warmup_epochs", -1),
        ("ot_iterations", 0),
        ("ot_mass", 0.0),
        ("ot_mass", 1.5),
        ("ot_epsilon", 0.0),
        ("ot_threshold", -1.0),
        ("prox_mu", -0.5),
        ("cache_weight", math.nan),
        ("cache_sharpness", math.inf),
        ("cpl_alpha", 1.2),
        ("cpl_beta", -0.1),
        ("upl_confident", 90),
        ("epsilon", 0.0),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(FedCoPLError, match=f"^{name}=.* is not valid; expected [^\n]*$"):
        configure("smoke", **{name: value})


@pytest.mark.parametrize("fraction", [None, 0.0, 1.5])
def test_a_quantity_split_needs_its_fraction(fraction):
    with pytest.raises(FedCoPLError, match="fraction="):
        configure("smoke", scheme="quantity", fraction=fraction)


@pytest.mark.parametrize("change", [{"rounds": 1}, {"labeller": "CoPL"}])
def test_zero_shot_trains_nothing(change):
    with pytest.raises(FedCoPLError, match="zero-shot"):
        configure("smoke", method="zero-shot", **change)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_profile_then_method_then_changes(profile, method):
    config = configure(profile, method=method)
    expected = {**PROFILES[profile], **METHODS[method]}
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.profile, config.method, config.seed) == (profile, method, 0)
    assert configure(profile, method=method, batch_size=7).batch_size == 7


def test_the_values_of_the_profiles():
    smoke, paper = configure("smoke"), configure("paper")
    assert (smoke.n_clients, smoke.rounds, smoke.local_epochs, smoke.refresh_every) == (5, 4, 2, 2)
    assert (smoke.batch_size, smoke.n_text, smoke.n_visual, smoke.min_train, smoke.min_test) == (32, 8, 5, 10, 5)
    assert (paper.n_clients, paper.rounds, paper.local_epochs, paper.refresh_every) == (10, 20, 10, 5)
    assert (paper.batch_size, paper.n_text, paper.clip, paper.beta) == (64, 16, "ViT-B-32", 0.1)
    mini = configure("mini")
    assert (mini.dataset, mini.clip, mini.n_clients, mini.shots) == ("cifar10:unseen:6000", "mini", 10, 16)
    assert (mini.rounds, mini.local_epochs, mini.refresh_every, mini.batch_size, mini.n_text) == (6, 2, 2, 32, 8)
    for config in (smoke, mini, paper):
        assert (config.lr, config.momentum, config.weight_decay) == (0.1, 0.9, 0.05)
        assert (config.q_conf, config.q_ent, config.aggregate, config.labeller) == (0.5, 0.5, "visual", "CoPL")


@pytest.mark.parametrize("method", METHODS)
def test_authors_mode(method):
    config = configure("smoke", method=method, mode="authors")
    assert {name: getattr(config, name) for name in AUTHORS_MODE} == dict(AUTHORS_MODE)
    assert configure("smoke", method=method, mode="authors", min_test=5).min_test == 5
    assert config != configure("smoke", method=method)


def test_a_scheme_brings_its_own_parameters():
    assert configure("smoke", scheme="quantity").fraction == 0.2
    assert configure("smoke", scheme="quantity").beta is None
    assert configure("smoke", scheme="quantity", fraction=0.4).fraction == 0.4
    assert configure("smoke", scheme="iid").beta is None


def test_the_environment_names_the_profile(monkeypatch):
    assert configure().profile == "smoke"
    monkeypatch.setenv("FEDCOPL_LAB_PROFILE", "paper")
    assert configure() == configure("paper")
    assert configure("smoke").profile == "smoke"
    monkeypatch.setenv("FEDCOPL_LAB_PROFILE", "papr")
    with pytest.raises(FedCoPLError, match=r"profile 'papr'; did you mean 'paper'\?; known: smoke, mini, paper"):
        configure()


def test_unknown_words_are_answered_with_the_nearest():
    with pytest.raises(FedCoPLError, match=r"unknown setting 'roundz'; did you mean 'rounds'\?"):
        configure("smoke", roundz=3)
    with pytest.raises(FedCoPLError, match=r"unknown method 'FedCopl'; did you mean 'FedCoPL'\?.*PromptFL"):
        configure("smoke", method="FedCopl")
    with pytest.raises(FedCoPLError, match="mode='code' is unknown; choose one of paper, authors, native"):
        configure("smoke", mode="code")


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configure("smoke").seed = 2


@pytest.mark.parametrize("scheme", ["dirichlet", "quantity", "iid"])
def test_the_label_is_short_and_names_the_seed(scheme):
    label = configure("smoke", scheme=scheme, seed=7).label
    assert label.startswith("FedCoPL+CoPL digits")
    assert label.endswith("seed=7")
    assert "None" not in label


def test_clients_that_share_momentum_cannot_share_a_forward_pass():
    with pytest.raises(
        FedCoPLError, match="clients_per_forward=2 is not valid; expected 1 with momentum_state='shared'"
    ):
        configure("smoke", mode="authors", clients_per_forward=2)
    assert configure("smoke", momentum_state="per_client", clients_per_forward=2).clients_per_forward == 2
    assert configure("smoke").clients_per_forward == 5
    assert configure("smoke", momentum_state="shared").clients_per_forward == 1


def test_random_weights_are_loud():
    assert "RANDOM WEIGHTS" in configure("paper", weights="random").label
    assert "RANDOM" not in configure("paper").label


def test_baselines_have_their_own_optimisers_in_native_mode():
    config = configure("paper", method="FedOTP", mode="native")
    assert {name: getattr(config, name) for name in NATIVE_MODE["FedOTP"]} == dict(NATIVE_MODE["FedOTP"])
    assert (config.lr, config.lr_schedule, config.modalities, config.rounds) == (0.001, "constant", "text", 20)
    assert set(NATIVE_MODE) == set(METHODS)
    assert configure("smoke", mode="native") == configure("smoke")
    assert configure("smoke", method="PromptFL", mode="native", lr=0.3).lr == 0.3


@pytest.mark.parametrize(
    ("modalities", "aggregate", "shared"),
    [
        ("both", "both", ("text", "visual")),
        ("both", "visual", ("visual",)),
        ("text", "both", ("text",)),
        ("text", "visual", ()),
        ("visual", "visual", ("visual",)),
        ("both", "none", ()),
    ],
)
def test_only_trained_prompts_are_shared(modalities, aggregate, shared):
    assert configure("smoke", modalities=modalities, aggregate=aggregate).shared == shared


def test_noise_on_counts_needs_counts_and_a_budget():
    assert configure("smoke", count_noise="laplace", epsilon=1).epsilon == 1.0
    with pytest.raises(FedCoPLError, match="epsilon=None is not valid; expected a number with count_noise='gaussian'"):
        configure("smoke", count_noise="gaussian")
    with pytest.raises(FedCoPLError, match="upload no counts"):
        configure("smoke", method="PromptFL", count_noise="half")
    with pytest.raises(FedCoPLError, match="allocation='none'"):
        configure("smoke", count_noise="half", allocation="none")


def test_the_label_names_what_is_unusual():
    label = configure("smoke", labeller="true", modalities="text", count_noise="laplace", epsilon=0.5).label
    assert label == "FedCoPL+TRUE LABELS digits β=0.1 text only counts laplace ε=0.5 seed=0"
    assert configure("smoke", method="zero-shot").label == "zero-shot digits β=0.1 seed=0"


def test_the_levels_of_cpl():
    assert cpl_levels(configure("paper", dataset="dtd"), 47) == (0.75, 0.95)
    assert cpl_levels(configure("paper", dataset="cifar100"), 100) == (0.75, 0.98)
    assert cpl_levels(configure("smoke", cpl_alpha=0.6, cpl_beta=0.0), 10) == (0.6, 0.0)
    assert cpl_levels(configure("smoke"), 1) == (0.75, 0.0)
