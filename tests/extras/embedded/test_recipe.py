"""The recipe of `tiny`: same recipe, same bytes; a loss that knows that captions repeat."""

import hashlib
import json
import tomllib
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from open_clip import SimpleTokenizer
from safetensors.torch import load
from torch.nn import functional as F

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.embedded import MiniRecipe, StartRecipe, TextRecipe, TinyRecipe, train_tiny
from fedcopl_lab.extras.embedded import cards as _card
from fedcopl_lab.extras.embedded.captions import (
    DIGIT_WORDS,
    TEMPLATES,
    TRAIT_WORDS,
    clear_traits,
    digit_captions,
    write_captions,
)
from fedcopl_lab.extras.embedded.glyphs import Distortion, draw_glyphs
from fedcopl_lab.extras.embedded.tiny import contrastive_loss
from fedcopl_lab.models.checkpoint import EMBEDDED_FOLDER, build_clip, clip_from_bytes, model_config
from fedcopl_lab.models.clip import EMBEDDED_MODELS
from fedcopl_lab.seeding import derived_seed, torch_generator

# One thread: on a busy machine two threads mostly wait for each other.
SHORT = TinyRecipe(steps=20, batch_size=32, pool=400, threads=1)


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


@pytest.mark.long
def test_the_same_recipe_gives_the_same_bytes(trained, tmp_path):
    torch.manual_seed(123)  # a global seed has no say
    torch.rand(7)
    assert weights(train_tiny(SHORT, tmp_path, progress=False)) == weights(trained)
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
    names = ["tiny.card.json", "tiny.md", "tiny.safetensors", "tiny.toml"]
    assert sorted(path.name for path in trained.folder.iterdir()) == names
    assert repr(trained).startswith("TrainedModel(CLIPBundle(name='tiny'")


def test_compact_training_equals_the_whole_vocabulary(trained):
    """What was trained on the used rows only gives the same caption features with every row in place."""
    words = digit_captions(32).tokens[:, ::2].flatten(0, 1)
    whole = clip_from_bytes("tiny", weights(trained))
    with torch.no_grad():
        features = whole.encode_text(words)
        assert features.isfinite().all()
        # Padding is never read: noise there changes nothing.
        whole.token_embedding.weight[0] += 1
        assert torch.equal(whole.encode_text(words), features)


def test_training_reaches_every_weight(trained):
    used = len(digit_captions(32).token_ids)
    initial = build_clip("tiny", derived_seed(SHORT.seed, "tiny-weights"), vocab_size=used).state_dict()
    found = load(weights(trained))
    assert found.keys() == {*initial, "token_ids"}
    assert [name for name, value in initial.items() if torch.equal(value, found[name])] == []


@pytest.mark.parametrize("name", EMBEDDED_MODELS)
def test_packaged_card_is_of_the_recipe_in_the_package(name):
    card = json.loads((EMBEDDED_FOLDER / f"{name}.card.json").read_text(encoding="utf-8"))
    recipe = TinyRecipe()
    assert card["recipe"]["steps"] == recipe.steps
    assert card["recipe"]["lr"] == recipe.lr
    assert card["recipe"]["distortion"]["bend"] == recipe.distortion.bend
    assert card["templates"] == list(TEMPLATES)
    assert card["minutes"] is None or card["minutes"] <= 5


def slow_loss(images, texts, fits, scale):
    total = []
    for rows, columns, right in ((images, texts, fits), (texts, images, fits.T)):
        losses = []
        for row, targets in zip(rows, right, strict=True):
            chances = F.log_softmax(scale * torch.stack([row @ column for column in columns]), dim=0)
            fitting = [chance for chance, target in zip(chances, targets, strict=True) if target]
            losses.append(-sum(fitting) / len(fitting) if fitting else torch.tensor(0.0, dtype=rows.dtype))
        total.append(sum(losses) / len(losses))
    return sum(total) / 2


@settings(max_examples=25)
@given(n_images=st.integers(1, 9), n_captions=st.integers(1, 9), seed=st.integers(0, 999))
def test_loss_equals_the_slow_one(n_images, n_captions, seed):
    generator = torch.Generator().manual_seed(seed)
    images = F.normalize(torch.randn(n_images, 5, generator=generator, dtype=torch.float64), dim=-1)
    texts = F.normalize(torch.randn(n_captions, 5, generator=generator, dtype=torch.float64), dim=-1)
    fits = torch.rand(n_images, n_captions, generator=generator) < 0.3
    scale = torch.tensor(7.0, dtype=torch.float64)
    torch.testing.assert_close(contrastive_loss(images, texts, fits, scale), slow_loss(images, texts, fits, scale))


def test_without_duplicates_it_is_open_clips_loss():
    import open_clip

    generator = torch.Generator().manual_seed(0)
    images, texts = (F.normalize(torch.randn(6, 5, generator=generator), dim=-1) for _ in range(2))
    scale, same = torch.tensor(7.0), torch.eye(6).bool()
    expected = open_clip.ClipLoss()(images, texts, scale)
    torch.testing.assert_close(contrastive_loss(images, texts, same, scale), expected)


def test_captions_name_their_digit_and_fit_the_context():
    table = digit_captions(model_config("tiny")["text_cfg"]["context_length"])
    tokenizer = lab.load_clip("tiny").tokenizer
    assert table.tokens.shape == (len(TEMPLATES), 20, 32)
    assert len(TEMPLATES) >= 8
    assert all(template.count("{}") == 1 for template in TEMPLATES)
    for digit, word in enumerate(DIGIT_WORDS):
        for template, tokens in zip(TEMPLATES, table.tokens[:, 2 * digit : 2 * digit + 2], strict=True):
            assert tokens.tolist() == tokenizer([template.format(word), template.format(digit)]).tolist()
    lengths = (table.tokens > 0).sum(-1)
    assert lengths.max() < 32  # nothing was cut
    assert table.tokens.flatten(0, 1).amax(1).eq(49407).all()
    assert repr(table).startswith("Captions(")


