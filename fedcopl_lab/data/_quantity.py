"""Label skew by quantity: every client sees a fixed share of the classes."""

import math
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._shards import (
    Classes,
    Drawn,
    Indices,
    Labels,
    Mode,
    Piles,
    Shard,
    Shares,
    Stream,
    check_minimums,
    checked_classes,
    largest_remainder_counts,
    random_stream,
    redraw_until,
    shards_in_order,
    sorted_shards,
)

if TYPE_CHECKING:
    QuantityTestSplit: TypeAlias = Literal["independent", "same_proportions"]
else:
    QuantityTestSplit = str  # as Mode


def quantity_partition(
    train_labels: Labels,
    test_labels: Labels,
    n_clients: int,
    fraction: int | float = 0.2,
    seed: int = 0,
    mode: Mode = "paper",
    *,
    min_train: int = 1,
    min_test: int = 0,
    test_split: QuantityTestSplit = "independent",
    max_redraws: int = 1000,
) -> list[Shard]:
    """Split the images so that every client sees a fixed share of the classes.

    FedCoPL, experimental setup, s = 0.2 C: a client may take ceil(fraction C) classes. Each class in turn
    goes to the first floor(fraction K) clients that still have room: all but the last of them draw how many
    of its n images they take, between n / (K owners) and n / owners; the last takes the rest.

    Args:
        train_labels: class numbers of the training images, ``[n_train]``.
        test_labels: class numbers of the test images, ``[n_test]``.
        n_clients: number of clients K.
        fraction: share of the classes that a client sees, above 0 and up to 1.
        seed: the partition's seed.
        mode: ``"paper"`` takes shuffled images; at least one client owns each class. ``"authors"`` replays
            the released code: the legacy NumPy stream 500 + seed, and images taken in their order.
        min_train: fewest training images of a client.
        min_test: fewest test images of a client.
        test_split: ``"independent"`` draws the numbers of test images anew, as the released code does, so
            that a client's class mix differs between training and test; ``"same_proportions"`` shares out
            the test images of a class as its training images.
        max_redraws: draws to throw away before giving up.

    Returns:
        One :class:`Shard` per client: disjoint positions in the given label vectors that cover them all.

    Raises:
        FedCoPLError: on bad labels or arguments, when the clients together have room for too few classes,
            or when no draw gives every client its minimum.

    >>> quantity_partition([0] * 40 + [1] * 40, [0, 1], n_clients=2, fraction=0.5)
    [Shard(40 train, 1 test), Shard(40 train, 1 test)]

    Shown in notebook ``fedcopl_main_table1``.
    """
    return draw_quantity(
        train_labels,
        test_labels,
        n_clients,
        fraction,
        seed,
        mode,
        min_train=min_train,
        min_test=min_test,
        test_split=test_split,
        max_redraws=max_redraws,
    ).shards


def draw_quantity(
    train_labels: Labels,
    test_labels: Labels,
    n_clients: int,
    fraction: int | float,
    seed: int,
    mode: Mode,
    *,
    min_train: int,
    min_test: int,
    test_split: str,
    max_redraws: int,
) -> Drawn:
    """:func:`quantity_partition` together with the number of draws that were thrown away."""
    classes = checked_classes(train_labels, test_labels, n_clients)
    if not 0 < fraction <= 1:
        raise FedCoPLError(f"fraction={fraction} is not in (0, 1]; choose the share of classes, such as 0.2")
    if test_split not in ("independent", "same_proportions"):
        raise FedCoPLError(f"test_split={test_split!r} is unknown; choose 'independent' or 'same_proportions'")
    check_minimums(classes, n_clients, min_train, min_test)
    stream = random_stream(seed, mode, "quantity", len(classes))
    owners = _owners(len(classes), n_clients, float(fraction), mode)
    idle = n_clients - len({client for chosen in owners for client in chosen})
    if idle and min_train > 0:
        raise FedCoPLError(
            f"n_clients={n_clients} with fraction={fraction} leaves {idle} of them without a class; choose "
            "fewer clients, or a number of clients of which the fraction is a whole number"
        )
    return redraw_until(
        partial(_draw, classes, owners, n_clients, stream, mode, test_split),
        shards_in_order if mode == "authors" else sorted_shards,
        min_train,
        min_test,
        max_redraws,
        f"choose fewer clients than {n_clients} or smaller minimums",
    )


