"""CLIP's own resizing of one image, and of images that are in memory already."""

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor


def square(image: Image.Image, size: int) -> npt.NDArray[np.uint8]:
    """CLIP's own transform up to the tensor: short side to ``size`` by bicubic, centre crop, RGB; ``[3, size, size]``.

    The conversion to RGB comes last, as in CLIP; it matters for palette images.
    """
    width, height = image.size
    short, long = min(width, height), max(width, height)
    if short != size:
        other = int(size * long / short)
        image = image.resize((size, other) if width <= height else (other, size), Image.Resampling.BICUBIC)
    width, height = image.size
    left, top = round((width - size) / 2.0), round((height - size) / 2.0)
    if (width, height) != (size, size):
        image = image.crop((left, top, left + size, top + size))
    return np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)


def resized(images: UInt8[Tensor, "n 3 h w"], size: int) -> UInt8[Tensor, "n 3 size size"]:
    """Images in memory at another size, by the transform of the cache; the same tensor where nothing changes.

    >>> resized(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), 32).shape
    torch.Size([2, 3, 32, 32])
    """
    if images.shape[2:] == (size, size):
        return images
    pixels = images.numpy().transpose(0, 2, 3, 1)
    return torch.from_numpy(np.stack([square(Image.fromarray(one), size) for one in pixels]))
