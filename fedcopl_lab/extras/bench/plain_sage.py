"""SAGE's local step as one would first write it: Pillow image by image in two workers, then one plain step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import OPERATIONS, PAD_SHARE, ChannelStatistics, StrongDraws, WeakDraws, holes
from fedcopl_lab.models import ResNet8

WORKERS = 2

Weak = tuple[bool, int, int]
"""Flip, first row and first column of one weak view."""

Strong = tuple[Weak, list[list[int]], list[int]]
"""The weak view that comes first; number, level, sign and use of each operation; edges of the hole."""


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


def plain_strong(image: Image.Image, numbers: Strong, pad: int) -> Image.Image:
    """A weak view, two operations that may be left out, a cut-out."""
    weak, operations, (left, top, right, bottom) = numbers  # the hole's last column and row still belong to it
    view = plain_weak(image, *weak, pad=pad)
    for number, level, negative, applied in operations:
        if applied:
            view = plain_operation(OPERATIONS[number], view, level, bool(negative))
    view = view.copy()
    if left <= right and top <= bottom:
        ImageDraw.Draw(view).rectangle((left, top, right, bottom), (127, 127, 127))
    return view


def weak_numbers(draws: WeakDraws) -> list[Weak]:
    """Each image's numbers."""
    return list(zip(draws.flip.tolist(), draws.down.tolist(), draws.right.tolist(), strict=True))


def strong_numbers(draws: StrongDraws, size: int, cutout: str) -> list[Strong]:
    """Each image's numbers."""
    slots = torch.stack([draws.operations, draws.levels, draws.negative.long(), draws.applied.long()], dim=2).tolist()
    edges = torch.stack(holes(draws, size, cutout), dim=1).tolist()
    return list(zip(weak_numbers(draws.weak), slots, edges, strict=True))


@dataclass(frozen=True, repr=False)
class Sample:
    """The images and random numbers of one step, for either form."""

    labelled: Tensor  # positions of the labelled images, [b]
    pool: Tensor  # positions of the unlabelled ones, [b_u]
    labelled_draws: WeakDraws  # weak views of the labelled ones
    weak_draws: WeakDraws  # weak views of the unlabelled ones
    strong_draws: StrongDraws  # their strong views


class PlainImages(torch.utils.data.Dataset[tuple[Tensor, ...]]):
    """One item per image and step: its view or views, normalised, made with Pillow."""

    def __init__(self, images: Tensor, samples: Sequence[Sample], statistics: ChannelStatistics, cutout: str) -> None:
        self.images = images.cpu().numpy()
        self.size = images.shape[-1]
        self.mean, self.std = (part.cpu()[:, None, None] for part in (statistics.mean, statistics.std))
        self.items = [item for sample in samples for item in _items(sample, self.size, cutout)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        position, weak, strong = self.items[index]
        image = Image.fromarray(np.ascontiguousarray(self.images[position].transpose(1, 2, 0)))
        pad = self.size // PAD_SHARE
        views = [plain_weak(image, *weak, pad=pad)]
        if strong is not None:
            views.append(plain_strong(image, strong, pad))
        return tuple(self._tensor(view) for view in views)

    def _tensor(self, view: Image.Image) -> Tensor:
        levels = torch.from_numpy(np.asarray(view).copy()).permute(2, 0, 1).contiguous().float() / 255
        return (levels - self.mean) / self.std


def plain_batches(dataset: PlainImages, samples: Sequence[Sample]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(labelled, weak, strong) of one step after the other, loaded ahead by two worker processes."""
    groups, first = [], 0
    for sample in samples:
        for count in (len(sample.labelled), len(sample.pool)):
            groups.append(list(range(first, first + count)))
            first += count
    loader: Any = iter(DataLoader(dataset, batch_sampler=groups, num_workers=WORKERS))
    for (labelled,) in loader:
        weak, strong = next(loader)
        yield labelled, weak, strong


def plain_step(
    model: ResNet8,
    global_model: ResNet8,
    optimiser: torch.optim.Optimizer,
    views: tuple[Tensor, Tensor, Tensor],
    labels: Tensor,
    config: SageConfig,
) -> None:
    """One SAGE step: the global model's graph is kept, memory is in the default layout, all in float32."""
    labelled, weak, strong = views
    x, w, s = model(torch.cat([labelled, weak, strong])).split([len(labelled), len(weak), len(strong)])
    p, q = w.detach().softmax(dim=1), global_model(weak).softmax(dim=1)
    c_l, k_l = p.max(dim=1)
    c_g, k_g = q.max(dim=1)
    weight = torch.exp(-config.kappa * (c_l - c_g).abs())[:, None]
    e_l, e_g = (F.one_hot(k, p.shape[1]).to(p.dtype) for k in (k_l, k_g))
    target = torch.where((c_l >= config.threshold)[:, None], weight * e_l + (1 - weight) * e_g, e_g).detach()
    used = (c_l >= config.threshold) | (c_g >= config.threshold)
    divergence = F.kl_div(s.log_softmax(dim=1), target, reduction="none").sum(dim=1)
    loss = F.cross_entropy(x, labels) + config.lambda_u * (divergence * used).mean()
    optimiser.zero_grad()
    torch.autograd.backward([loss])
    optimiser.step()


def _items(sample: Sample, size: int, cutout: str) -> Iterator[tuple[int, Weak, Strong | None]]:
    for position, weak in zip(sample.labelled.tolist(), weak_numbers(sample.labelled_draws), strict=True):
        yield position, weak, None
    pool = sample.pool.tolist(), weak_numbers(sample.weak_draws), strong_numbers(sample.strong_draws, size, cutout)
    yield from zip(*pool, strict=True)
