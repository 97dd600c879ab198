"""The recipe of `tiny`: same recipe, same bytes; a loss that knows that captions repeat."""

import hashlib
import json
import tomllib
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load
from torch.nn import functional as F

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.embedded import TinyRecipe, train_tiny
from fedcopl_lab.extras.embedded import card as _card
from fedcopl_lab.extras.embedded.captions import DIGIT_WORDS, TEMPLATES, caption_table
from fedcopl_lab.extras.embedded.tiny import contrastive_loss
from fedcopl_lab.models.checkpoint import EMBEDDED_FOLDER, build_clip, clip_from_bytes, model_config
from fedcopl_lab.models.clip import EMBEDDED_MODELS
from fedcopl_lab.seeding import derived_seed

# One thread: on a busy machine two threads mostly wait for each other.
SHORT = TinyRecipe(steps=20, batch_size=32, captions=10, pool=400, threads=1)


@pytest.fixture(scope="module", autouse=True)
def _few_held_out_glyphs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_card, "_HELD_OUT_GLYPHS", 300)
        yield


@pytest.fixture(scope="module")
def trained(_few_held_out_glyphs, tmp_path_factory):
    return train_tiny(SHORT, tmp_path_factory.mktemp("first"), progress=False)


def weights(trained):
    return (trained.folder / "tiny.safetensors").read_bytes()


def test_the_same_recipe_gives_the_same_bytes(trained, tmp_path):
    torch.manual_seed(123)  # a global seed has no say
    torch.rand(7)
    again = train_tiny(SHORT, tmp_path, progress=False)
    assert weights(again) == weights(trained)
    other = train_tiny(replace(SHORT, seed=1), tmp_path / "other", progress=False)
    assert weights(other) != weights(trained)


def test_global_stream_and_threads_are_left_as_they_were(tmp_path):
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    train_tiny(replace(SHORT, steps=1, threads=threads + 1), tmp_path, progress=False)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == threads


def test_files_say_what_was_trained(trained):
    content = weights(trained)
    sha256 = hashlib.sha256(content).hexdigest()
    card = json.loads((trained.folder / "tiny.card.json").read_text(encoding="utf-8"))
    manifest = tomllib.loads((trained.folder / "tiny.toml").read_text(encoding="utf-8"))
    assert sha256 == trained.bundle.sha256 == card["sha256"] == manifest["sha256"]
    assert len(content) == card["bytes"] == manifest["bytes"]
    assert card["recipe"]["steps"] == 20
    assert card["recipe"]["distortion"]["slant"] == SHORT.distortion.slant
    page = (trained.folder / "tiny.md").read_text(encoding="utf-8")
    assert sha256 in page
    assert f"{100 * card['digits_accuracy']:.1f} %" in page
    assert sorted(path.name for path in trained.folder.iterdir()) == [
        "tiny.card.json",
        "tiny.md",
        "tiny.safetensors",
        "tiny.toml",
    ]
    assert repr(trained).startswith("TrainedTiny(CLIPBundle(name='tiny'")


def test_compact_training_equals_the_whole_vocabulary(trained):
    """What was trained on the used rows only gives the same caption features with every row in place."""
    table = caption_table(32)
    whole = clip_from_bytes("tiny", weights(trained))
    with torch.no_grad():
        features = whole.encode_text(table.tokens[:, :, 0].flatten(0, 1))
        assert features.isfinite().all()
        # Padding is never read: noise there changes nothing.
        whole.token_embedding.weight[0] += 1
        assert torch.equal(whole.encode_text(table.tokens[:, :, 0].flatten(0, 1)), features)


def test_training_reaches_every_weight(trained):
    used = len(caption_table(32).token_ids)
    initial = build_clip("tiny", derived_seed(SHORT.seed, "tiny-weights"), vocab_size=used).state_dict()
    found = load(weights(trained))
    assert found.keys() == {*initial, "token_ids"}
    unmoved = [name for name, value in initial.items() if torch.equal(value, found[name])]
    assert unmoved == []


@pytest.mark.parametrize("name", EMBEDDED_MODELS)
def test_packaged_card_is_of_the_recipe_in_the_package(name):
    card = json.loads((EMBEDDED_FOLDER / f"{name}.card.json").read_text(encoding="utf-8"))
    recipe = TinyRecipe()
    assert card["recipe"]["steps"] == recipe.steps
    assert card["recipe"]["lr"] == recipe.lr
    assert card["recipe"]["distortion"]["bend"] == recipe.distortion.bend
    assert card["templates"] == list(TEMPLATES)
    assert card["minutes"] <= 10


