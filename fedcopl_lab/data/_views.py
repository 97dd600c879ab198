"""Weak and strong views of images, every random number drawn beforehand, and how they are normalised."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from fedcopl_lab._card import onto
from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.data._augmentations import LEVELS, MOVES, OPERATIONS, TONES, move
from fedcopl_lab.data._datasets import Dataset
from fedcopl_lab.data._manifests import load_manifest

PAD_SHARE = 8
"""Crops shift an image by up to an eighth of its side: 4 of 32 pixels."""

HOLE_SHARE = 2
"""A cut-out is half as wide as the image: 16 of 32 pixels."""

_SLOTS = 2  # operations drawn for a strong view
_APPLIED = 0.5  # probability of each
_GREY = 127
_Drawn = TypeVar("_Drawn", bound="_Draws")


@dataclass(frozen=True, repr=False)
class _Draws:
    """The random numbers of n views, field by field; a slice of them is those of some."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self: _Drawn, part: slice) -> _Drawn:
        return type(self)(*(getattr(self, field.name)[part] for field in fields(self)))

    @classmethod
    def joined(cls: type[_Drawn], parts: Sequence[_Drawn]) -> _Drawn:
        """Several one after the other."""
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*(column[0].joined(column) if isinstance(column[0], _Draws) else torch.cat(column)
                     for column in columns))  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images)"


@dataclass(frozen=True, repr=False)
class WeakDraws(_Draws):
    """The random numbers of n weak views."""

    flip: Bool[Tensor, "n"]  # mirror left and right, [n]
    down: Int[Tensor, "n"]  # first row of the crop in the padded image, [n]
    right: Int[Tensor, "n"]  # first column of the crop, [n]

    def to(self, device: torch.device) -> "WeakDraws":
        """The same numbers on a device."""
        if self.flip.device == device:
            return self
        flip, down, right = onto(torch.stack([self.flip.long(), self.down, self.right]), device)  # in one copy
        return WeakDraws(flip.bool(), down, right)


@dataclass(frozen=True, repr=False)
class StrongDraws(_Draws):
    """The random numbers of n strong views."""

    weak: WeakDraws  # flip and crop that come first
    operations: Int[Tensor, "n 2"]  # numbers of the drawn operations in OPERATIONS, [n, 2]
    levels: Int[Tensor, "n 2"]  # their strengths, 1 to 9, [n, 2]
    negative: Bool[Tensor, "n 2"]  # turn, shear or shift the other way, [n, 2]
    applied: Bool[Tensor, "n 2"]  # whether the operation is applied at all, [n, 2]
    centre: Float[Tensor, "n 2"]  # column and row of the cut-out's centre as shares of the sides, [n, 2]