def words_of(row, table, tokenizer):
    ids = table.token_ids[row[row > 0]].tolist()
    return tokenizer.decode(ids).replace("<start_of_text>", "").replace("<end_of_text>", "").replace(".", " ").split()


def test_a_caption_says_what_is_true_of_its_glyph_and_fits_all_of_which_it_is_true():
    glyphs = draw_glyphs(60, torch_generator(5, "test"))
    clear, table, tokenizer = clear_traits(glyphs.traits), digit_captions(32), SimpleTokenizer()
    shares = {"numerals": 0.3, "templates": 0.0, "named": 0.7}  # templates have words of their own
    made = write_captions(glyphs.labels, clear, table, torch_generator(6, "test"), **shares)
    assert made.said.any(dim=0).all(), "every trait is named somewhere"
    assert ((made.said == 0) | (made.said == clear)).all(), "no trait is made up"
    fits = made.fits(glyphs.labels, clear)
    for j, (digit, said) in enumerate(zip(glyphs.labels.tolist(), made.said.tolist(), strict=True)):
        words = words_of(made.rows[j], table, tokenizer)
        assert DIGIT_WORDS[digit] in words or str(digit) in words
        for sign, (little, much) in zip(said, TRAIT_WORDS.values(), strict=True):
            assert (much in words) == (sign > 0)
            assert (little in words) == (sign < 0)
        for i in range(60):
            true = all(one in (0, own) for one, own in zip(said, clear[i].tolist(), strict=True))
            assert fits[i, j] == (true and glyphs.labels[i] == digit)
    assert fits.diagonal().all()


def test_clear_traits_are_what_a_picture_shows():
    upright = Distortion(stroke=(0.0, 0.0), slant=0.0, turn=0.0, stretch=(1.0, 1.0), bend=0.0)
    for column, bent in ((1, replace(upright, slant=0.5)), (2, replace(upright, turn=22.0))):
        glyphs = draw_glyphs(300, torch_generator(0, "test"), distortion=bent)
        ink, place = glyphs.images.double(), torch.arange(8.0, dtype=torch.float64) - 3.5
        mass = ink.sum((1, 2))
        down, right = ((ink * axis).sum((1, 2)) / mass for axis in (place[:, None], place))
        lean = ((place[:, None] - down[:, None, None]) * (place - right[:, None, None]) * ink).sum((1, 2))
        together = torch.corrcoef(torch.stack([glyphs.traits[:, column].double(), -lean]))
        assert together[0, 1] > 0.7, "above 0 the upper half lies further right"


@pytest.mark.parametrize(
    "name", [name if name == "tiny" else pytest.param(name, marks=pytest.mark.long) for name in EMBEDDED_MODELS]
)
def test_train_embedded_makes_a_short_trial(name, tmp_path):
    trained = lab.train_embedded(name, out_dir=tmp_path / "deep" / "trial", steps=2, progress=False)
    assert trained.card["recipe"]["steps"] == 2
    assert (tmp_path / "deep" / "trial" / f"{name}.safetensors").is_file()


@pytest.mark.parametrize(
    ("recipe", "fields", "message"),
    [
        (TinyRecipe, {"steps": 0}, "steps=0 trains nothing"),
        (TinyRecipe, {"batch_size": -1}, "batch_size=-1 trains nothing"),
        (TinyRecipe, {"pool": 0}, "pool=0 trains nothing"),
        (TinyRecipe, {"threads": 0}, "threads=0"),
        (TinyRecipe, {"patches": -0.1}, r"patches=-0\.1 is outside \[0, 1\]"),
        (TinyRecipe, {"numerals": 1.5}, r"numerals=1\.5 is outside \[0, 1\]"),
        (TinyRecipe, {"warmup": 0.0}, r"warmup=0\.0 is outside"),
        (TinyRecipe, {"lr": float("nan")}, "lr=nan"),
        (TextRecipe, {"groups": 3}, "groups=3 do not divide batches of 128"),
        (TextRecipe, {"named": 1.2}, r"named=1\.2 is outside"),
        (StartRecipe, {"warmup": 1.2}, r"warmup=1\.2 is outside"),
        (MiniRecipe, {"epochs": 0}, "epochs=0 trains nothing"),
        (MiniRecipe, {"lr": float("nan")}, "lr=nan"),
        (MiniRecipe, {"prior": 2.0}, r"prior=2\.0 is outside"),
    ],
)
def test_bad_recipes(recipe, fields, message):
    with pytest.raises(FedCoPLError, match=message):
        recipe(**fields)


@pytest.mark.parametrize(
    ("name", "length", "folder", "message"),
    [
        ("midi", {}, "", r"no recipe for model 'midi', expected one of 'tiny'.*'mini'"),
        ("tiny", {"steps": 0}, "", "steps=0 trains nothing"),
        ("tiny", {"epochs": 3}, "", "epochs=3 has no meaning for 'tiny'"),
        ("mini-traits", {"steps": 3}, "", "steps=3 has no meaning for 'mini-traits'; use epochs"),
        ("resnet8-cifar100", {"steps": 3}, "", "steps=3 has no meaning for 'resnet8-cifar100'; use epochs"),
        ("mini", {"steps": 1, "epochs": 1}, "", "steps and epochs both say how long"),
        ("tiny", {"steps": 1}, "file/below", "cannot write .*choose another folder"),
    ],
)
def test_bad_calls(name, length, folder, message, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedCoPLError, match=message):
        lab.train_embedded(name, out_dir=tmp_path / folder, **length)
