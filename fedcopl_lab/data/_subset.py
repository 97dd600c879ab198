"""A fixed part of a data set, for a look at full image size without a full run: ``"cifar10:300"``."""

from collections.abc import Container

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.seeding import numpy_generator

Positions = npt.NDArray[np.int64]


def split_name(name: str, known: Container[str]) -> tuple[str, int | None]:
    """Name of the whole set and number of images wanted; None for all of them.

    Args:
        name: such as ``"cifar10"`` or ``"cifar10:300"``.
        known: the sets that have parts; any other name is left as it is.

    Raises:
        FedCoPLError: what follows a known name is not a number.

    >>> split_name("cifar10:300", ("cifar10",)), split_name("folder:3", ("cifar10",))
    (('cifar10', 300), ('folder:3', None))
    """
    base, colon, count = name.partition(":")
    if not colon or base not in known:
        return name, None
    if not (count.isascii() and count.isdigit()):
        raise FedCoPLError(f"{name!r} asks for {count!r} images; expected a number, such as {base}:300")
    return base, int(count)


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


def draw_part(labels: Positions, train: Positions, test: Positions, n: int, name: str) -> tuple[Positions, Positions]:
    """Positions of a part's training and test images, rising; the same each time.

    Args:
        labels: class of every image, [n_all].
        train: positions of the training images.
        test: positions of the test images.
        n: images of the part.
        name: the whole set.

    Returns:
        Training and test positions; every class has as many as any other, or one less, while it has any left.
    """
    wanted = part_sizes(len(train), len(test), n, name)
    parts = zip(("train", "test"), (train, test), wanted, strict=True)
    first, second = (_balanced(labels, positions, size, name, part) for part, positions, size in parts)
    return first, second


def _balanced(labels: Positions, positions: Positions, size: int, name: str, part: str) -> Positions:
    shuffled = numpy_generator(0, "part of a data set", name, part).permutation(positions)
    turn = np.empty(len(shuffled), dtype=np.int64)  # an image's place among those of its class
    for label in np.unique(labels[positions]):
        own = np.flatnonzero(labels[shuffled] == label)
        turn[own] = np.arange(len(own))
    chosen: Positions = np.sort(shuffled[np.argsort(turn, kind="stable")[:size]])
    return chosen
