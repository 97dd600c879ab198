"""The plain form of augmentation: one image at a time with Pillow, for comparison and for the bench."""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from fedcopl_lab.data import OPERATIONS


def _factor(level: int) -> float:
    return float(level) * 0.9 / 10 + 0.05


def _amount(level: int, sign: int) -> float:
    return sign * (float(level) * 0.3 / 10)


def _affine(image: Image.Image, *matrix: float | int) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


_PLAIN: dict[str, Callable[[Image.Image, int, int], Image.Image]] = {
    "AutoContrast": lambda image, level, sign: ImageOps.autocontrast(image),
    "Brightness": lambda image, level, sign: ImageEnhance.Brightness(image).enhance(_factor(level)),
    "Color": lambda image, level, sign: ImageEnhance.Color(image).enhance(_factor(level)),
    "Contrast": lambda image, level, sign: ImageEnhance.Contrast(image).enhance(_factor(level)),
    "Equalize": lambda image, level, sign: ImageOps.equalize(image),
    "Posterize": lambda image, level, sign: ImageOps.posterize(image, int(level * 4 / 10) + 4),
    "Sharpness": lambda image, level, sign: ImageEnhance.Sharpness(image).enhance(_factor(level)),
    "Solarize": lambda image, level, sign: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
    "Identity": lambda image, level, sign: image,
    "Rotate": lambda image, level, sign: image.rotate(sign * int(level * 30 / 10)),
    "ShearX": lambda image, level, sign: _affine(image, 1, _amount(level, sign), 0, 0, 1, 0),
    "ShearY": lambda image, level, sign: _affine(image, 1, 0, 0, _amount(level, sign), 1, 0),
    "TranslateX": lambda image, level, sign: _affine(
        image, 1, 0, int(_amount(level, sign) * image.size[0]), 0, 1, 0
    ),
    "TranslateY": lambda image, level, sign: _affine(
        image, 1, 0, 0, 0, 1, int(_amount(level, sign) * image.size[1])
    ),
}  # fmt: skip


def plain_operation(name: str, image: Image.Image, level: int, negative: bool) -> Image.Image:
    """One of the 14 operations as Pillow does it.

    >>> plain_operation("Rotate", Image.new("RGB", (8, 8)), level=3, negative=True).size
    (8, 8)
    """
    return _PLAIN[name](image, level, -1 if negative else 1)


def plain_weak(image: Image.Image, flip: bool, down: int, right: int, pad: int) -> Image.Image:
    """Flip, pad by reflection, crop at (down, right)."""
    turned = ImageOps.mirror(image) if flip else image
    width, height = image.size
    padded = np.pad(np.asarray(turned), ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    return Image.fromarray(padded[down : down + height, right : right + width])


def plain_strong(image: Image.Image, draws: dict[str, Any], pad: int) -> Image.Image:
    """A weak view, two operations that may be left out, a cut-out; ``draws`` are one image's numbers."""
    view = plain_weak(image, draws["flip"], draws["down"], draws["right"], pad)
    for number, level, negative, applied in draws["operations"]:
        if applied:
            view = plain_operation(OPERATIONS[number], view, level, negative)
    view = view.copy()
    left, top, right, bottom = draws["hole"]  # the last column and row still belong to it
    if left <= right and top <= bottom:
        ImageDraw.Draw(view).rectangle((left, top, right, bottom), (127, 127, 127))
    return view
