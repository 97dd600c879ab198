"""Photographs changed in ways that captions can say: dark, blurred, pale, grainy, distant."""

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torchvision.transforms.v2 import functional as change

from fedcopl_lab.extras.embedded.captions import PHOTO_TRAITS

_BLUR = [5, 5]  # pixels of the kernel
_SMALLEST = 8  # pixels of a close photograph's part that is left

Values = dict[str, float]


def draw_traits(chance: float, generator: torch.Generator) -> Values:
    """One value for each trait, drawn from its range with that chance, otherwise its usual one."""
    found = {}
    for trait, told in PHOTO_TRAITS.items():
        where, coin = torch.rand(2, generator=generator).tolist()
        low, high = told["range"]
        found[trait] = low + (high - low) * where if coin < chance else told["usual"]
    return found


def clear_photo_traits(values: Values) -> Int[Tensor, "5"]:
    """Which traits are plain to see: -1 for little, 1 for much, 0 for neither.

    >>> clear_photo_traits({"zoom": 0.0, "blur": 1.0, "contrast": 0.0, "light": -1.0, "grain": 8.0}).tolist()
    [0, 1, 0, -1, 0]
    """
    bounds = {trait: told["clear"] for trait, told in PHOTO_TRAITS.items()}
    return torch.tensor([(values[trait] > high) - (values[trait] < low) for trait, (low, high) in bounds.items()])


def changed_photos(
    images: UInt8[Tensor, "n 3 h w"], values: Values, generator: torch.Generator
) -> UInt8[Tensor, "n 3 h w"]:
    """The photographs with these traits; light, contrast and zoom are powers of two, blur and grain deviations."""
    side = images.shape[-1]
    part = max(_SMALLEST, round(side / 2 ** values["zoom"]))
    if part > side:
        before = (part - side) // 2
        after = part - side - before
        images = change.pad(images, [before, before, after, after], padding_mode="reflect")
    elif part < side:
        images = change.center_crop(images, [part, part])
    if part != side:
        images = change.resize(images, [side, side], antialias=True)
    if values["blur"] > 0.05:
        images = change.gaussian_blur(images, _BLUR, [values["blur"]] * 2)
    images = change.adjust_contrast(images, 2 ** values["contrast"])
    images = change.adjust_brightness(images, 2 ** values["light"])
    grain = values["grain"] * torch.randn(images.shape, generator=generator)
    return (images.float() + grain).clamp(0, 255).round().to(torch.uint8)
