"""No skew: every client gets the same mix of classes."""

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._shards import (
    Indices,
    Labels,
    Mode,
    Piles,
    Shard,
    Stream,
    checked_classes,
    floor_counts,
    random_stream,
    shards_in_order,
    sorted_shards,
)


def iid_partition(
    train_labels: Labels, test_labels: Labels, n_clients: int, seed: int = 0, mode: Mode = "paper"
) -> list[Shard]:
    """Split the images of every class evenly among the clients.

    Args:
        train_labels: class numbers of the training images, ``[n_train]``.
        test_labels: class numbers of the test images, ``[n_test]``.
        n_clients: number of clients K.
        seed: the partition's seed.
        mode: ``"paper"`` deals the shuffled images of class after class in turn, so that sizes and class
            counts differ by one image at most. ``"authors"`` replays the released code: the legacy NumPy
            stream 500 + seed, each class cut at floor(n cumsum(1/K)), whose rounding errors add up.

    Returns:
        One :class:`Shard` per client: disjoint positions in the given label vectors that cover them all.

    Raises:
        FedCoPLError: on bad labels or arguments, or when a client would get no training image.

    >>> iid_partition([0, 0, 1, 1], [0, 1], n_clients=2)
    [Shard(2 train, 1 test), Shard(2 train, 1 test)]

    Shown in notebook ``fedcopl_supp_fig3``.
    """
    classes = checked_classes(train_labels, test_labels, n_clients)
    stream = random_stream(seed, mode, "iid", len(classes))
    train, test = Piles(n_clients, classes.n_train), Piles(n_clients, classes.n_test)
    for class_train, class_test in zip(classes.train, classes.test, strict=True):
        for piles, images in ((train, class_train), (test, class_test)):
            piles.deal(_shuffled(images, stream), _counts(piles, len(images), mode))
    if not train.sizes.all():
        raise FedCoPLError(
            f"n_clients={n_clients} in mode {mode!r} leaves {int((train.sizes == 0).sum())} of them without "
            "a training image; choose fewer clients or mode='paper'"
        )
    return shards_in_order(train, test) if mode == "authors" else sorted_shards(train, test)


def _counts(piles: Piles, n_images: int, mode: Mode) -> Indices:
    n_clients = len(piles.sizes)
    if mode == "authors":
        return floor_counts(np.repeat(1 / n_clients, n_clients), n_images)
    # In turn: whoever follows the client that got the last image of the class before comes first.
    first = int(piles.sizes.sum()) % n_clients
    turns = (np.arange(n_clients) - first) % n_clients
    return n_images // n_clients + (turns < n_images % n_clients).astype(np.int64)


def _shuffled(images: Indices, stream: Stream) -> Indices:
    return np.asarray(stream.permutation(images), dtype=np.int64)
