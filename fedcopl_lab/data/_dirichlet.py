"""Label skew by Dirichlet draws: each class is shared out among the clients at random."""

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

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
    floor_counts,
    largest_remainder_counts,
    random_stream,
    redraw_until,
    sorted_shards,
)

if TYPE_CHECKING:
    DirichletTestSplit: TypeAlias = Literal["own_masks", "same_proportions"]
else:
    DirichletTestSplit = str  # as Mode

# Draws of one class before its shares are given up as numerically zero.
_MAX_SHARE_DRAWS = 1000


def dirichlet_partition(
    train_labels: Labels,
    test_labels: Labels,
    n_clients: int,
    beta: int | float,
    seed: int = 0,
    mode: Mode = "paper",
    *,
    min_train: int = 10,
    min_test: int = 0,
    test_split: DirichletTestSplit = "own_masks",
    max_redraws: int = 1000,
) -> list[Shard]:
    """Split the images among clients by one Dirichlet(beta) draw per class.

    FedCoPL, experimental setup: class c goes to the clients in proportions p ~ Dir(beta 1_K). A client that
    already holds an even share of the training (or test) images gets no more of them, and the proportions
    of the others are scaled up. The whole draw is repeated until no client is below the minimum.

    Args:
        train_labels: class numbers of the training images, ``[n_train]``.
        test_labels: class numbers of the test images, ``[n_test]``.
        n_clients: number of clients K.
        beta: concentration, above 0; the smaller, the fewer classes a client sees.
        seed: the partition's seed.
        mode: ``"paper"`` rounds by largest remainder and takes its numbers from the seed. ``"authors"``
            replays the released code: the legacy NumPy stream 500 + seed, so that seed 0 is their fixed
            partition, floors of cumulated shares with the rest of a class to the last client, and shards
            in the shuffled order.
        min_train: fewest training images of a client.
        min_test: fewest test images of a client; 0 accepts clients without any, as the released code does.
        test_split: ``"own_masks"`` fills the test shards up to their own even share; ``"same_proportions"``
            shares out the test images of a class as its training images.
        max_redraws: draws to throw away before giving up.

    Returns:
        One :class:`Shard` per client: disjoint positions in the given label vectors that cover them all.

    Raises:
        FedCoPLError: on bad labels or arguments, or when no draw gives every client its minimum.

    >>> dirichlet_partition([0, 0, 0, 1, 1, 1], [0, 1], n_clients=2, beta=1.0, min_train=1)
    [Shard(3 train, 1 test), Shard(3 train, 1 test)]

    Shown in notebooks ``00_quickstart`` and ``fedcopl_supp_fig3``.
    """
    return draw_dirichlet(
        train_labels,
        test_labels,
        n_clients,
        beta,
        seed,
        mode,
        min_train=min_train,
        min_test=min_test,
        test_split=test_split,
        max_redraws=max_redraws,
    ).shards


def draw_dirichlet(
    train_labels: Labels,
    test_labels: Labels,
    n_clients: int,
    beta: int | float,
    seed: int,
    mode: Mode,
    *,
    min_train: int,
    min_test: int,
    test_split: str,
    max_redraws: int,
) -> Drawn:
    """:func:`dirichlet_partition` together with the number of draws that were thrown away."""
    classes = checked_classes(train_labels, test_labels, n_clients)
    if not (np.isfinite(beta) and beta > 0):
        raise FedCoPLError(f"beta={beta} is not a number above 0; choose for instance 0.1 (strong label skew)")
    if test_split not in ("own_masks", "same_proportions"):
        raise FedCoPLError(f"test_split={test_split!r} is unknown; choose 'own_masks' or 'same_proportions'")
    check_minimums(classes, n_clients, min_train, min_test)
    stream = random_stream(seed, mode, "dirichlet", len(classes))
    return redraw_until(
        partial(_draw, classes, n_clients, float(beta), stream, mode, test_split),
        partial(_shuffled_shards, stream) if mode == "authors" else sorted_shards,
        min_train,
        min_test,
        max_redraws,
        f"choose fewer clients than {n_clients}, a larger beta than {beta} or smaller minimums",
    )


def _draw(
    classes: Classes, n_clients: int, beta: float, stream: Stream, mode: Mode, test_split: str
) -> tuple[Piles, Piles]:
    to_counts = floor_counts if mode == "authors" else largest_remainder_counts
    train, test = Piles(n_clients, classes.n_train), Piles(n_clients, classes.n_test)
    for class_train, class_test in zip(classes.train, classes.test, strict=True):
        # Shuffled before the shares are drawn: the order in which the released code spends its stream.
        train_images, test_images = _shuffled(class_train, stream), _shuffled(class_test, stream)
        train_open = _open_clients(train, train_images)
        test_open = train_open if test_split == "same_proportions" else _open_clients(test, test_images)
        train_shares, test_shares = _drawn_shares(beta, train_open, test_open, stream)
        train.deal(train_images, to_counts(train_shares, len(train_images)))
        test.deal(test_images, to_counts(test_shares, len(test_images)))
    return train, test


def _open_clients(piles: Piles, images: Indices) -> npt.NDArray[np.bool_]:
    # Without images to deal everybody may be full; any shares of nothing will do.
    return piles.below_even_share if len(images) else np.ones(len(piles.sizes), dtype=np.bool_)


def _drawn_shares(
    beta: float, train_open: npt.NDArray[np.bool_], test_open: npt.NDArray[np.bool_], stream: Stream
) -> tuple[Shares, Shares]:
    """One Dirichlet draw, scaled to the clients that are open for training and for test images.

    At small beta a draw can put all its mass, to the last bit, on full clients. It is then drawn again,
    which is the limit of scaling up what is left; the released code would divide zero by zero.
    """
    for _ in range(_MAX_SHARE_DRAWS):
        shares = stream.dirichlet(np.repeat(float(beta), len(train_open)))
        train_shares, test_shares = shares * train_open, shares * test_open
        train_sum, test_sum = train_shares.sum(), test_shares.sum()
        if train_sum > 0 and test_sum > 0:
            return train_shares / train_sum, test_shares / test_sum
    raise FedCoPLError(
        f"beta={beta} is so small that {_MAX_SHARE_DRAWS} draws of the clients' shares were all zero; "
        "choose a larger beta"
    )


def _shuffled(images: Indices, stream: Stream) -> Indices:
    copy = images.copy()
    stream.shuffle(copy)
    return copy


def _shuffled_shards(stream: Stream, train: Piles, test: Piles) -> list[Shard]:
    pairs = zip(train.lists(), test.lists(), strict=True)
    return [Shard(_shuffled(train_list, stream), _shuffled(test_list, stream)) for train_list, test_list in pairs]