def _owners(n_classes: int, n_clients: int, fraction: float, mode: Mode) -> list[list[int]]:
    """The clients that share each class."""
    if mode == "authors":
        # The released code's own products: a budget that is a hair above 3 admits a fourth class.
        budget = fraction * n_classes
        owners_per_class = int(n_clients / n_classes * budget)
    else:
        budget = math.ceil(round(fraction * n_classes, 9))
        owners_per_class = max(int(round(fraction * n_clients, 9)), 1)
    if owners_per_class < 1:
        raise FedCoPLError(
            f"n_clients={n_clients} with fraction={fraction} leaves no client for a class; choose "
            f"{math.ceil(1 / fraction)} clients or more, or mode='paper'"
        )
    room = [budget] * n_clients
    owners = []
    for class_number in range(n_classes):
        chosen = [client for client in range(n_clients) if room[client] > 0][:owners_per_class]
        if not chosen:
            raise FedCoPLError(
                f"{n_clients} clients that see fraction={fraction} of {n_classes} classes have room for the "
                f"first {class_number} only; choose a larger fraction or another number of clients"
            )
        for client in chosen:
            room[client] -= 1
        owners.append(chosen)
    return owners


def _draw(
    classes: Classes, owners: list[list[int]], n_clients: int, stream: Stream, mode: Mode, test_split: str
) -> tuple[Piles, Piles]:
    train, test = Piles(n_clients, classes.n_train), Piles(n_clients, classes.n_test)
    for class_number, chosen in enumerate(owners):
        train_images, test_images = classes.train[class_number], classes.test[class_number]
        if mode == "paper":
            train_images, test_images = stream.permutation(train_images), stream.permutation(test_images)
        train_counts = _drawn_counts(len(train_images), chosen, n_clients, len(classes), stream)
        if test_split == "independent":
            test_counts = _drawn_counts(len(test_images), chosen, n_clients, len(classes), stream)
        else:
            test_counts = largest_remainder_counts(_shares(train_counts, chosen), len(test_images))
        train.deal(train_images, train_counts)
        test.deal(test_images, test_counts)
    return train, test


def _drawn_counts(n_images: int, chosen: list[int], n_clients: int, n_classes: int, stream: Stream) -> Indices:
    """How many images of one class each client gets."""
    counts = np.zeros(n_clients, dtype=np.int64)
    if len(chosen) > 1 and n_images:
        mean = n_images / len(chosen)
        lowest, beyond = int(max(mean / n_clients, 10 / n_classes)), int(mean)
        if lowest >= beyond:
            raise FedCoPLError(
                f"a class with {n_images} images is too small for its {len(chosen)} clients, who draw from "
                f"{lowest} images to below {beyond}; choose fewer clients or a smaller fraction"
            )
        counts[chosen[:-1]] = _integers(stream, lowest, beyond, len(chosen) - 1)
    counts[chosen[-1]] = n_images - counts.sum()
    return counts


def _shares(counts: Indices, chosen: list[int]) -> Shares:
    if counts.any():
        return np.asarray(counts / counts.sum(), dtype=np.float64)
    shares = np.zeros(len(counts))
    shares[chosen] = 1 / len(chosen)
    return shares


def _integers(stream: Stream, lowest: int, beyond: int, size: int) -> Indices:
    if isinstance(stream, np.random.RandomState):
        return np.asarray(stream.randint(lowest, beyond, size), dtype=np.int64)
    return stream.integers(lowest, beyond, size)
