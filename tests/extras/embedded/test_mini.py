"""Recipes of models for photographs on a few made-up images: losses, captions, trainings that survive a kill."""

import json
import tomllib
from dataclasses import asdict, replace

import pytest
import torch
from open_clip import SimpleTokenizer
from torch.nn import functional as F

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.data import load_manifest
from fedcopl_lab.extras.embedded import start
from fedcopl_lab.extras.embedded.captions import COARSE, PHOTO_SETS, PHOTO_TRAITS, photo_captions, trait_captions
from fedcopl_lab.extras.embedded.mini import finished, fit
from fedcopl_lab.extras.embedded.photos import Curriculum, PhotoPool, held_out_mask, photo_loss
from fedcopl_lab.extras.embedded.recipes import MiniRecipe, StartRecipe, TextRecipe
from fedcopl_lab.extras.embedded.traits import (
    changed_photos,
    clear_photo_traits,
    learn_texts,
    trait_loss,
    write_photo_captions,
)
from fedcopl_lab.models.checkpoint import EMBEDDED_FOLDER
from fedcopl_lab.models.resnet8 import START
from fedcopl_lab.models.towers import PatchDropout

SHORT = MiniRecipe(epochs=4, batch_size=16, warmup=2, held_out=0.1, filled=5, precision="fp32", threads=1)


@pytest.fixture(scope="module")
def pool():
    generator = torch.Generator().manual_seed(0)
    sets = torch.arange(60) % 2
    labels = torch.where(sets == 0, torch.arange(60) % 3, torch.arange(60) % 5)
    return PhotoPool(torch.randint(256, (60, 3, 32, 32), generator=generator, dtype=torch.uint8), labels, sets)


@pytest.fixture(scope="module")
def captions():
    return photo_captions(32, seed=0, n_filled=5)


def test_coarse_names_cover_every_class_once(captions):
    fine = [name for names in COARSE.values() for name in names]
    assert sorted(fine) == sorted(load_manifest("cifar100").classes)
    assert captions.spans == {"cifar10": (0, 10), "cifar100": (10, 110), "coarse": (110, 130)}
    assert captions.rows.amax(dim=2).eq(len(captions.token_ids) - 1).all(), "no caption was cut"


def test_loss_equals_the_slow_one(captions, pool):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(len(pool), 130, generator=generator, dtype=torch.float64)
    shift = torch.randn(130, generator=generator, dtype=torch.float64)
    total = 0.0
    homes = list(COARSE.values())
    for row, label, place in zip(logits + shift, pool.labels, pool.sets, strict=True):
        first, end = captions.spans[PHOTO_SETS[place]]
        total -= F.log_softmax(row[first:end], dim=0)[label]
        if place == 1:
            name = load_manifest("cifar100").classes[label]
            home = next(i for i, names in enumerate(homes) if name in names)
            total -= 0.3 * F.log_softmax(row[110:], dim=0)[home]
    found = photo_loss(logits, pool, captions, shift, coarse=0.3)
    torch.testing.assert_close(found, torch.as_tensor(total / len(pool)))


def test_patches_left_out_are_drawn_for_each_image():
    patches = PatchDropout().train()
    patches.share, patches.generator = 0.5, torch.Generator().manual_seed(0)
    tokens = torch.arange(7.0).repeat(3, 1)[..., None].expand(3, 7, 2)
    kept = patches(tokens)
    assert kept.shape == (3, 4, 2)
    assert (kept[:, 0] == 0).all(), "the class token stays"
    assert len({tuple(sorted(row.tolist())) for row in kept[:, 1:, 0]}) > 1
    assert all(len(set(row.tolist())) == 4 for row in kept[..., 0])
    assert torch.equal(patches.eval()(tokens), tokens)


def test_held_out_images_are_a_share_of_every_class(pool):
    held = held_out_mask(pool, 0.1, seed=0)
    for place in (0, 1):
        for label in pool.labels[pool.sets == place].unique():
            own = (pool.sets == place) & (pool.labels == label)
            assert held[own].sum() == round(0.1 * int(own.sum()))