def draw_weak(n: int, size: int, generator: torch.Generator, flip: bool = True) -> WeakDraws:
    """Draw flips and crops for n images of that side length; ``flip=False`` mirrors none.

    >>> len(draw_weak(5, 32, torch.Generator().manual_seed(0)))
    5
    """
    shifts = torch.randint(2 * (size // PAD_SHARE) + 1, (2, n), generator=generator)
    mirrored = torch.rand(n, generator=generator) < 0.5
    return WeakDraws(flip=mirrored & flip, down=shifts[0], right=shifts[1])


def draw_strong(n: int, size: int, generator: torch.Generator, flip: bool = True) -> StrongDraws:
    """Draw flips, crops, two operations each and cut-outs for n images of that side length.

    >>> draw_strong(5, 32, torch.Generator().manual_seed(0)).operations.shape
    torch.Size([5, 2])
    """
    weak = draw_weak(n, size, generator, flip)
    coins = torch.rand(2, n, _SLOTS, generator=generator)
    return StrongDraws(
        weak=weak,
        operations=torch.randint(len(OPERATIONS), (n, _SLOTS), generator=generator),
        levels=torch.randint(1, LEVELS, (n, _SLOTS), generator=generator),
        negative=coins[0] < 0.5,
        applied=coins[1] < _APPLIED,
        centre=torch.rand(n, 2, generator=generator, dtype=torch.float64),
    )


def weak_view(images: UInt8[Tensor, "n 3 h w"], draws: WeakDraws) -> UInt8[Tensor, "n 3 h w"]:
    """Mirror, pad by reflection, crop (SAGE Sec. 5.1, released code).

    Args:
        images: square uint8 images, [n, 3, h, w].
        draws: one flip and crop each.

    Raises:
        FedCoPLError: images that are not square, or another number of draws.

    >>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    >>> weak_view(images, draw_weak(2, 32, torch.Generator().manual_seed(0))).shape
    torch.Size([2, 3, 32, 32])

    Shown in notebook ``sage_step_by_step``.
    """
    _check(images, len(draws))
    size, draws = images.shape[-1], draws.to(images.device)
    places = torch.arange(size, device=images.device)
    rows = _reflect(places + draws.down[:, None] - size // PAD_SHARE, size)
    columns = _reflect(places + draws.right[:, None] - size // PAD_SHARE, size)
    columns = torch.where(draws.flip[:, None], size - 1 - columns, columns)
    source = (rows[:, :, None] * size + columns[:, None, :]).flatten(1)
    return images.flatten(2).gather(2, source[:, None].expand(-1, images.shape[1], -1)).view_as(images)


def strong_view(
    images: UInt8[Tensor, "n 3 h w"], draws: StrongDraws, cutout: Literal["17_inclusive", "16"] = "17_inclusive"
) -> UInt8[Tensor, "n 3 h w"]:
    """Mirror and crop, two operations out of 14, a grey square (SAGE Sec. 5.1, released code).

    Args:
        images: square uint8 images, [n, 3, h, w].
        draws: the random numbers of each image.
        cutout: ``"17_inclusive"``: the square's last row and column belong to it, as the released code draws
            it: 17 of 32 pixels. ``"16"``: its nominal size.

    Raises:
        FedCoPLError: images that are not square, another number of draws, or an unknown ``cutout``.

    >>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    >>> strong_view(images, draw_strong(2, 32, torch.Generator().manual_seed(0))).shape
    torch.Size([2, 3, 32, 32])

    Shown in notebook ``sage_step_by_step``.
    """
    _check(images, len(draws))
    views = weak_view(images, draws.weak)
    for slot in range(_SLOTS):
        number = torch.where(draws.applied[:, slot], draws.operations[:, slot], OPERATIONS.index("Identity"))
        views = _operate(views, number, draws.levels[:, slot], draws.negative[:, slot])
    edges = onto(torch.stack(holes(draws, images.shape[-1], cutout)), images.device)
    left, top, right, bottom = edges[..., None]
    places = torch.arange(images.shape[-1], device=images.device)
    inside_rows, inside_columns = (places >= top) & (places <= bottom), (places >= left) & (places <= right)
    return views.masked_fill_((inside_rows[:, :, None] & inside_columns[:, None, :])[:, None], _GREY)


def holes(draws: StrongDraws, size: int, cutout: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First column and row and last column and row of each cut-out, four of [n]."""
    check_choice("cutout", cutout, ("17_inclusive", "16"))
    side = size // HOLE_SHARE
    first = (draws.centre * size - side / 2).clamp(min=0).long()
    last = (first + side).clamp(max=size) - (0 if cutout == "17_inclusive" else 1)
    return first[:, 0], first[:, 1], last[:, 0], last[:, 1]


@dataclass(frozen=True)
class ChannelStatistics:
    """Mean and deviation of each channel, of levels in [0, 1]."""

    mean: Float[Tensor, "channels"]  # [3]
    std: Float[Tensor, "channels"]  # [3]

    def side_by_side(self, n: int) -> "ChannelStatistics":
        """Those of n images whose channels lie one after the other."""
        return ChannelStatistics(self.mean.repeat(n), self.std.repeat(n))

    def __repr__(self) -> str:
        return f"ChannelStatistics(mean {self.mean.tolist()}, std {self.std.tolist()})"


def channel_statistics(
    dataset: Dataset, part: Literal["train", "test"], norm: Literal["matched", "authors"] = "matched"
) -> ChannelStatistics:
    """The constants that training or test images are normalised with.

    Args:
        dataset: the data set; sets without published constants take those of their training images.
        part: training or test images.
        norm: ``"matched"``: one pair for both parts. ``"authors"``: CIFAR-10's constants in training, another
            pair in tests, as the released code.

    >>> channel_statistics(load_dataset("digits"), "train", "authors").mean.tolist()[0]
    0.49140000343322754

    Shown in notebook ``sage_step_by_step``.
    """
    check_choice("part", part, ("train", "test"))
    check_choice("norm", norm, ("matched", "authors"))
    if (norm, part) == ("authors", "train") or (norm, dataset.name) == ("matched", "cifar10"):
        of_cifar10 = load_manifest("cifar10").normalisation
        assert of_cifar10 is not None
        return ChannelStatistics(torch.tensor(of_cifar10.mean), torch.tensor(of_cifar10.std))
    published = dataset.manifest.normalisation if dataset.name == dataset.manifest.name else None
    if published is not None:
        return ChannelStatistics(torch.tensor(published.mean_at_test), torch.tensor(published.std_at_test))
    levels = dataset.images[dataset.train_indices].double() / 255
    mean, std = levels.mean(dim=(0, 2, 3)), levels.std(dim=(0, 2, 3), correction=0)
    return ChannelStatistics(mean=mean.float(), std=std.float())


def normalise(
    images: UInt8[Tensor, "n channels h w"], mean: Float[Tensor, "channels"], std: Float[Tensor, "channels"]
) -> Float[Tensor, "n channels h w"]:
    """Levels 0..255 to (level / 255 - mean) / std by channel, float32."""
    scale, shift = 1 / (255 * std), -mean / std
    return images.float() * scale[:, None, None] + shift[:, None, None]


def check_pixels(images: Tensor, shape: Sequence[int], reader: str) -> None:
    """Refuse images that are not uint8 [n, channels, H, W] of the size that their reader takes."""
    if images.dtype != torch.uint8 or images.ndim != 4 or tuple(images.shape[1:]) != tuple(shape):
        given, taken = ("x".join(map(str, size)) for size in (images.shape, ("n", *shape)))
        kind = str(images.dtype).removeprefix("torch.")
        raise FedCoPLError(f"images are {kind} {given}; {reader} takes uint8 {taken}: resize them, keep bytes")


def _operate(images: Tensor, number: Tensor, levels: Tensor, negative: Tensor) -> Tensor:
    """One operation per image; those that share an operation are done together."""
    out, first_move = images, OPERATIONS.index(MOVES[0])
    order = number.clamp(max=first_move).sort(stable=True)  # the moves are one group
    sizes = order.values.bincount(minlength=first_move + 1).tolist()
    columns = torch.stack([order.indices, number - first_move, levels, negative.long()])
    places, which, levels, negative = onto(columns, images.device)
    for place, where in enumerate(places.split(sizes)):
        if not len(where) or place == OPERATIONS.index("Identity"):
            continue
        if place == first_move:
            out[where] = move(images[where], which[where], levels[where], negative[where].bool())
        else:
            out[where] = TONES[OPERATIONS[place]](images[where], levels[where])
    return out


def _reflect(places: Tensor, size: int) -> Tensor:
    """Positions in a row padded by reflection, without the edge pixel twice."""
    return (size - 1) - (size - 1 - places.abs()).abs()


def _check(images: Tensor, n_draws: int) -> None:
    if images.shape[-1] != images.shape[-2]:
        raise FedCoPLError(f"images are {images.shape[-2]}x{images.shape[-1]}; views need square ones: resize them")
    if len(images) != n_draws:
        raise FedCoPLError(f"{len(images)} images but draws for {n_draws}; draw once per image")
