"""Everything that decides the weights of the packaged models, as data."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.embedded.glyphs import Distortion


@dataclass(frozen=True)
class TinyRecipe:
    """What decides the weights of `tiny` and its relatives; equal recipes on one machine give equal bytes."""

    steps: int = 1000  # optimiser steps
    batch_size: int = 128  # images per step, each with a caption of its own
    pool: int = 20_000  # distinct distorted glyphs drawn before training
    numerals: float = 0.25  # share of captions that spell the digit as a numeral
    templates: float = 0.25  # share of written templates; the other captions name traits of their glyph
    named: float = 0.6  # chance that such a caption names a clear trait
    patches: float = 0.3  # weight of the same loss for the mean of the patches' features, which FedOTP reads
    lr: float = 2e-3  # peak learning rate of AdamW, reached after ``warmup`` of the steps, then a cosine to zero
    warmup: float = 0.1  # share of the steps
    weight_decay: float = 0.05  # on matrices only
    distortion: Distortion = field(default_factory=Distortion)  # how far the glyphs are bent
    seed: int = 0  # of the initial weights, the glyphs and the batches
    threads: int = 1  # torch threads while training; the sums, and so the bytes, depend on it

    def __post_init__(self) -> None:
        _check(self, ("steps", "batch_size", "pool", "threads"), ("numerals", "templates", "named", "patches"))
        if not 0 < self.warmup < 1:
            raise FedCoPLError(f"warmup={self.warmup} is outside (0, 1); use a share such as 0.1")


@dataclass(frozen=True)
class MiniRecipe:
    """What decides `mini`'s weights; equal recipes on one machine give equal bytes.

    The learning rate rises over ``warmup`` steps, stays, and falls to zero in a straight line over the last
    ``cooldown`` of all steps.
    """

    epochs: int = 15  # passes over the images
    batch_size: int = 128  # images per step; the last, smaller batch of an epoch is left out
    images: int | None = None  # how many of the recorded images; None: all of them
    optimiser: Literal["muon", "adamw"] = "muon"  # of the layers' matrices; everything else always has AdamW
    lr: float = 2e-3  # peak learning rate
    left_out: float = 0.5  # share of an image's patches left out of a step, until the learning rate falls
    warmup: int = 150  # steps
    cooldown: float = 0.3  # share of the steps
    weight_decay: float = 0.05  # on matrices only
    coarse: float = 0.3  # weight of the loss over CIFAR-100's coarse names
    fillers: float = 0.5  # share of captions with random words before the name instead of a written template
    filled: int = 300  # templates of random words
    prior: float = 0.5  # how much of a class's log share of the images leaves its logit; 0 keeps the long tail's bias
    held_out: float = 0.04  # share of every class that is not trained on, to watch and choose by
    precision: Literal["bf16", "fp32"] = "bf16"  # of the image tower while training
    seed: int = 0  # of the initial weights, captions, views and batches
    threads: int = 2  # torch threads while training; the sums, and so the bytes, depend on it

    def __post_init__(self) -> None:
        shares = ("left_out", "cooldown", "fillers", "prior", "held_out")
        _check(self, ("epochs", "batch_size", "threads", "warmup", "filled"), shares)

    def flat_steps(self, per_epoch: int) -> int:
        """Steps before the learning rate begins to fall."""
        return self.epochs * per_epoch - round(self.cooldown * self.epochs * per_epoch)

    def lr_at(self, step: int, per_epoch: int) -> float:
        """Learning rate of a step, counted from 0.

        >>> MiniRecipe(epochs=1, lr=1.0, warmup=2, cooldown=0.5).lr_at(0, per_epoch=10)
        0.5
        """
        total, flat = self.epochs * per_epoch, self.flat_steps(per_epoch)
        falling = 1.0 if step < flat else (total - step) / (total - flat + 1)
        return self.lr * min((step + 1) / self.warmup, falling)


@dataclass(frozen=True)
class TextRecipe:
    """What decides the text tower of `mini-traits`, beside the image tower of `mini`, which is kept."""

    epochs: int = 3  # passes over the images
    batch_size: int = 128  # images per step; the last, smaller batch of an epoch is left out
    groups: int = 4  # of a batch: the photographs of one are changed alike and share a caption
    changed: float = 0.6  # chance that a trait of a group is drawn; otherwise it stays as it is
    plain: float = 0.25  # share of captions that say no trait
    named: float = 0.6  # chance that another caption says a clear trait
    lr: float = 2e-3  # peak learning rate of AdamW, reached after a tenth of the steps, then a cosine to zero
    weight_decay: float = 0.05  # on matrices only
    prior: float = 0.5  # how much of a class's log share of the images leaves its logit
    held_out: float = 0.04  # share of every class that is not trained on, to watch and choose by
    precision: Literal["bf16", "fp32"] = "bf16"  # of both towers while training
    seed: int = 0  # of the initial weights, captions, views and batches
    threads: int = 2  # torch threads while training; the sums, and so the bytes, depend on it

    def __post_init__(self) -> None:
        _check(self, ("epochs", "batch_size", "groups", "threads"), ("changed", "plain", "named", "prior", "held_out"))
        if self.batch_size % self.groups:
            raise FedCoPLError(f"groups={self.groups} do not divide batches of {self.batch_size}; use 4, for example")


@dataclass(frozen=True)
class StartRecipe:
    """What decides the weights of `resnet8-cifar100`; equal recipes on one machine give equal bytes."""

    epochs: int = 20  # passes over the images
    batch_size: int = 256  # images per step; the last, smaller batch of an epoch is left out
    image_size: int = 16  # pixels on each side
    channels: int = 32  # of the ResNet-8's first convolution: width 2
    lr: float = 0.4  # peak learning rate, reached after ``warmup`` of the steps, then a cosine to zero
    warmup: float = 0.2  # share of the steps
    weight_decay: float = 5e-4  # on all parameters
    precision: Literal["bf16", "fp32"] = "bf16"  # of forward passes while training
    seed: int = 0  # of the initial weights, views and batches
    threads: int = 2  # torch threads while training; the sums, and so the bytes, depend on it

    def __post_init__(self) -> None:
        _check(self, ("epochs", "batch_size", "image_size", "channels", "threads"), ("warmup",))


def _check(recipe: Any, counts: tuple[str, ...], shares: tuple[str, ...]) -> None:
    for name in counts:
        if getattr(recipe, name) < 1:
            raise FedCoPLError(f"{name}={getattr(recipe, name)} trains nothing; use 1 or more")
    if not 0 < recipe.lr < math.inf:
        raise FedCoPLError(f"lr={recipe.lr} is no learning rate; use a positive number such as 0.002")
    for name in shares:
        if not 0 <= getattr(recipe, name) <= 1:
            raise FedCoPLError(f"{name}={getattr(recipe, name)} is outside [0, 1]; use a share such as 0.1")
