"""The public names: all there, and with the parameters that notebooks rely on."""

import importlib
import inspect
import subprocess
import sys
from operator import attrgetter

import pytest

import fedcopl_lab as lab

LEADING = {
    "load_dataset": "name root=None",
    "load_clip": "name",
    "partition": "dataset scheme n_clients beta=None alpha=None label_fraction=None seed=0 mode='paper'",
    "dirichlet_partition": "train_labels test_labels n_clients beta seed=0 mode='paper'",
    "quantity_partition": "train_labels test_labels n_clients fraction=0.2 seed=0 mode='paper'",
    "zero_shot": "clip dataset indices=None",
    "filter_confident": "logits q_conf=0.5 q_ent=0.5 thresholds=None",
    "allocate": "counts mode='paper' n_train=None phase=0",
    "select_top": "logits quota",
    "train_round": "prompted shard_images pseudo_labels state config generator",
    "evaluate": "predictor shards",
    "aggregate": "stacked weights",
    "drift_diversity": "updates",
    "cosine_distance": "updates",
    "PromptedCLIP": "model tokenizer class_names n_text=16 visual_depth=None n_visual=5",
    "PromptedCLIP.text_features": "self text_prompt",
    "PromptedCLIP.image_features": "self images visual_prompt",
    "PromptedCLIP.logits": "self images text_prompt visual_prompt",
    "run": "config",
    "runs": "",
}
FIELDS = {
    "Predictions": ("logits",),
    "FilteredSet": ("kept", "labels", "counts", "confidence_threshold", "entropy_threshold"),
    "Allocation": ("quota", "per_class"),
    "PseudoLabels": ("indices", "labels"),
    "Evaluation": ("client_mean", "sample_mean", "global_", "per_client"),
    "Run": ("rows", "load_prompts", "predict"),
    "CLIPBundle": ("model", "tokenizer", "preprocess"),
    "Shard": ("train", "test"),
}
MODULES = ("config", "data", "engine", "extras", "methods", "models", "paper", "report", "seeding", "steps", "store")


@pytest.mark.parametrize("name", lab.__all__)
def test_every_public_name_resolves(name):
    value = getattr(lab, name)
    assert value is not None
    assert name in dir(lab)
    assert inspect.getdoc(value), f"{name} has no docstring"


@pytest.mark.parametrize("package", [name for name in lab._PACKAGES.split() if name not in ("seeding", "store")])
def test_every_name_that_a_package_offers_is_there(package):
    module = importlib.import_module(f"fedcopl_lab.{package}")
    assert all(getattr(module, name) is not None for name in dir(module) if not name.startswith("__"))


def test_each_public_name_is_listed_once():
    assert len(set(lab.__all__)) == len(lab.__all__)


def test_modules_resolve_in_a_fresh_interpreter_and_import_the_extra_only_when_asked():
    code = (
        "import sys, fedcopl_lab as lab; names = sys.argv[1:]; assert set(names) <= set(dir(lab))\n"
        "assert 'torch' not in sys.modules\n"
        "assert all(getattr(lab, name) is sys.modules[f'fedcopl_lab.{name}'] for name in names)\n"
        "import fedcopl_lab.extras.federation as f, fedcopl_lab.extras.cluster as e\n"
        "import fedcopl_lab.extras.federation.flower as g\n"
        "f.serve, f.collect, g.server_app, g.client_app, g.simulate, e.ray_sweep\n"
        "assert not {'flwr', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *MODULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", LEADING)
def test_contract_parameters(name):
    assert name.partition(".")[0] in lab.__all__
    parameters = inspect.signature(attrgetter(name)(lab)).parameters.values()
    told = [one.name if one.default is inspect.Parameter.empty else f"{one.name}={one.default!r}" for one in parameters]
    wanted = LEADING[name].split()
    assert told[: len(wanted)] == wanted
    assert "." not in name or len(told) == len(wanted)


def test_train_round_takes_config_and_generator_by_name():
    parameters = inspect.signature(lab.train_round).parameters
    assert parameters["config"].kind is parameters["generator"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", FIELDS)
def test_contract_fields(name):
    cls = getattr(lab, name)
    assert set(FIELDS[name]) <= {*dir(cls), *getattr(cls, "__dataclass_fields__", ())}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'allocat'"):
        _ = lab.allocat
