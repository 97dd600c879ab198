"""All 14 operations against Pillow, bit for bit, at every level and sign; and whole views image by image."""

import numpy as np
import pytest
import torch
from PIL import Image

from fedcopl_lab import FedCoPLError
from fedcopl_lab.data import OPERATIONS, draw_strong, draw_weak, holes, normalise, strong_view, weak_view
from fedcopl_lab.data._views import _operate
from fedcopl_lab.extras.bench.plain_sage import plain_operation, plain_strong, plain_weak, strong_numbers, weak_numbers


def pictures(size, seed=0):
    """Noise, blocks, a narrow range of levels, grey, and constant images: every special case of a table."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(0, 256, (5, 3, size, size), generator=generator, dtype=torch.uint8)
    blocks = noise[:, :, ::4, ::4].repeat_interleave(4, 2).repeat_interleave(4, 3)[:, :, :size, :size]
    narrow = noise // 8 + 100
    grey = noise[:2, :1].expand(-1, 3, -1, -1)
    constant = (torch.arange(3)[:, None, None, None] * 127).to(torch.uint8).expand(3, 3, size, size)
    return torch.cat([noise, blocks, narrow, grey, constant]).contiguous()


def to_pillow(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def to_tensor(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("name", OPERATIONS)
def test_equals_pillow_at_every_level_and_sign_of_each_image(name, size):
    images, cases = pictures(size), [(level, negative) for level in range(1, 10) for negative in (False, True)]
    levels, signs = torch.tensor(cases).repeat_interleave(len(images), 0).T
    ours = _operate(images.repeat(18, 1, 1, 1), torch.full_like(levels, OPERATIONS.index(name)), levels, signs)
    plain = [to_tensor(plain_operation(name, to_pillow(one), *case)) for case in cases for one in images]
    assert torch.equal(ours, torch.stack(plain))


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("size", [8, 32])
def test_weak_views_equal_mirror_reflect_crop(size, flip):
    images = pictures(size)
    draws = draw_weak(len(images), size, torch.Generator().manual_seed(1), flip)
    ours = weak_view(images, draws)
    for view, image, numbers in zip(ours, images, weak_numbers(draws), strict=True):
        assert torch.equal(view, to_tensor(plain_weak(to_pillow(image), *numbers, size // 8)))
    assert bool(draws.flip.any()) == flip
    assert int(draws.down.max()) == size // 8 * 2
    assert int(draws.down.min()) == 0


@pytest.mark.parametrize("cutout", ["17_inclusive", "16"])
@pytest.mark.parametrize("size", [8, 32])
def test_strong_views_equal_pillow_given_the_draws(size, cutout):
    images = pictures(size).repeat(8, 1, 1, 1)
    draws = draw_strong(len(images), size, torch.Generator().manual_seed(2))
    ours = strong_view(images, draws, cutout)
    for view, image, numbers in zip(ours, images, strong_numbers(draws, size, cutout), strict=True):
        assert torch.equal(view, to_tensor(plain_strong(to_pillow(image), numbers, size // 8)))


@pytest.mark.parametrize(("cutout", "interior"), [("17_inclusive", 17), ("16", 16)])
def test_the_cut_out_has_the_size_that_its_name_says(cutout, interior):
    draws = draw_strong(4000, 32, torch.Generator().manual_seed(3))
    left, top, right, bottom = holes(draws, 32, cutout)
    widths, heights = right.clamp(max=31) - left + 1, bottom.clamp(max=31) - top + 1
    inside = (draws.centre * 32 - 8 >= 0).all(dim=1) & (draws.centre * 32 + 8 < 31).all(dim=1)
    assert set(widths[inside].tolist()) == set(heights[inside].tolist()) == {interior}
    # from the left edge the square starts at 0 and keeps its whole width
    assert set(widths[draws.centre[:, 0] * 32 < 8].tolist()) == {interior}
    area = float((widths * heights).double().mean()) / 32**2
    assert area == pytest.approx({17: 0.246, 16: 0.22}[interior], abs=0.01)


def test_draws_are_those_of_the_generator_and_fair():
    draws = [draw_strong(3000, 32, torch.Generator().manual_seed(4)) for _ in range(2)]
    for name in ("operations", "levels", "negative", "applied", "centre"):
        assert torch.equal(getattr(draws[0], name), getattr(draws[1], name))
    counts = torch.bincount(draws[0].operations.flatten(), minlength=14)
    assert int(counts.min()) > 6000 / 14 * 0.8
    assert set(draws[0].levels.flatten().tolist()) == set(range(1, 10))
    for coin in (draws[0].applied, draws[0].negative, draws[0].weak.flip):
        assert float(coin.double().mean()) == pytest.approx(0.5, abs=0.03)


def test_normalise_is_level_by_level():
    images = pictures(8)[:4]
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.4, 0.3])
    plain = (images.double() / 255 - mean.double()[:, None, None]) / std.double()[:, None, None]
    assert torch.allclose(normalise(images, mean, std).double(), plain, atol=1e-6)


def test_refuses_what_is_not_square_and_draws_for_others():
    draws = draw_weak(2, 8, torch.Generator().manual_seed(0))
    with pytest.raises(FedCoPLError, match="8x9; views need square ones: resize them"):
        weak_view(torch.zeros(2, 3, 8, 9, dtype=torch.uint8), draws)
    with pytest.raises(FedCoPLError, match="3 images but draws for 2; draw once per image"):
        weak_view(torch.zeros(3, 3, 8, 8, dtype=torch.uint8), draws)
