"""The 14 operations of strong augmentation on batches of uint8 images, equal to Pillow's bit for bit."""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from fedcopl_lab._card import onto

LEVELS = 10
"""Levels 1 to 9 are drawn; they are indices of tables with ten rows."""

_FIXED = 65536  # Pillow samples in 16.16 fixed-point coordinates

Images = UInt8[Tensor, "n 3 h w"]
Levels = Int[Tensor, "n"]
Signs = Bool[Tensor, "n"]


def _auto_contrast(images: Tensor, levels: Tensor) -> Tensor:
    flat = images.flatten(2)
    low = flat.amin(dim=2, keepdim=True).double()
    high = flat.amax(dim=2, keepdim=True).double()
    scale = torch.full_like(low, 255.0) / (high - low).clamp(min=1)  # a full tensor: scalar / tensor rounds twice
    table = torch.arange(256, device=images.device, dtype=torch.float64)
    table = (table * scale + -low * scale).to(torch.int64).clamp(0, 255)
    flatness = high <= low
    table = torch.where(flatness, torch.arange(256, device=images.device), table)
    return _look_up(images, table)


def _equalize(images: Tensor, levels: Tensor) -> Tensor:
    n, channels, height, width = images.shape
    flat = images.flatten(2).long()
    counts = torch.zeros(n, channels, 256, dtype=torch.int64, device=images.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    last = counts.gather(2, flat.amax(dim=2, keepdim=True))
    step = (height * width - last) // 255
    table = (step // 2 + counts.cumsum(dim=2) - counts) // step.clamp(min=1)
    table = torch.where(step == 0, torch.arange(256, device=images.device), table.clamp(0, 255))
    return _look_up(images, table)


def _posterize(images: Tensor, levels: Tensor) -> Tensor:
    bits = levels * 4 // 10 + 4
    return images & (256 - (1 << (8 - bits))).to(torch.uint8)[:, None, None, None]


def _solarize(images: Tensor, levels: Tensor) -> Tensor:
    threshold = (256 - levels * 256 // 10)[:, None, None, None]
    return torch.where(images < threshold, images, 255 - images)


def _contrast(images: Tensor, levels: Tensor) -> Tensor:
    grey = _grey(images).flatten(1).long()
    pixels = grey.shape[1]
    mean = (2 * grey.sum(dim=1) + pixels) // (2 * pixels)  # rounded half up, in whole numbers
    return _blend(mean.to(torch.uint8)[:, None, None, None].expand_as(images), images, levels)


def _sharpness(images: Tensor, levels: Tensor) -> Tensor:
    smooth = images.clone()
    wide = images.short()
    rows = wide[:, :, :-2] + wide[:, :, 1:-1] + wide[:, :, 2:]
    nine = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    total = nine + 4 * wide[:, :, 1:-1, 1:-1]
    smooth[:, :, 1:-1, 1:-1] = ((2 * total + 13) // 26).to(torch.uint8)  # total / 13, rounded half up
    return _blend(smooth, images, levels)


TONES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "AutoContrast": _auto_contrast,
    "Brightness": lambda images, levels: _blend(torch.zeros_like(images), images, levels),
    "Color": lambda images, levels: _blend(_grey(images)[:, None].expand_as(images), images, levels),
    "Contrast": _contrast,
    "Equalize": _equalize,
    "Posterize": _posterize,
    "Sharpness": _sharpness,
    "Solarize": _solarize,
}
"""Operations that leave every pixel in its place."""

MOVES = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
"""Operations that only move pixels; what comes from outside is black."""

OPERATIONS = (*TONES, "Identity", *MOVES)
"""All 14, in the order of their numbers."""


def move(images: Images, which: Int[Tensor, "n"], levels: Levels, negative: Signs) -> Images:
    """Rotate, shear or shift each image; ``which`` numbers :data:`MOVES`, [n]."""
    _, channels, height, width = images.shape
    table = _coefficients(height, width, images.device)
    a, b, c, d, e, f = table[which, levels, negative.long()].T[:, :, None, None]
    y = torch.arange(height, device=images.device)[None, :, None]
    x = torch.arange(width, device=images.device)[None, None, :]
    column, row = (a * x + b * y + c) >> 16, (d * x + e * y + f) >> 16
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    source = (row * width + column).where(inside, 0).flatten(1)
    moved = images.flatten(2).gather(2, source[:, None].expand(-1, channels, -1)).view_as(images)
    return moved * inside[:, None]


@lru_cache(maxsize=4)
def _coefficients(height: int, width: int, device: torch.device) -> Int[Tensor, "moves levels 2 6"]:
    """Fixed-point affine coefficients by move, level and sign; output pixel -> source pixel."""
    table = [
        [[_fixed(_matrix(name, level, sign, height, width)) for sign in (1, -1)] for level in range(LEVELS)]
        for name in MOVES
    ]
    return onto(torch.tensor(table), device)


def _matrix(name: str, level: int, sign: int, height: int, width: int) -> tuple[float, ...]:
    if name == "Rotate":
        angle = -math.radians(sign * (level * 30 // 10) % 360.0)
        cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
        x, y = width / 2, height / 2
        return (cos, sin, cos * -x + sin * -y + x, -sin, cos, -sin * -x + cos * -y + y)
    amount = sign * (float(level) * 0.3 / 10)
    right, down = float(int(amount * width)), float(int(amount * height))
    return {
        "ShearX": (1.0, amount, 0.0, 0.0, 1.0, 0.0),
        "ShearY": (1.0, 0.0, 0.0, amount, 1.0, 0.0),
        "TranslateX": (1.0, 0.0, right, 0.0, 1.0, 0.0),
        "TranslateY": (1.0, 0.0, 0.0, 0.0, 1.0, down),
    }[name]


def _fixed(matrix: tuple[float, ...]) -> list[int]:
    a, b, c, d, e, f = matrix
    centred = (a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5)  # pixels are sampled at their centres
    return [math.floor(value * _FIXED + 0.5) for value in centred]


def _blend(other: Tensor, images: Tensor, levels: Tensor) -> Tensor:
    """Between a degenerate image and the image itself, as float32 rounds it."""
    factor = _factors(images.device)[levels][:, None, None, None]
    base = other.short()
    return (base.float() + factor * (images.short() - base).float()).to(torch.uint8)


@lru_cache(maxsize=2)
def _factors(device: torch.device) -> Tensor:
    """How much of the image itself is left, by level; float32 rounded from double."""
    factors = torch.tensor([float(level) * 0.9 / 10 + 0.05 for level in range(LEVELS)], dtype=torch.float64)
    return onto(factors.to(torch.float32), device)


def _grey(images: Tensor) -> Tensor:
    """ITU-R 601-2 luma in fixed point, as Pillow's mode "L"."""
    red, green, blue = images.int().unbind(dim=1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).to(torch.uint8)


def _look_up(images: Tensor, table: Tensor) -> Tensor:
    """[n, 3, h, w] through one table of 256 values per image and channel, [n, 3, 256]."""
    return table.to(torch.uint8).gather(2, images.flatten(2).long()).view_as(images)
