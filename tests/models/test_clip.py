"""The packaged `tiny`: a real open_clip model, checked before use, as accurate as its card says."""

import hashlib
import json

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.nn import functional as F

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.data import read_manifest_table
from fedcopl_lab.extras.embedded import card_files, evaluate_tiny
from fedcopl_lab.models import checkpoint, clip
from fedcopl_lab.models.checkpoint import EMBEDDED_FOLDER, clip_from_bytes, fill_token_embedding
from fedcopl_lab.models.resnet8 import START

WEIGHTS = EMBEDDED_FOLDER / "tiny.safetensors"
CARD = json.loads((EMBEDDED_FOLDER / "tiny.card.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tiny():
    return lab.load_clip("tiny")


@pytest.fixture
def fresh_loading(monkeypatch):
    clip._load_embedded.cache_clear()
    yield monkeypatch
    clip._load_embedded.cache_clear()


def test_bundle_describes_the_model(tiny):
    assert isinstance(tiny.model, open_clip.CLIP)
    assert not tiny.model.training
    assert not any(weight.requires_grad for weight in tiny.model.parameters())
    assert (tiny.name, tiny.image_size, tiny.context_length) == ("tiny", 8, 32)
    assert tiny.model.vocab_size == 49408
    assert "\n" not in repr(tiny)
    assert "tiny" in open_clip.list_models()


def test_image_and_text_towers_work_with_open_clip(tiny):
    tokens = tiny.tokenizer(["a photo of the digit three.", "three.", "a word it never saw"])
    assert tokens.shape == (3, 32)
    images = tiny.to_input(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    assert tiny.model.encode_text(tokens).shape == (3, 64)
    assert tiny.model.encode_image(images).shape == (2, 64)


def test_zero_shot_accuracy_is_what_the_card_says(tiny):
    """Computed the slow way: one image at a time through the image transform."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    prepared = [tiny.preprocess(Image.fromarray(np.rint(image * 255 / 16).astype(np.uint8))) for image in digits.images]
    names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    with torch.no_grad():
        text = F.normalize(tiny.model.encode_text(tiny.tokenizer([f"a photo of the digit {n}." for n in names])))
        features = F.normalize(tiny.model.encode_image(torch.stack(prepared)))
    right = ((features @ text.T).argmax(1).numpy() == digits.target).astype(float)
    per_class = [right[digits.target == digit].mean() for digit in range(10)]
    assert right.mean() == pytest.approx(CARD["digits_accuracy"], abs=0.005)
    assert per_class == pytest.approx(CARD["digits_accuracy_per_class"], abs=0.02)
    assert min(per_class) > 0.2
    (measured,) = evaluate_tiny(tiny)
    assert measured.overall == pytest.approx(right.mean(), abs=0.002)
    assert measured.per_class == pytest.approx(per_class, abs=0.01)
    assert repr(measured).startswith("Accuracy(overall=0.")


def test_to_input_equals_the_image_transform(tiny):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    one_by_one = torch.stack([tiny.preprocess(Image.fromarray(image)) for image in pixels])
    together = tiny.to_input(torch.from_numpy(pixels).permute(0, 3, 1, 2))
    torch.testing.assert_close(together, one_by_one)


@pytest.mark.usefixtures("as_installed")
def test_to_input_refuses_other_sizes_and_types(tiny):
    for images, said in (
        (torch.zeros(1, 3, 9, 8, dtype=torch.uint8), "uint8 1x3x9x8"),
        (torch.zeros(1, 3, 8, 8), "float32 1x3x8x8"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), "uint8 3x8x8"),
    ):
        with pytest.raises(FedCoPLError, match=rf"images are {said}; tiny takes uint8 nx3x8x8: resize them"):
            tiny.to_input(images)


def test_loading_twice_gives_one_model_and_leaves_the_global_streams_alone(tiny, fresh_loading, monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("a card's stream"))
    before = torch.get_rng_state()
    again = lab.load_clip("tiny")
    assert torch.equal(before, torch.get_rng_state())
    assert again is lab.load_clip("tiny", device=torch.device("cpu"))
    for (name, weight), other in zip(tiny.model.named_parameters(), again.model.parameters(), strict=True):
        assert torch.equal(weight, other), name


def test_dtype_reaches_model_and_input():
    double = lab.load_clip("tiny", dtype=torch.float64)
    images = double.to_input(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    assert images.dtype == double.model.encode_image(images).dtype == torch.float64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_gpu_agrees_with_cpu(tiny):
    images = torch.randint(256, (16, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    gpu = lab.load_clip("tiny", device="cuda")
    with torch.no_grad():
        expected = tiny.model.encode_image(tiny.to_input(images), normalize=True)
        found = gpu.model.encode_image(gpu.to_input(images), normalize=True)
    torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=0)


def test_unused_vocabulary_rows_are_the_same_small_noise(tiny):
    state = load_file(WEIGHTS)
    used = state["token_ids"]
    table = tiny.model.token_embedding.weight
    assert torch.equal(table[used], state["token_embedding.weight"])
    assert used[-1] == 49407  # the end token, where CLIP reads a caption
    others = torch.ones(len(table), dtype=torch.bool)
    others[used] = False
    assert table[others].std().item() == pytest.approx(0.02, rel=0.01)
    again = fill_token_embedding(state["token_embedding.weight"], used, len(table))
    assert torch.equal(table, again)
    reloaded = clip_from_bytes("tiny", WEIGHTS.read_bytes())
    assert torch.equal(reloaded.token_embedding.weight, table)


@pytest.mark.parametrize("name", [*clip.EMBEDDED_MODELS, clip.MINI_TRAITS, START])
def test_files_are_small_and_agree_with_each_other(name):
    content = (EMBEDDED_FOLDER / f"{name}.safetensors").read_bytes()
    card = json.loads((EMBEDDED_FOLDER / f"{name}.card.json").read_text(encoding="utf-8"))
    assert len(content) == card["bytes"] <= 8 * 2**20
    assert hashlib.sha256(content).hexdigest() == card["sha256"] == read_manifest_table(name)["sha256"]
    assert name == START or lab.load_clip(name).sha256 == card["sha256"]
    pages = card_files(card)
    assert (EMBEDDED_FOLDER / f"{name}.md").read_text(encoding="utf-8") == pages[f"{name}.md"]
    manifest = read_manifest_table(name)
    assert manifest["kind"] == "weights"
    assert (manifest["sha256"], manifest["bytes"], manifest["licence"]) == (card["sha256"], card["bytes"], "MIT")


@pytest.mark.parametrize("name", ["tiny-p1", "tiny-rn"])
def test_other_backbones_read_digits_as_their_cards_say(name):
    """The label step's own zero-shot predictions on the digits at the model's size."""
    bundle = lab.load_clip(name)
    digits = lab.load_dataset("digits", image_size=bundle.image_size)
    card = json.loads((EMBEDDED_FOLDER / f"{name}.card.json").read_text(encoding="utf-8"))
    right = (lab.zero_shot(bundle, digits).logits.argmax(dim=1) == digits.labels).double()
    per_class = [right[digits.labels == digit].mean().item() for digit in range(10)]
    assert right.mean().item() == pytest.approx(card["digits_accuracy"], abs=0.005)
    assert per_class == pytest.approx(card["digits_accuracy_per_class"], abs=0.02)
    assert max(per_class) - min(per_class) > 0.2, "biased between classes, as CLIP is"


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_damaged_weights_are_refused(damage, tmp_path, fresh_loading):
    content = bytearray(WEIGHTS.read_bytes())
    path = tmp_path / "tiny.safetensors"
    if damage == "flipped":
        content[-1] ^= 1
    if damage != "missing":
        path.write_bytes(content if damage == "flipped" else content[:1000])
    fresh_loading.setattr(clip, "EMBEDDED_FOLDER", tmp_path)
    with pytest.raises(FedCoPLError) as caught:
        lab.load_clip("tiny")
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert CARD["sha256"] in message
    assert "fedcopl-lab train-embedded tiny" in message
    if damage != "missing":
        assert hashlib.sha256(path.read_bytes()).hexdigest() in message


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("big", {}, r"'big' is unknown, expected one of 'tiny'.*'RN50'"),
        ("tiny", {"weights": "somewhere.pt"}, "'tiny' is embedded and takes None or 'random'"),
        ("tiny", {"dtype": torch.int8}, r"torch\.int8 cannot hold weights"),
        *(
            ("tiny", {"device": device}, rf"device '{device}' cannot be used.*use 'cpu'")
            for device in ("abacus", "cuda:99", "cpu:x")
        ),
    ],
)
def test_what_cannot_be_loaded(name, options, message):
    with pytest.raises(FedCoPLError, match=message):
        lab.load_clip(name, **options)


def test_initial_weights_follow_the_seed():
    first, second, other = (checkpoint.build_clip("tiny", seed, vocab_size=20) for seed in (1, 1, 2))
    assert torch.equal(first.positional_embedding, second.positional_embedding)
    assert not torch.equal(first.positional_embedding, other.positional_embedding)
