"""What `mini` is trained on: which photographs, their captions, and the loss of a step.

The photographs were drawn once and are recorded in ``fedcopl_lab/data/mini_seen.toml``; :func:`draw_seen` says how.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import load_dataset, seen_positions
from fedcopl_lab.extras.embedded.captions import PHOTO_SETS, PhotoCaptions, photo_captions
from fedcopl_lab.extras.embedded.recipes import MiniRecipe
from fedcopl_lab.models.checkpoint import model_config
from fedcopl_lab.models.clip import MINI
from fedcopl_lab.seeding import numpy_generator, torch_generator

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class PhotoPool:
    """Images to train on, of both sets together."""

    images: UInt8[Tensor, "n 3 h w"]
    labels: Int[Tensor, "n"]  # class within the image's own set
    sets: Int[Tensor, "n"]  # place of the image's set in PHOTO_SETS

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, part: Tensor) -> "PhotoPool":
        return PhotoPool(self.images[part], self.labels[part], self.sets[part])

    def __repr__(self) -> str:
        return f"PhotoPool({len(self)} images of {len(self.sets.unique())} sets)"


def photo_pool(root: str | Path | None = None) -> PhotoPool:
    """The recorded images of CIFAR-10 and CIFAR-100 that `mini` sees; ``root`` as ``load_dataset`` takes it."""
    parts = []
    for place, name in enumerate(PHOTO_SETS):
        dataset = load_dataset(name, root)
        chosen = dataset.train_indices[torch.tensor(seen_positions(name))]
        parts.append((dataset.images[chosen], dataset.labels[chosen], torch.full((len(chosen),), place)))
    return PhotoPool(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def held_out_mask(pool: PhotoPool, share: float, seed: int) -> Bool[Tensor, "n"]:
    """Which images are watched instead of trained on: the share of every class, rounded, at random."""
    order = torch.randperm(len(pool), generator=torch_generator(seed, "mini-held-out"))
    kinds = (pool.sets * 1000 + pool.labels)[order]
    held = torch.zeros(len(pool), dtype=torch.bool)
    for kind in kinds.unique():
        own = order[kinds == kind]
        held[own[: round(share * len(own))]] = True
    return held


def whole_batches(n_images: int, batch_size: int) -> int:
    """Steps of an epoch; an error when there are fewer images than a batch."""
    if n_images < batch_size:
        raise FedCoPLError(f"{n_images} images make no batch of {batch_size}; use more images or smaller batches")
    return n_images // batch_size


def log_shares(pool: PhotoPool, captions: PhotoCaptions) -> Float[Tensor, "names"]:
    """Log share of each fine name's images in its set; 0 for names without images and for coarse ones."""
    shares = torch.zeros(captions.rows.shape[1])
    for place, name in enumerate(PHOTO_SETS):
        first, end = captions.spans[name]
        counts = pool.labels[pool.sets == place].bincount(minlength=end - first).double()
        shares[first:end] = torch.where(counts > 0, counts / counts.sum().clamp(min=1), 1.0).log().float()
    return shares


def draw_captions(captions: PhotoCaptions, fillers: float, generator: torch.Generator) -> Int[Tensor, "names context"]:
    """One caption for every name, each in a template of its own: written, or of random words."""
    n_templates, n_names = captions.rows.shape[:2]
    written = torch.randint(captions.n_written, (n_names,), generator=generator)
    filled = torch.randint(captions.n_written, n_templates, (n_names,), generator=generator)
    template = torch.where(torch.rand(n_names, generator=generator) < fillers, filled, written)
    return captions.rows[template, torch.arange(n_names)]


def photo_loss(
    logits: Float[Tensor, "images names"],
    batch: PhotoPool,
    captions: PhotoCaptions,
    shift: Float[Tensor, "names"],
    coarse: float,
) -> Float[Tensor, ""]:
    """CLIP's contrastive loss from image to caption, with one caption for each name of the image's own set.

    Comparing each image with every name of its set once avoids that a batch repeats the same few names as captions
    of different images. CIFAR-100's images are also compared with the coarse names, with weight ``coarse``.
    ``shift`` is added to the logits, the scaled cosines; see ``MiniRecipe.prior``. Returns the mean over the images.
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


@dataclass(frozen=True)
class Curriculum:
    """What every epoch of a training uses: recipe, images to train on and to watch, captions."""

    recipe: MiniRecipe
    train: PhotoPool
    held_out: PhotoPool
    captions: PhotoCaptions

    @classmethod
    def of(cls, recipe: MiniRecipe, pool: PhotoPool) -> "Curriculum":
        """Divide the images and tokenise the captions."""
        if recipe.images is not None:
            chosen = torch.randperm(len(pool), generator=torch_generator(recipe.seed, "mini-images"))[: recipe.images]
            pool = pool[chosen.sort().values]
        held = held_out_mask(pool, recipe.held_out, recipe.seed)
        context = int(model_config(MINI)["text_cfg"]["context_length"])
        curriculum = cls(recipe, pool[~held], pool[held], photo_captions(context, recipe.seed, recipe.filled))
        whole_batches(len(curriculum.train), recipe.batch_size)  # says when there are too few images
        return curriculum

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return whole_batches(len(self.train), self.recipe.batch_size)

    def __repr__(self) -> str:
        return f"Curriculum({len(self.train)} images, {len(self.held_out)} held out)"


@dataclass(frozen=True)
class LongTail:
    """How many images of each class are drawn, from the most frequent class to the rarest."""

    most: int  # images of the first class
    least: int  # images of the last one
    bend: float  # the fall in between, ``most - (most - least) * (rank / last) ** bend``; 1 is a straight line

    def sizes(self, n_classes: int) -> list[int]:
        """Images of each class by rank.

        >>> LongTail(20, 1, 1.0).sizes(3)
        [20, 10, 1]
        """
        span, last = self.most - self.least, n_classes - 1
        return [round(self.most - span * (rank / last) ** self.bend) for rank in range(n_classes)]


TAILS = {"cifar10": LongTail(2000, 100, 0.85), "cifar100": LongTail(440, 22, 1.8)}
"""The draw of each set: a class imbalance of 20:1, and enough left of every class for the clients."""


def pixel_twins(*sets: npt.NDArray[np.uint8]) -> list[Flags]:
    """Which images of each set, uint8 ``[n, 3, h, w]``, have an exact copy elsewhere, in their own set or another."""
    digests = [[hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images] for images in sets]
    counts = Counter(digest for one in digests for digest in one)
    return [np.array([counts[digest] > 1 for digest in one]) for one in digests]


def draw_seen(name: str, train_labels: Positions, twins: Flags, tail: LongTail | None = None) -> Positions:
    """Rising positions of the training images of one set that `mini` sees, with a long tail over the classes.

    ``twins``, which have a copy elsewhere, are never drawn; ``tail`` None takes that of :data:`TAILS`. A class with
    fewer images than the tail asks for is an error.
    """
    n_classes = int(train_labels.max()) + 1
    stream = numpy_generator(0, "images that mini sees", name)
    sizes = (tail or TAILS[name]).sizes(n_classes)
    drawn = []
    for label, size in zip(stream.permutation(n_classes), sizes, strict=True):
        own = stream.permutation(np.flatnonzero((train_labels == label) & ~twins))
        if len(own) < size:
            raise FedCoPLError(
                f"class {label} of {name} has {len(own)} images without a copy, but {size} are to be drawn; "
                "choose a shorter tail"
            )
        drawn.append(own[:size])
    return np.sort(np.concatenate(drawn))
