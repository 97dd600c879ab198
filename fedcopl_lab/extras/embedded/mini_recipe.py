"""What decides the `mini` CLIP's weights: its recipe, its images and the loss of a step."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import load_dataset, seen_positions
from fedcopl_lab.extras.embedded.photo_captions import PHOTO_SETS, PhotoCaptions
from fedcopl_lab.seeding import torch_generator


@dataclass(frozen=True)
class MiniRecipe:
    """Everything that decides `mini`'s weights; equal recipes on one machine give equal bytes.

    Attributes:
        epochs: passes over the images.
        batch_size: images per step; the last, smaller batch of an epoch is left out.
        images: how many of the recorded images; None: all of them.
        optimiser: of the layers' matrices, ``"muon"`` or ``"adamw"``; everything else always has AdamW.
        lr: peak learning rate, reached after ``warmup`` steps and kept until the last ``cooldown`` of all steps,
            over which it falls to zero in a straight line.
        left_out: share of an image's patches left out of a step, until the learning rate falls.
        warmup: steps.
        cooldown: share of the steps.
        weight_decay: on matrices only.
        coarse: weight of the loss over CIFAR-100's coarse names.
        fillers: share of captions with random words before the name instead of a written template.
        filled: how many templates of random words there are.
        prior: how much of each class's log share of the images is taken out of its logit; 0 leaves the whole
            bias of the long tail in the model, 1 takes it out.
        held_out: share of every class that is not trained on, to watch and choose by.
        precision: of the image tower while training.
        seed: of the initial weights, captions, views and batches.
        threads: torch threads while training; the sums, and so the bytes, depend on it.
    """

    epochs: int = 15
    batch_size: int = 128
    images: int | None = None
    optimiser: Literal["muon", "adamw"] = "muon"
    lr: float = 2e-3
    left_out: float = 0.5
    warmup: int = 150
    cooldown: float = 0.3
    weight_decay: float = 0.05
    coarse: float = 0.3
    fillers: float = 0.5
    filled: int = 300
    prior: float = 0.5
    held_out: float = 0.04
    precision: Literal["bf16", "fp32"] = "bf16"
    seed: int = 0
    threads: int = 2

    def __post_init__(self) -> None:
        for count in ("epochs", "batch_size", "threads", "warmup", "filled"):
            if getattr(self, count) < 1:
                raise FedCoPLError(f"{count}={getattr(self, count)} trains nothing; use 1 or more")
        if not 0 < self.lr < math.inf:
            raise FedCoPLError(f"lr={self.lr} is no learning rate; use a positive number such as 0.002")
        for share in ("left_out", "cooldown", "fillers", "prior", "held_out"):
            if not 0 <= getattr(self, share) <= 1:
                raise FedCoPLError(f"{share}={getattr(self, share)} is outside [0, 1]; use a share such as 0.1")

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


@dataclass(frozen=True, repr=False)
class PhotoPool:
    """Images to train on, of both sets together.

    Attributes:
        images: uint8 pixels.
        labels: class within the image's own set.
        sets: which of the sets an image is from, by place.
    """

    images: UInt8[Tensor, "n 3 h w"]
    labels: Int[Tensor, "n"]
    sets: Int[Tensor, "n"]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, part: Tensor) -> "PhotoPool":
        return PhotoPool(self.images[part], self.labels[part], self.sets[part])

    def __repr__(self) -> str:
        return f"PhotoPool({len(self)} images of {len(self.sets.unique())} sets)"


def photo_pool(root: str | Path | None = None) -> PhotoPool:
    """The recorded images of CIFAR-10 and CIFAR-100 that `mini` sees.

    Args:
        root: folder with the data sets, as ``load_dataset`` takes it.
    """
    images, labels, sets = [], [], []
    for place, name in enumerate(PHOTO_SETS):
        dataset = load_dataset(name, root)
        chosen = dataset.train_indices[torch.tensor(seen_positions(name))]
        images.append(dataset.images[chosen])
        labels.append(dataset.labels[chosen])
        sets.append(torch.full((len(chosen),), place))
    return PhotoPool(torch.cat(images), torch.cat(labels), torch.cat(sets))


def held_out_mask(pool: PhotoPool, share: float, seed: int) -> Bool[Tensor, "n"]:
    """Which images are watched instead of trained on: the share of every class, rounded, at random."""
    order = torch.randperm(len(pool), generator=torch_generator(seed, "mini-held-out"))
    kinds = (pool.sets * 1000 + pool.labels)[order]
    held = torch.zeros(len(pool), dtype=torch.bool)
    for kind in kinds.unique():
        own = order[kinds == kind]
        held[own[: round(share * len(own))]] = True
    return held


def log_shares(pool: PhotoPool, captions: PhotoCaptions) -> Float[Tensor, "names"]:
    """Log share of each fine name's images in its set; 0 for names without images and for coarse ones."""
    shares = torch.zeros(captions.tokens.shape[1])
    for place, name in enumerate(PHOTO_SETS):
        first, end = captions.spans[name]
        counts = pool.labels[pool.sets == place].bincount(minlength=end - first).double()
        shares[first:end] = torch.where(counts > 0, counts / counts.sum().clamp(min=1), 1.0).log().float()
    return shares


def draw_captions(captions: PhotoCaptions, fillers: float, generator: torch.Generator) -> Int[Tensor, "names context"]:
    """One caption for every name, each in a template of its own: written, or of random words."""
    n_templates, n_names = captions.tokens.shape[:2]
    written = torch.randint(captions.n_written, (n_names,), generator=generator)
    filled = torch.randint(captions.n_written, n_templates, (n_names,), generator=generator)
    template = torch.where(torch.rand(n_names, generator=generator) < fillers, filled, written)
    return captions.tokens[template, torch.arange(n_names)]


def photo_loss(
    logits: Float[Tensor, "images names"],
    batch: PhotoPool,
    captions: PhotoCaptions,
    shift: Float[Tensor, "names"],
    coarse: float,
) -> Float[Tensor, ""]:
    """CLIP's contrastive loss from image to caption, with one caption for each name of the image's own set.

    In a batch the same few names would appear many times as captions of different images; comparing each
    image with every name of its set once is the same task without these duplicates. CIFAR-100's images are
    also compared with the coarse names.

    Args:
        logits: scaled cosines of images and captions of all names.
        batch: whose labels are the targets.
        captions: where each set's names stand.
        shift: added to the logits while training; see ``MiniRecipe.prior``.
        coarse: weight of the coarse names' loss.

    Returns:
        Mean over the images.
    """
    total = logits.new_zeros(())
    for place, name in enumerate(PHOTO_SETS):
        rows = batch.sets == place
        own, labels = logits[rows] + shift, batch.labels[rows]
        first, end = captions.spans[name]
        total = total + F.cross_entropy(own[:, first:end], labels, reduction="sum")
        if name == "cifar100":
            first, end = captions.spans["coarse"]
            total = total + coarse * F.cross_entropy(own[:, first:end], captions.coarse_of[labels], reduction="sum")
    return total / len(batch)
