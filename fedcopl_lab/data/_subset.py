"""A fixed part of a data set: ``"cifar10:300"`` for a quick look, ``"cifar10:unseen:6000"`` for clients of `mini`."""

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._seen import TAILS, seen_positions
from fedcopl_lab.seeding import numpy_generator

Positions = npt.NDArray[np.int64]

UNSEEN = "unseen"
"""The word in a name that leaves out what `mini` is trained on."""


@dataclass(frozen=True)
class PartName:
    """What a data set's name asks for.

    Attributes:
        whole: name of the whole set.
        n_images: training and test images wanted; None for all of them.
        unseen: without the training images that the `mini` CLIP is trained on.
    """

    whole: str
    n_images: int | None = None
    unseen: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self.n_images is None and not self.unseen

    @property
    def text(self) -> str:
        """The name again, such as ``cifar10:unseen:6000``."""
        count = () if self.n_images is None else (str(self.n_images),)
        return ":".join([self.whole, *((UNSEEN,) if self.unseen else ()), *count])


def split_name(name: str, known: Container[str]) -> PartName:
    """Take the name of a set or of a part of one apart.

    Args:
        name: such as ``"cifar10"``, ``"cifar10:300"``, ``"cifar10:unseen"`` or ``"cifar10:unseen:6000"``.
        known: the sets that have parts; any other name is left as it is.

    Raises:
        FedCoPLError: what follows a known name is not a number, or `mini` is not trained on that set.

    >>> split_name("cifar10:unseen:300", ("cifar10",))
    PartName(whole='cifar10', n_images=300, unseen=True)
    """
    base, colon, count = name.partition(":")
    if not colon or base not in known:
        return PartName(name)
    word, colon, rest = count.partition(":")
    unseen = word == UNSEEN
    if unseen and base not in TAILS:
        raise FedCoPLError(f"{name!r}: mini is trained on no image of {base}; leave {UNSEEN!r} out of the name")
    if unseen and not colon:
        return PartName(base, None, unseen)
    number = rest if unseen else count
    if not (number.isascii() and number.isdigit()):
        raise FedCoPLError(f"{name!r} asks for {number!r} images; expected a number, such as {base}:300")
    return PartName(base, int(number), unseen)


def part_sizes(n_train: int, n_test: int, n: int, name: str) -> tuple[int, int]:
    """How many of n images are training and test images: in the proportion of the whole set, one at least.

    Raises:
        FedCoPLError: fewer than 2 images, or more than there are.

    >>> part_sizes(50_000, 10_000, 300, "cifar10")
    (250, 50)
    """
    if not 2 <= n <= n_train + n_test:
        raise FedCoPLError(f"{name}:{n} asks for {n} images; expected 2 to {n_train + n_test}, all there are")
    train = min(max(round(n * n_train / (n_train + n_test)), 1), n - 1)
    return train, n - train


def counts_of(part: PartName, n_train: int, n_test: int) -> tuple[int, int]:
    """Training and test images of a part, from those of the whole set."""
    if part.n_images is not None:
        return part_sizes(n_train, n_test, part.n_images, part.whole)
    return n_train - (len(seen_positions(part.whole)) if part.unseen else 0), n_test


def draw_part(
    labels: Positions, train: Positions, test: Positions, n: int, name: str, n_train: int | None = None
) -> tuple[Positions, Positions]:
    """Positions of a part's training and test images, rising; the same each time.

    Args:
        labels: class of every image, [n_all].
        train: positions of the training images that may be taken.
        test: positions of the test images.
        n: images of the part.
        name: the whole set.
        n_train: training images of the whole set, for the proportion; None: as many as may be taken.

    Returns:
        Training and test positions; every class has as many as any other, or one less, while it has any left.
    """
    wanted = part_sizes(n_train or len(train), len(test), n, name)
    if wanted[0] > len(train):
        raise FedCoPLError(f"{name}: {wanted[0]} training images asked for, {len(train)} may be taken; ask for less")
    parts = zip(("train", "test"), (train, test), wanted, strict=True)
    first, second = (_balanced(labels, positions, size, name, part) for part, positions, size in parts)
    return first, second


def without_seen(train: Positions, name: str) -> Positions:
    """The training images that `mini` never saw, of training images that come first in their set."""
    return np.setdiff1d(train, seen_positions(name), assume_unique=True)


def _balanced(labels: Positions, positions: Positions, size: int, name: str, part: str) -> Positions:
    shuffled = numpy_generator(0, "part of a data set", name, part).permutation(positions)
    turn = np.empty(len(shuffled), dtype=np.int64)  # an image's place among those of its class
    for label in np.unique(labels[positions]):
        own = np.flatnonzero(labels[shuffled] == label)
        turn[own] = np.arange(len(own))
    chosen: Positions = np.sort(shuffled[np.argsort(turn, kind="stable")[:size]])
    return chosen
