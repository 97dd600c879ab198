"""OpenAI's models: always QuickGELU, filled only from files that were checked, and never downloaded."""

import hashlib
import json

import open_clip
import pytest
import torch
from open_clip.transformer import QuickGELU
from safetensors.torch import save_file

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.data import read_manifest_table
from fedcopl_lab.models import clip, openai_weights

SMALL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 2, "width": 24, "head_width": 12, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
NAME = "ViT-B-32"


@pytest.fixture(autouse=True)
def _small_models(monkeypatch, tmp_path):
    """The real code on a model of a thousandth of the size, and no weights of the machine's user."""
    real = open_clip.get_model_config

    def small(name):
        return json.loads(json.dumps(SMALL)) if name in openai_weights.OPENAI_MODELS else real(name)

    monkeypatch.setattr(open_clip, "get_model_config", small)
    monkeypatch.setenv("FEDCOPL_LAB_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "weights").mkdir()
    for cached in (clip._load_openai, clip._random):
        cached.cache_clear()
    yield
    for cached in (clip._load_openai, clip._random):
        cached.cache_clear()


@pytest.fixture
def trained():
    """Weights that differ from what a fresh model starts with."""
    return {name: value.clone() for name, value in openai_weights.build_openai_clip(NAME, seed=5).state_dict().items()}


def pin(monkeypatch, path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(openai_weights, "openai_sha256", lambda name: digest)


class Scripted(torch.nn.Module):
    """An archive as OpenAI's: weights in half precision by open_clip's names, and three numbers among them."""

    def __init__(self, state):
        super().__init__()
        for name, value in state.items():
            self._put(name.split("."), value.half() if value.is_floating_point() else value)
        for name in ("input_resolution", "context_length", "vocab_size"):
            self.register_buffer(name, torch.tensor(1))

    def _put(self, parts, value):
        at = self
        for part in parts[:-1]:
            if not hasattr(at, part):
                at.add_module(part, torch.nn.Module())
            at = getattr(at, part)
        at.register_buffer(parts[-1], value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def script(state, path):
    torch.jit.save(torch.jit.script(Scripted(state)), str(path))


def saved(state, kind, folder):
    path = folder / f"mine.{'safetensors' if kind == 'safetensors' else 'pt'}"
    if kind == "safetensors":
        save_file(state, path)
    else:
        nested = {"state_dict": {f"module.{name}": value for name, value in state.items()}}
        torch.save(nested if kind == "nested" else state, path)
    return path


@pytest.mark.parametrize("kind", ["safetensors", "pt", "nested"])
def test_state_dicts_at_a_path(tmp_path, trained, kind):
    path = saved(trained, kind, tmp_path)
    bundle = lab.load_clip(NAME, weights=path)
    assert all(torch.equal(value, trained[name]) for name, value in bundle.model.state_dict().items())
    assert bundle.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not any(weight.requires_grad for weight in bundle.model.parameters())
    assert isinstance(bundle.model.transformer.resblocks[0].mlp.gelu, QuickGELU)
    assert bundle.mean == pytest.approx((0.48145466, 0.4578275, 0.40821073))
    assert lab.load_clip(NAME, weights=str(path)) is bundle


@pytest.mark.filterwarnings("ignore:.torch.jit.:FutureWarning")
def test_openais_own_archive_after_its_checksum(tmp_path, trained, monkeypatch):
    path = tmp_path / "weights" / f"{NAME}.pt"
    script(trained, path)
    with pytest.raises(FedCoPLError, match=r"has sha256 .* expected 40d365715913.* for ViT-B-32; it is truncated or"):
        lab.load_clip(NAME)
    with pytest.raises(FedCoPLError, match=r"is a TorchScript archive .* opened only when they are OpenAI's own"):
        lab.load_clip(NAME, weights=path)
    pin(monkeypatch, path)
    bundle = lab.load_clip(NAME)
    assert bundle.sha256 == openai_weights.openai_sha256(NAME)
    for name, value in bundle.model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, trained[name].half().float()), name


def test_missing_weights_say_where_to_put_them_and_what_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "download_url_to_file", lambda *a, **k: pytest.fail("a download was tried"))
    with pytest.raises(FedCoPLError) as caught:
        lab.load_clip(NAME)
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(tmp_path / "weights" / "ViT-B-32.pt"), ".cache", "data get ViT-B-32", "weights=PATH", "random"):
        assert part in message
    assert read_manifest_table(NAME)["sha256"] in message