def test_the_learning_rate_rises_stays_and_falls():
    recipe = replace(SHORT, epochs=2, lr=1.0, warmup=2, cooldown=0.5)
    rates = [recipe.lr_at(step, per_epoch=4) for step in range(8)]
    assert rates == pytest.approx([0.5, 1, 1, 1, 0.8, 0.6, 0.4, 0.2])


@pytest.fixture(scope="module")
def whole(pool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    curriculum = Curriculum.of(SHORT, pool)
    return folder, curriculum, fit(curriculum, folder, progress=False)


@pytest.mark.long
def test_a_stopped_training_ends_with_the_same_bytes(whole, pool, tmp_path):
    _, curriculum, (model, _) = whole
    fit(curriculum, tmp_path, progress=False, until=1)
    (tmp_path / ".last.safetensors.x.part").write_bytes(b"what a kill leaves behind")
    again, state = fit(Curriculum.of(SHORT, pool), tmp_path, progress=False)
    assert state.epoch == SHORT.epochs
    assert finished(again, curriculum.captions)[1] == finished(model, curriculum.captions)[1]
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + SHORT.epochs


@pytest.mark.long
def test_a_state_of_another_recipe_is_refused(whole, pool):
    folder = whole[0]
    with pytest.raises(FedCoPLError, match="go on with that recipe or choose another folder"):
        fit(Curriculum.of(replace(SHORT, lr=0.1), pool), folder, progress=False)


def test_clients_may_not_hold_what_the_model_was_trained_on():
    config = lab.configure("smoke", clip="mini", dataset="cifar10:300")
    from fedcopl_lab.methods._prompt_setting import PromptSetting

    with pytest.raises(FedCoPLError, match=r"'cifar10:300' holds images that 'mini' was trained on; use .*:unseen:300"):
        PromptSetting.of(config)


CHANGED = {"zoom": 0.4, "blur": 1.0, "contrast": -1.0, "light": -1.0, "grain": 20.0}
USUAL = {trait: told["usual"] for trait, told in PHOTO_TRAITS.items()}


def test_a_photograph_as_usual_is_not_changed(pool):
    assert clear_photo_traits(USUAL).tolist() == [0, -1, 0, 0, -1], "sharp and clean"
    assert torch.equal(changed_photos(pool.images, USUAL, torch.Generator().manual_seed(0)), pool.images)


@pytest.mark.parametrize("trait", PHOTO_TRAITS)
def test_each_trait_changes_what_its_word_says(trait, pool):
    images = pool.images // 2 + 64
    changed = changed_photos(images, USUAL | {trait: CHANGED[trait]}, torch.Generator().manual_seed(0)).double()
    assert changed.shape == images.shape
    before, sharp = images.double(), lambda one: one.diff(dim=-1).abs().mean()
    seen = {
        "zoom": sharp(changed) < sharp(before),
        "blur": sharp(changed) < 0.6 * sharp(before),
        "contrast": changed.std() < 0.6 * before.std(),
        "light": changed.mean() < 0.6 * before.mean(),
        "grain": (changed - before).std() == pytest.approx(20, rel=0.05),
    }
    assert seen[trait]


def test_captions_say_clear_traits_only_and_name_every_class():
    captions, generator = trait_captions(32), torch.Generator().manual_seed(0)
    clear = torch.tensor([[0, -1, 1, 0, 0], [1, 1, 0, -1, 1]])
    recipe = replace(TextRecipe(), plain=0.0, named=1.0)
    rows, said = write_photo_captions(clear, captions, recipe, generator)
    assert torch.equal(said, clear)
    words = [SimpleTokenizer().decode(captions.token_ids[row[row > 0]].tolist()) for row in rows[:, 103]]
    assert all(load_manifest("cifar100").classes[93] in text for text in words)
    assert {"sharp", "harsh"} <= set(words[0].split())
    assert {"close", "blurred", "dark", "grainy"} <= set(words[1].split())
    silent, nothing = write_photo_captions(clear, captions, replace(recipe, plain=1.0), generator)
    assert not nothing.any()
    assert silent.amax(dim=2).eq(len(captions.token_ids) - 1).all(), "no caption was cut"


def test_the_trait_loss_equals_the_slow_one(pool):
    captions, generator = trait_captions(32), torch.Generator().manual_seed(2)
    logits = torch.randn(len(pool), 3, 110, generator=generator, dtype=torch.float64)
    fits = torch.rand(len(pool), 3, generator=generator) < 0.5
    fits[torch.arange(len(pool)), torch.arange(len(pool)) % 3] = True
    total = 0.0
    for scores, label, place, true in zip(logits, pool.labels, pool.sets, fits, strict=True):
        first, end = captions.spans[PHOTO_SETS[place]]
        likely = scores[:, first:end].exp() / scores[:, first:end].exp().sum()
        total -= likely[true, label].log().mean()
    torch.testing.assert_close(trait_loss(logits, pool, fits, captions), total / len(pool))


@pytest.mark.long
def test_texts_are_learned_to_the_same_bytes_and_the_image_tower_stays(pool):
    recipe = TextRecipe(epochs=1, batch_size=16, precision="fp32", threads=1)
    first = lab.load_clip("mini")
    states = [learn_texts(first, pool, recipe, progress=False)[0].state_dict() for _ in range(2)]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    for name, value in first.model.visual.state_dict().items():
        assert torch.equal(states[0][f"visual.{name}"], value)
    with pytest.raises(FedCoPLError, match="60 images make no batch of 128"):
        learn_texts(first, pool, TextRecipe(), progress=False)


def test_a_start_is_trained_to_the_same_bytes_and_its_card_is_of_the_recipe(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "load_dataset", lambda *_: lab.load_dataset("digits"))
    recipe = StartRecipe(epochs=3, batch_size=32, channels=4, lr=0.1, threads=1)
    folders = [start.train_start(recipe, tmp_path / name, progress=False).folder for name in "ab"]
    content, again = ((folder / f"{START}.safetensors").read_bytes() for folder in folders)
    assert content == again
    made, packaged = (json.loads((one / f"{START}.card.json").read_text()) for one in (folders[0], EMBEDDED_FOLDER))
    assert made["accuracy"] > 0.5, "it learns"
    assert tomllib.loads((folders[0] / f"{START}.toml").read_text())["sha256"] == made["sha256"]
    assert packaged["recipe"] == asdict(StartRecipe())


def test_packaged_traits_card_is_of_the_recipe_and_of_mini_in_the_package():
    card = json.loads((EMBEDDED_FOLDER / "mini-traits.card.json").read_text(encoding="utf-8"))
    assert card["recipe"] == asdict(TextRecipe())
    assert card["image_tower"] == {"model": "mini", "sha256": lab.load_clip("mini").sha256}
    towers = [lab.load_clip(name).model.visual.state_dict() for name in ("mini", "mini-traits")]
    assert all(torch.equal(value, towers[1][name]) for name, value in towers[0].items())


def test_words_before_a_class_carry_meaning_in_mini_traits_more_than_in_mini():
    """How far words move a class's feature, beside how far apart two classes are."""
    moved = {}
    for name in ("mini", "mini-traits"):
        clip = lab.load_clip(name)
        says = ("a photo of a {}.", "a dark blurred photo of a {}.", "a bright grainy distant photo of a {}.")
        captions = [[form.format(label) for label in ("cat", "ship")] for form in says]
        texts = torch.stack([clip.model.encode_text(clip.tokenizer(one), normalize=True) for one in captions])
        between = (texts[0, 0] - texts[0, 1]).norm()
        moved[name] = float((texts[1:] - texts[0]).norm(dim=2).mean() / between)
    assert moved["mini-traits"] > 1.5 * moved["mini"]
