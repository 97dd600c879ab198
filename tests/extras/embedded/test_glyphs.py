"""Printed digits: deterministic, of every face and class, cropped to their ink, counted 0..16."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.embedded.glyphs import (
    HELD_OUT_FACES,
    TRAIN_FACES,
    Distortion,
    GlyphBatch,
    distance_fields,
    draw_glyphs,
)
from fedcopl_lab.seeding import torch_generator

STRAIGHT = Distortion(stroke=(0.0, 0.0), slant=0.0, turn=0.0, stretch=(1.0, 1.0), bend=0.0)


def test_same_generator_same_glyphs_and_the_global_stream_is_left_alone():
    before = torch.get_rng_state()
    first, second = (draw_glyphs(300, torch_generator(3, "test")) for _ in range(2))
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.images, draw_glyphs(300, torch_generator(4, "test")).images)
    assert torch.equal(before, torch.get_rng_state())


@settings(max_examples=10)
@given(n=st.integers(1, 40), seed=st.integers(0, 999), factor=st.floats(0.0, 2.0))
def test_counts_are_0_to_16_and_never_blank(n, seed, factor):
    batch = draw_glyphs(n, torch_generator(seed, "test"), distortion=Distortion().stronger(factor))
    assert batch.images.shape == (n, 8, 8)
    assert batch.images.max() <= 16
    assert (batch.images.flatten(1).sum(1) > 0).all()
    assert set(batch.labels.tolist()) <= set(range(10))


@pytest.mark.parametrize("faces", [TRAIN_FACES, HELD_OUT_FACES])
def test_every_class_is_drawn_by_every_face_and_looks_different(faces):
    assert len({*TRAIN_FACES, *HELD_OUT_FACES}) == 22, "no face is both seen and held out"
    ink = distance_fields(faces) > 0
    assert ink.shape[:2] == (len(faces), 10)
    assert (ink.flatten(2).sum(2) > 100).all()
    for face in ink.flatten(2):
        assert len({tuple(np.packbits(digit.numpy())) for digit in face}) == 10
    batch = draw_glyphs(60 * len(faces), torch_generator(0, "test"), faces=faces)
    assert len({*zip(batch.faces.tolist(), batch.labels.tolist(), strict=True)}) == 10 * len(faces)


def test_the_longer_side_fills_the_picture():
    batch = draw_glyphs(400, torch_generator(0, "test"))
    touched = batch.images > 0
    rows, columns = touched.any(2), touched.any(1)
    full_height = rows[:, 0] & rows[:, -1]
    full_width = columns[:, 0] & columns[:, -1]
    assert (full_height | full_width).all()


def test_straight_glyph_against_slow_blocks():
    """Without distortion the picture is the outline itself, cropped, scaled and counted block by block."""
    batch = draw_glyphs(40, torch_generator(0, "test"), distortion=STRAIGHT)
    fields = distance_fields()
    for image, label, face in zip(batch.images, batch.labels, batch.faces, strict=True):
        ink = (fields[face, label] > 0).numpy()
        rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
        side = max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1
        centre = (rows[0] + rows[-1] + 1) / 2, (columns[0] + columns[-1] + 1) / 2
        slow = np.zeros((8, 8))
        for row in range(32):
            for column in range(32):
                y = int(centre[0] + ((row + 0.5) / 32 - 0.5) * side)
                x = int(centre[1] + ((column + 0.5) / 32 - 0.5) * side)
                slow[row // 4, column // 4] += ink[y, x]
        # The real thing passes through one more bilinear sampling, so edges move by less than a pixel.
        assert np.abs(slow - image.numpy()).mean() < 1.2


def test_thicker_strokes_have_more_ink():
    thick = replace(STRAIGHT, stroke=(0.04, 0.04))
    thin, heavy = (draw_glyphs(200, torch_generator(0, "test"), distortion=kind) for kind in (STRAIGHT, thick))
    assert heavy.images.float().mean() > thin.images.float().mean() * 1.1


def test_pixels_are_the_grey_levels_of_the_digits_data():
    levels = torch.arange(17, dtype=torch.uint8).repeat(4)[:64].reshape(1, 8, 8)
    batch = GlyphBatch(levels, torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long), torch.zeros(1, 6))
    expected = np.rint(levels.numpy().astype(float) * 255 / 16).astype(np.uint8)
    for channel in range(3):
        assert np.array_equal(batch.pixels[:, channel].numpy(), expected)


@pytest.mark.parametrize(
    ("n", "faces", "saying"),
    [
        (0, TRAIN_FACES, "n=0 glyphs.*1 or more"),
        (-3, TRAIN_FACES, "n=-3 glyphs"),
        (1, ("Nowhere",), r"Nowhere\.ttf is not in matplotlib"),
    ],
)
def test_no_glyphs_and_an_unknown_face_are_errors(n, faces, saying):
    with pytest.raises(FedCoPLError, match=saying):
        draw_glyphs(n, torch_generator(0, "test"), faces=faces)
