"""Configurations: what they refuse, how profiles and modes fill them, and how a notebook shows them."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
from IPython.core.completer import IPCompleter, provisionalcompleter
from other_values import literal_choices, types_of

from fedcopl_lab import FedCoPLError, PromptConfig, SageConfig, configure
from fedcopl_lab.config import (
    AUTHORS_MODE,
    EXPECTED,
    METHODS,
    NATIVE_MODE,
    PROFILES,
    SAGE_PROFILES,
    config_from,
    cpl_levels,
    readers_of,
    setting_names,
)

pytestmark = pytest.mark.usefixtures("as_installed")
CHOICES = [
    (kind, name, literal_choices(annotation))
    for kind in (PromptConfig, SageConfig)
    for name, annotation in types_of(kind).items()
    if literal_choices(annotation)
]


@pytest.mark.parametrize(("kind", "name", "choices"), CHOICES)
def test_every_choice_is_checked(kind, name, choices):
    assert {name for _, name, _ in CHOICES} >= {"labeller", "scheme", "test_split", "feddb_labels", "kl"}
    base = configure("smoke", method="SAGE" if kind is SageConfig else (readers_of(name) or ["FedCoPL"])[0])
    with pytest.raises(FedCoPLError) as caught:
        config_from(base.as_dict() | {name: "bogus"})
    message = str(caught.value)
    assert f"{name}='bogus'" in message
    assert "\n" not in message
    assert all(str(choice) in message for choice in choices)


@pytest.mark.parametrize(
    ("values", "names", "method"),
    [
        ((0, 2.5, "5"), "n_clients", "FedCoPL"),
        ((0, -1), "rounds", "FedCoPL"),
        ((0,), "local_epochs batch_size n_text n_visual shots threads clients_per_forward ot_iterations", "FedCoPL"),
        ((-1, None), "refresh_every min_train min_test seed warmup_epochs", "FedCoPL"),
        ((1.01, -0.1, math.nan, "half"), "q_conf q_ent cpl_alpha cpl_beta", "FedCoPL"),
        ((0.0, 1.1), "participation ot_mass", "FedCoPL"),
        ((0.0, math.nan, math.inf), "lr beta epsilon", "FedCoPL"),
        ((1.0, -0.1), "momentum", "FedCoPL"),
        ((True,), "rounds lr n_clients seed momentum q_conf beta visual_depth", "FedCoPL"),
        ((True,), "width kappa threshold fedmatch_helpers steps_per_epoch", "SAGE"),
        ((-1.0, math.nan, math.inf), "weight_decay prox_mu cache_weight cache_sharpness ot_threshold", "FedCoPL"),
        ((None,), "beta lr", "FedCoPL"),
        (("none",), "labeller", "FedCoPL"),
        ((0.0,), "ot_epsilon", "FedOTP"),
        ((90,), "upl_confident", "FedCoPL"),
        ((0,), "unlabelled_batch_size rounds steps_per_epoch labelled_per_class", "SAGE"),
        ((-1,), "n_probe fixed_weight lambda_u", "SAGE"),
        ((4,), "image_size", "SAGE"),
        ((1.01, None), "threshold", "SAGE"),
        ((-1.0, math.inf), "kappa", "SAGE"),
        ((0.0, 1.0), "label_fraction", "SAGE"),
        ((0.0, 0.3, math.inf, "4"), "width", "SAGE"),
        ((0.0,), "bn_momentum", "SAGE"),
        ((None, 0.0), "alpha", "SAGE"),
        ((1.5,), "fedlabel_threshold fedloke_mu feddure_threshold", "FedLabel"),
        ((-1,), "fedlabel_burn_in fedmatch_helpers fedmatch_unsent", "FedLabel"),
        ((0,), "fedloke_ramp fedmatch_lambda_s", "FedLabel"),
        ((1.0,), "fedmatch_psi_share feddb_momentum", "FedLabel"),
    ],
)
def test_values_out_of_range_are_refused(values, names, method):
    for name in names.split():
        for value in values:
            with pytest.raises(FedCoPLError, match=f"^{name}=.* is not valid; expected [^\n]*$"):
                configure("smoke", method=method, **{name: value})


def test_the_typed_keywords_are_the_fields():
    for kind in (PromptConfig, SageConfig):
        types = {}
        for field in dataclasses.fields(kind):
            inner = dataclasses.fields(field.type) if dataclasses.is_dataclass(field.type) else ()
            types |= {f"{field.name}_{one.name}": one.type for one in inner} or {field.name: field.type}
        assert types_of(kind) == {name: one for name, one in types.items() if name not in ("profile", "method")}
    parameters = inspect.signature(configure).parameters
    assert set(parameters) == setting_names() | {"mode", "unread"}
    assert parameters["fedmatch_helpers"].default == 2
    assert parameters["scheme"].default is ...  # the papers differ


@pytest.mark.parametrize("jedi", [True, False])
@pytest.mark.parametrize("name", ["kappa", "fedmatch_helpers", "q_conf"])
def test_a_notebook_completes_settings(jedi, name):
    completer = IPCompleter(namespace={"configure": configure}, use_jedi=jedi)
    text = f'configure("smoke", {name[:-2]}'
    with provisionalcompleter():
        assert f"{name}=" in [one.text for one in completer.completions(text, len(text))]


@pytest.mark.parametrize("method", ["FedCoPL", "SAGE"])
def test_how_a_configuration_is_shown(method):
    config = configure("smoke", method=method, seed=3)
    assert repr(config) == f"{type(config).__name__}(smoke: {config.label})"
    shown = config._repr_html_()
    assert "<details><summary>all " in shown
    assert all(f"<td>{name}</td>" in shown for name in setting_names(type(config)))
    assert shown.count("<td>seed</td>") == 2


def test_one_dictionary_of_settings_for_many_methods():
    settings = {"kappa": 5.0, "threshold": 0.9, "fedmatch_helpers": 3, "q_conf": 0.4, "rounds": 2}
    for method in ("SAGE", "FedMatch", "FixMatch-LPL", "FedCoPL"):
        with pytest.raises(FedCoPLError, match=r"would change nothing|though of other methods"):
            configure("smoke", method=method, **settings)
        config = configure("smoke", method=method, unread="drop", **settings).as_dict()
        read = {name for name, value in settings.items() if config.get(name) == value}
        own = {"SAGE": {"kappa", "threshold"}, "FedMatch": {"fedmatch_helpers", "threshold"}, "FedCoPL": {"q_conf"}}
        assert read == own.get(method, {"threshold"}) | {"rounds"}


def test_every_preset_says_what_to_expect():
    assert {name: set(there) for name, there in EXPECTED.items()} == {
        "prompting": set(PROFILES),
        "sage": set(SAGE_PROFILES),
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheme": "quantity", "fraction": None}, "fraction="),
        ({"scheme": "quantity", "fraction": 0.0}, "fraction="),
        ({"scheme": "quantity", "fraction": 1.5}, "fraction="),
        ({"method": "zero-shot", "rounds": 1}, "zero-shot"),
        ({"method": "zero-shot", "labeller": "CoPL"}, "zero-shot"),
        ({"fraction": 0.2}, "fraction=0.2 is not valid; expected None with scheme='dirichlet'"),
        ({"scheme": "quantity", "beta": 0.1}, "beta=0.1 is not valid; expected None with scheme='quantity'"),
        ({"count_noise": "half", "epsilon": 1}, "epsilon=1.0 is not valid; expected None with count_noise='half'"),
        ({"count_noise": "gaussian"}, "epsilon=None is not valid; expected a number with count_noise='gaussian'"),
        ({"method": "PromptFL", "count_noise": "half"}, "upload no counts"),
        ({"count_noise": "half", "allocation": "none"}, "allocation='none'"),
        ({"mode": "authors", "clients_per_forward": 2}, "forward=2 is .*; expected 1 with momentum_state='shared'"),
        ({"method": "FedCOF", "aggregate": "none"}, "aggregate='none' is .*; expected text with FedCOF"),
        ({"method": "ClassMeans", "modalities": "both"}, "modalities='both' is .*; expected text with ClassMeans"),
        ({"modalities": "visual", "visual_depth": 0}, "visual_depth=0 is .*; expected 1 or more where visual prompts"),
        ({"cache_weight": 2.0}, "cache_weight=2.0 would change nothing in FedCoPL; it is read by pFedPrompt"),
        ({"mode": "code"}, "mode='code' is unknown; choose one of paper, authors, native"),
        ({"unread": "keep"}, "unread='keep' is unknown; choose one of refuse, drop"),
        ({"roundz": 3}, r"unknown setting 'roundz'; did you mean 'rounds'\?"),
        ({"method": "FedCopl"}, r"unknown method 'FedCopl'; did you mean 'FedCoPL'\?.*PromptFL"),
        ({"method": "SAGE", "unread": "drop", "kapa": 1}, r"unknown setting 'kapa'; did you mean 'kappa'\?"),
        ({"method": "SAGE", "scheme": "iid", "alpha": 0.1}, r"alpha=0\.1 is .*; expected None with scheme='iid'"),
        ({"method": "SAGE", "beta": 0.1}, "unknown setting 'beta' of SAGE, though of other methods"),
        ({"kappa": 1.0}, "unknown setting 'kappa' of FedCoPL, though of other methods"),
        ({"profile": "paper", "dataset": [1]}, r"dataset=\[1\] is not valid; expected a name in quotes"),
        ({"profile": "paper", "method": "SAGE", "dataset": [1]}, r"dataset=\[1\] is not valid"),
        ({"method": "SAGE", "mode": "authors", "device": 5}, "device=5 is not valid; expected a name in quotes"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, message):
    with pytest.raises(FedCoPLError, match=message):
        configure(**{"profile": "smoke", **settings})


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_profile_then_method_then_changes(profile, method):
    config = configure(profile, method=method)
    expected = {**PROFILES[profile], **METHODS[method]}
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.profile, config.method, config.seed) == (profile, method, 0)
    assert configure(profile, method=method, batch_size=7).batch_size == 7


def test_the_values_of_the_profiles():
    names = ("dataset", "clip", "n_clients", "rounds", "local_epochs", "refresh_every", "batch_size", "n_text", "shots")
    assert [[getattr(configure(profile), name) for name in names] for profile in PROFILES] == [
        ["digits", "tiny", 5, 8, 1, 4, 32, 8, None],
        ["cifar10:unseen:grey:1500+10000", "mini-traits", 10, 16, 1, 8, 32, 8, None],
        ["cifar10", "ViT-B-32", 10, 20, 10, 5, 64, 16, None],
    ]
    for config in map(configure, PROFILES):
        assert config.lr == (0.01 if config.profile == "mini" else 0.1)
        assert (config.momentum, config.weight_decay, config.beta) == (0.9, 0.05, 0.1)
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


def test_numbers_of_numpy_are_the_same_run():
    own = configure("smoke", method="SAGE", seed=np.int64(3), rounds=np.int32(2), alpha=np.float32(0.5))
    assert own == configure("smoke", method="SAGE", seed=3, rounds=2, alpha=0.5)
    assert {type(own.seed), type(own.rounds), type(own.alpha)} == {int, float}
    assert type(configure("smoke", beta=np.int64(1)).beta) is float
    with pytest.raises(FedCoPLError, match=r"seed=np.int64\(-1\) is not valid"):
        configure("smoke", seed=np.int64(-1))


def test_the_environment_names_the_profile(monkeypatch):
    assert configure().profile == "smoke"
    monkeypatch.setenv("FEDCOPL_LAB_PROFILE", "paper")
    assert configure() == configure("paper")
    assert configure("smoke").profile == "smoke"
    monkeypatch.setenv("FEDCOPL_LAB_PROFILE", "papr")
    with pytest.raises(FedCoPLError, match=r"profile 'papr'; did you mean 'paper'\?; known: smoke, mini, paper"):
        configure()


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configure("smoke").seed = 2


def test_noise_on_counts_has_a_budget():
    assert configure("smoke", count_noise="laplace", epsilon=1).epsilon == 1.0


def test_clients_that_share_momentum_cannot_share_a_forward_pass():
    assert configure("smoke", momentum_state="per_client", clients_per_forward=2).clients_per_forward == 2
    assert configure("smoke").clients_per_forward == 5
    assert configure("smoke", momentum_state="shared").clients_per_forward == 1


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


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"seed": 7}, "FedCoPL+CoPL digits β=0.1 seed=7"),
        ({"scheme": "quantity"}, "FedCoPL+CoPL digits s=0.2 seed=0"),
        ({"scheme": "iid", "weights": "random"}, "FedCoPL+CoPL digits iid RANDOM WEIGHTS seed=0"),
        ({"method": "zero-shot"}, "zero-shot digits β=0.1 seed=0"),
        (
            {"labeller": "true", "modalities": "text", "count_noise": "laplace", "epsilon": 0.5},
            "FedCoPL+TRUE LABELS digits β=0.1 text only counts laplace ε=0.5 seed=0",
        ),
    ],
)
def test_the_label_is_short_and_names_what_is_unusual(settings, label):
    assert configure("smoke", **settings).label == label


def test_the_levels_of_cpl():
    assert cpl_levels(configure("paper", dataset="dtd"), 47) == (0.75, 0.95)
    assert cpl_levels(configure("paper", dataset="cifar100"), 100) == (0.75, 0.99)
    assert cpl_levels(configure("mini", cpl_gamma=2.0), 100) == (0.75, 0.98)
    assert cpl_levels(configure("smoke", cpl_alpha=0.6, cpl_beta=0.0), 10) == (0.6, 0.0)
    assert cpl_levels(configure("smoke"), 1) == (0.75, 0.0)


def test_the_papers_clients_of_each_data_set():
    assert configure("paper", dataset="cub").n_clients == configure("paper", dataset="ucf101").n_clients == 5
    assert configure("paper", dataset="dtd").n_clients == configure("paper").n_clients == 10
    assert configure("paper", dataset="cub", n_clients=7).n_clients == 7
    assert configure("smoke", dataset="cub").n_clients == 5  # the profile's own
