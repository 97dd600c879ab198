"""How the images that `mini` is trained on were drawn and recorded, once, in ``fedcopl_lab/data/mini_seen.toml``."""

import base64
import hashlib
import textwrap
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import positions_sha256
from fedcopl_lab.seeding import numpy_generator

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_LINE = 100  # characters of a line of the record


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
    """Draw the images of one set that `mini` sees, with a long tail over the classes.

    Args:
        name: of the set; names the random stream.
        train_labels: class of every training image, [n_train].
        twins: training images that are never drawn, because a copy of theirs is elsewhere, [n_train].
        tail: images of each class; None takes that of :data:`TAILS`.

    Returns:
        Rising positions among the training images.

    Raises:
        FedCoPLError: a class has fewer images than the tail asks for.
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


def record_of(name: str, seen: Positions, train_labels: Positions) -> str:
    """The lines of the record for one set's draw."""
    mask = np.zeros(len(train_labels), dtype=bool)
    mask[seen] = True
    counts = ", ".join(map(str, np.bincount(train_labels[seen], minlength=int(train_labels.max()) + 1)))
    packed = textwrap.fill(base64.b64encode(np.packbits(mask).tobytes()).decode(), _LINE)
    lines = textwrap.fill(counts, _LINE, initial_indent="    ", subsequent_indent="    ")
    return (
        f'[{name}]\ntrain = {len(train_labels)}\nseen = {len(seen)}\nsha256 = "{positions_sha256(seen)}"\n'
        f'per_class = [\n{lines},\n]\nmask = """\n{packed}\n"""\n'
    )
