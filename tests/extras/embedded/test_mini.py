"""The recipe of `mini` on a few made-up images: its loss, its schedule, and a training that survives a kill."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.data import load_manifest
from fedcopl_lab.extras.embedded.captions import COARSE, PHOTO_SETS, photo_captions
from fedcopl_lab.extras.embedded.mini import finished, fit
from fedcopl_lab.extras.embedded.photos import Curriculum, PhotoPool, held_out_mask, photo_loss
from fedcopl_lab.extras.embedded.recipes import MiniRecipe
from fedcopl_lab.extras.embedded.state import FLAT, LAST, read_state
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
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(lines) == 1 + SHORT.epochs


@pytest.mark.long
def test_a_longer_recipe_goes_on_while_the_rate_is_flat(whole, pool, tmp_path):
    folder, curriculum, _ = whole
    flat = read_state(folder / FLAT)
    assert flat.is_flat
    assert not read_state(folder / LAST).is_flat
    longer = Curriculum.of(replace(SHORT, epochs=6), pool)
    straight, _ = fit(longer, tmp_path, progress=False)
    extended, _ = fit(longer, folder, progress=False)
    assert finished(extended, curriculum.captions)[1] == finished(straight, curriculum.captions)[1]


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