def slow_loss(images, texts, image_labels, text_labels, scale):
    total = []
    for rows, columns, row_labels, column_labels in (
        (images, texts, image_labels, text_labels),
        (texts, images, text_labels, image_labels),
    ):
        losses = []
        for row, label in zip(rows, row_labels, strict=True):
            chances = F.log_softmax(scale * torch.stack([row @ column for column in columns]), dim=0)
            fitting = [chance for chance, other in zip(chances, column_labels, strict=True) if other == label]
            losses.append(-sum(fitting) / len(fitting) if fitting else torch.tensor(0.0, dtype=rows.dtype))
        total.append(sum(losses) / len(losses))
    return sum(total) / 2


@settings(max_examples=25, deadline=None)
@given(n_images=st.integers(1, 9), n_captions=st.integers(1, 9), seed=st.integers(0, 999))
def test_loss_equals_the_slow_one(n_images, n_captions, seed):
    generator = torch.Generator().manual_seed(seed)
    images = F.normalize(torch.randn(n_images, 5, generator=generator, dtype=torch.float64), dim=-1)
    texts = F.normalize(torch.randn(n_captions, 5, generator=generator, dtype=torch.float64), dim=-1)
    image_labels = torch.randint(3, (n_images,), generator=generator)
    text_labels = torch.randint(3, (n_captions,), generator=generator)
    scale = torch.tensor(7.0, dtype=torch.float64)
    found = contrastive_loss(images, texts, image_labels, text_labels, scale)
    torch.testing.assert_close(found, slow_loss(images, texts, image_labels, text_labels, scale))


def test_without_duplicates_it_is_open_clips_loss():
    import open_clip

    generator = torch.Generator().manual_seed(0)
    images, texts = (F.normalize(torch.randn(6, 5, generator=generator), dim=-1) for _ in range(2))
    scale, labels = torch.tensor(7.0), torch.arange(6)
    expected = open_clip.ClipLoss()(images, texts, scale)
    torch.testing.assert_close(contrastive_loss(images, texts, labels, labels, scale), expected)


def test_captions_name_their_digit_and_fit_the_context():
    table = caption_table(model_config("tiny")["text_cfg"]["context_length"])
    tokenizer = lab.load_clip("tiny").tokenizer
    assert table.tokens.shape == (len(TEMPLATES), 10, 2, 32)
    assert len(TEMPLATES) >= 8
    assert all(template.count("{}") == 1 for template in TEMPLATES)
    for digit, word in enumerate(DIGIT_WORDS):
        for template, tokens in zip(TEMPLATES, table.tokens[:, digit], strict=True):
            assert tokens.tolist() == tokenizer([template.format(word), template.format(digit)]).tolist()
    lengths = (table.tokens > 0).sum(-1)
    assert lengths.max() < 32  # nothing was cut
    assert table.tokens.flatten(0, 2).amax(1).eq(49407).all()
    assert repr(table).startswith("CaptionTable(")


@pytest.mark.parametrize("name", EMBEDDED_MODELS)
def test_train_embedded_makes_a_short_trial(name, tmp_path):
    trained = lab.train_embedded(name, out_dir=tmp_path / "deep" / "trial", steps=2, progress=False)
    assert trained.card["recipe"]["steps"] == 2
    assert (tmp_path / "deep" / "trial" / f"{name}.safetensors").is_file()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps=0 trains nothing"),
        ({"batch_size": -1}, "batch_size=-1 trains nothing"),
        ({"pool": 0}, "pool=0 trains nothing"),
        ({"threads": 0}, "threads=0"),
        ({"captions": 15}, "captions=15 cannot be spread.*multiple of 10"),
        ({"numerals": 1.5}, r"numerals=1\.5 is outside \[0, 1\]"),
        ({"warmup": 0.0}, r"warmup=0\.0 is outside"),
        ({"lr": float("nan")}, "lr=nan"),
    ],
)
def test_bad_recipes(fields, message):
    with pytest.raises(FedCoPLError, match=message):
        TinyRecipe(**fields)


def test_bad_calls(tmp_path):
    with pytest.raises(FedCoPLError, match=r"no recipe for model 'midi', expected one of 'tiny'.*'mini'"):
        lab.train_embedded("midi", out_dir=tmp_path)
    with pytest.raises(FedCoPLError, match="steps=0 trains nothing"):
        lab.train_embedded("tiny", out_dir=tmp_path, steps=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(FedCoPLError, match=r"cannot be written.*name a writable folder"):
        lab.train_embedded("tiny", out_dir=tmp_path / "file" / "below", steps=1)