def test_a_path_that_is_not_there():
    with pytest.raises(FedCoPLError, match=r"nowhere\.pt does not exist"):
        lab.load_clip(NAME, weights="nowhere.pt")


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
@pytest.mark.parametrize("length", [0, 100, -100])
def test_truncated_files(tmp_path, trained, kind, length):
    path = saved(trained, kind, tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(FedCoPLError, match=r"cannot be read as weights.*truncated or something else") as caught:
        lab.load_clip(NAME, weights=path)
    assert "\n" not in str(caught.value)


class Harm:
    def __reduce__(self):
        return (pytest.fail, ("code from the file was run",))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda trained: {"lr": 0.1}, "holds no state dict"),
        (lambda trained: {"weight": torch.zeros(2)}, "does not fit ViT-B-32: positional_embedding is missing"),
        (lambda trained: trained | {"logit_scale": torch.zeros(3)}, r"logit_scale has shape \(3,\), expected \(\)"),
        (lambda trained: trained | {"logit_scale": torch.tensor(float("nan"))}, "NaN"),
        (lambda trained: {"a": Harm()}, "cannot be read as weights"),
    ],
)
def test_files_of_something_else_and_code_are_refused(tmp_path, trained, changed, message):
    torch.save(changed(trained), tmp_path / "mine.pt")
    with pytest.raises(FedCoPLError, match=message):
        lab.load_clip(NAME, weights=tmp_path / "mine.pt")


def test_weights_that_want_another_activation(tmp_path, trained):
    path = tmp_path / "open_clip_model.safetensors"
    save_file(trained, path)
    beside = tmp_path / "open_clip_config.json"
    beside.write_text(json.dumps({"model_cfg": SMALL}))
    with pytest.raises(FedCoPLError, match="wants GELU; ViT-B-32 here means OpenAI's model with QuickGELU"):
        lab.load_clip(NAME, weights=path)
    beside.write_text(json.dumps({"model_cfg": {**SMALL, "quick_gelu": True}}))
    assert lab.load_clip(NAME, weights=path).name == NAME
    clip._load_openai.cache_clear()
    beside.write_text("{")
    with pytest.raises(FedCoPLError, match="is no open_clip configuration"):
        lab.load_clip(NAME, weights=path)


@pytest.mark.parametrize("name", ["tiny", NAME])
def test_random_weights_are_loud_seeded_and_not_the_pinned_ones(name):
    before = torch.get_rng_state()
    bundle = lab.load_clip(name, weights="random")
    assert torch.equal(before, torch.get_rng_state())
    assert bundle.sha256 == "RANDOM-WEIGHTS"
    assert "RANDOM" in repr(bundle)
    clip._random.cache_clear()
    again = lab.load_clip(name, weights="random").model.state_dict()
    assert all(torch.equal(value, again[key]) for key, value in bundle.model.state_dict().items())


def test_a_run_takes_random_weights_only_when_told(store):
    short = {"rounds": 1, "local_epochs": 1, "dataset": "digits"}
    with pytest.raises(FedCoPLError, match="OpenAI's CLIP weights"):
        lab.run(lab.configure("smoke", **short, clip=NAME), store, progress=False)
    random = lab.run(lab.configure("smoke", **short, weights="random"), store, progress=False)
    assert "RANDOM WEIGHTS" in repr(random)
    assert random.key != lab.run(lab.configure("smoke", **short), store, progress=False).key


@pytest.mark.parametrize("name", openai_weights.OPENAI_MODELS)
def test_manifests_name_the_file_and_agree_with_open_clip(name):
    table = read_manifest_table(name)
    assert table["kind"] == "weights"
    (url,) = table["files"][0]["urls"]
    assert url == open_clip.get_pretrained_url(name, "openai")
    assert table["sha256"] == table["files"][0]["sha256"]
    assert table["sha256"] in url
