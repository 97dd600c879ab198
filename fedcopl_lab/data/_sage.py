"""SAGE's clients: a few labelled and many unlabelled images each, the two parts shared out by separate draws."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._shards import (
    Indices,
    Labels,
    Mode,
    Piles,
    Shard,
    Stream,
    check_n_clients,
    checked_classes,
    floor_counts,
    largest_remainder_counts,
)
from fedcopl_lab.seeding import numpy_generator

if TYPE_CHECKING:
    SageScheme: TypeAlias = Literal["dirichlet", "pairwise_balanced", "iid"]
else:
    SageScheme = str  # as Mode

# The released code seeds NumPy with 7 for the labelled images, and both partitions with 0.
AUTHORS_LABEL_SEED = 7
AUTHORS_PARTITION_SEED = 0
_GROUP = 2  # clients that share one chunk of the data under "pairwise_balanced"
_MAX_SHARE_DRAWS = 1000

ByClass: TypeAlias = Sequence[Indices]


def sage_partition(
    train_labels: Labels,
    n_clients: int = 20,
    alpha: int | float | None = 0.1,
    label_fraction: int | float = 0.1,
    seed: int = 0,
    mode: Mode = "paper",
    *,
    scheme: SageScheme = "dirichlet",
    labelled_per_class: int | None = None,
    min_labelled: int = 1,
    min_unlabelled: int = 10,
    max_redraws: int = 1000,
) -> list[Shard]:
    """Choose the labelled images and split them, and the others, among clients by separate draws.

    SAGE, setting and supplement E: the two parts follow different class mixes on one client. The labelled
    images join a client's unlabelled pool without their labels, so that ``Shard.train`` holds both.

    Args:
        train_labels: class numbers of the training images, ``[n_train]``.
        n_clients: number of clients K.
        alpha: Dirichlet concentration, above 0; None with the scheme ``"iid"``.
        label_fraction: share of every class that is labelled, above 0 and below 1.
        seed: the partition's seed.
        mode: ``"paper"`` takes its numbers from the seed. ``"authors"`` replays the released code: labelled
            images from the legacy stream 7 + seed, each part from its own legacy stream 0 + seed, always by
            ``"pairwise_balanced"`` (or ``"iid"``, which the released code means but cannot run).
        scheme: ``"dirichlet"``: per class one draw over all clients. ``"pairwise_balanced"``: shuffled chunks,
            each shared by two clients by a draw over the two, cut at equal sizes, and all lists re-cut into
            equal parts. ``"iid"``: every class evenly.
        labelled_per_class: labelled images of every class instead of a share, as the released code counts.
        min_labelled: fewest labelled images of a client.
        min_unlabelled: fewest unlabelled images of a client.
        max_redraws: draws to throw away before giving up.

    Returns:
        One :class:`Shard` per client, without test images: SAGE tests one model on the whole test set.

    Raises:
        FedCoPLError: on bad labels or arguments, or when no draw gives every client its minimum.

    >>> sage_partition([0, 1] * 100, n_clients=2, alpha=1.0)
    [Shard(103 train, 10 labelled, 0 test), Shard(97 train, 10 labelled, 0 test)]

    Shown in notebook ``data_label_skew``.
    """
    classes = checked_classes(train_labels, [0], n_clients).train
    _check(alpha, label_fraction, scheme, mode, n_clients)
    chosen = _labelled(classes, float(label_fraction), labelled_per_class, seed, mode)
    parts = []
    for what, by_class, minimum in (
        ("labelled", [images[:count] for images, count in chosen], min_labelled),
        ("unlabelled", [images[count:] for images, count in chosen], min_unlabelled),
    ):
        n_images = sum(map(len, by_class))
        if n_clients * minimum > n_images:
            raise FedCoPLError(
                f"n_clients={n_clients} with min_{what}={minimum} needs {n_clients * minimum} {what} images, but "
                f"there are {n_images}; choose fewer clients or another label_fraction than {label_fraction}"
            )
        stream = _stream(seed, mode, what)
        used = "pairwise_balanced" if mode == "authors" and scheme == "dirichlet" else scheme
        parts.append(_split(by_class, n_clients, alpha, used, stream, minimum, max_redraws, what))
    nothing = np.zeros(0, dtype=np.int64)
    shards = []
    for labelled, unlabelled in zip(*parts, strict=True):
        pool = np.concatenate([unlabelled, labelled])
        in_order = mode == "authors"
        shards.append(Shard(pool if in_order else np.sort(pool), nothing, labelled if in_order else np.sort(labelled)))
    return shards


def _check(alpha: int | float | None, label_fraction: int | float, scheme: str, mode: str, n_clients: int) -> None:
    check_n_clients(n_clients)
    if mode not in ("paper", "authors"):
        raise FedCoPLError(f"mode={mode!r} is unknown; choose 'paper' or 'authors'")
    if scheme not in ("dirichlet", "pairwise_balanced", "iid"):
        raise FedCoPLError(f"scheme={scheme!r} is unknown; choose 'dirichlet', 'pairwise_balanced' or 'iid'")
    if scheme == "iid":
        if alpha is not None:
            raise FedCoPLError(f"alpha={alpha} has no meaning for the scheme 'iid'; leave it out")
    elif alpha is None or not (np.isfinite(alpha) and alpha > 0):
        raise FedCoPLError(f"alpha={alpha} is not a number above 0; choose for instance 0.1 (strong label skew)")
    if not 0 < label_fraction < 1:
        raise FedCoPLError(f"label_fraction={label_fraction} is not between 0 and 1; choose for instance 0.1")


def _stream(seed: int, mode: str, what: str) -> Stream:
    if mode == "paper":
        return numpy_generator(seed, "partition", "sage", what)
    return _legacy(AUTHORS_PARTITION_SEED, seed)


def _legacy(first: int, seed: int) -> np.random.RandomState:
    if not 0 <= seed < 2**32 - first:
        raise FedCoPLError(
            f"seed={seed} does not fit the 32-bit legacy stream; choose 0 (the authors' own) or another "
            f"seed below {2**32 - first}"
        )
    return np.random.RandomState(first + seed)


def _labelled(
    classes: ByClass, fraction: float, per_class: int | None, seed: int, mode: str
) -> list[tuple[Indices, int]]:
    """Every class shuffled, with the number of its first images that are labelled."""
    stream = _legacy(AUTHORS_LABEL_SEED, seed) if mode == "authors" else _stream(seed, mode, "labels")
    chosen = []
    for label, images in enumerate(classes):
        count = max(round(fraction * len(images)), 1) if per_class is None else per_class
        if not 0 < count < len(images):
            raise FedCoPLError(
                f"{count} labelled images of class {label}, which has {len(images)}, leave none on one side; choose "
                "another label_fraction or labelled_per_class"
            )
        chosen.append((np.asarray(stream.permutation(images), dtype=np.int64), count))
    return chosen


def _split(
    by_class: ByClass, n_clients: int, alpha: int | float | None, scheme: str, stream: Stream, minimum: int,
    max_redraws: int, what: str,
) -> list[Indices]:  # fmt: skip
    if scheme == "pairwise_balanced":
        assert alpha is not None
        lists = _recut(_pairwise(by_class, n_clients, float(alpha), stream, max_redraws), n_clients)
        if min(map(len, lists)) < minimum:
            raise FedCoPLError(
                f"{n_clients} clients get {min(map(len, lists))} {what} images each; choose fewer clients"
            )
        return lists

    def draw() -> list[Indices]:
        if scheme == "iid":
            return _even(by_class, n_clients, stream)
        piles = Piles(n_clients, sum(map(len, by_class)))
        for images in by_class:
            shares = stream.dirichlet(np.full(n_clients, alpha, dtype=np.float64))
            piles.deal(images, largest_remainder_counts(shares, len(images)))
        return piles.lists()

    return _until(
        draw, minimum, max_redraws, f"{what} images", f"choose fewer clients than {n_clients} or a larger alpha"
    )


def _even(by_class: ByClass, n_clients: int, stream: Stream) -> list[Indices]:
    """Dealt in turn, class after class, so that sizes differ by one image at most."""
    every = np.concatenate([stream.permutation(images) for images in by_class])
    return [np.asarray(every[client::n_clients], dtype=np.int64) for client in range(n_clients)]


def _pairwise(by_class: ByClass, n_clients: int, alpha: float, stream: Stream, max_redraws: int) -> list[Indices]:
    """Every two clients share a shuffled chunk of the images by draws over the two of them."""
    images = np.concatenate(list(by_class))
    labels = np.repeat(np.arange(len(by_class)), [len(of_class) for of_class in by_class])
    order = np.arange(len(images))
    stream.shuffle(order)
    size = int(_GROUP / n_clients * len(images))
    lists: list[Indices] = []
    for first in range(0, n_clients, _GROUP):
        is_last = first + _GROUP >= n_clients
        start = first // _GROUP * size
        chunk = order[start:] if is_last else order[start : start + size]
        group = min(_GROUP, n_clients - first)
        of_class = [images[chunk[labels[chunk] == label]] for label in range(len(by_class))]
        lists += _shared(of_class, group, alpha, stream, max_redraws)
    return lists


def _shared(of_class: ByClass, group: int, alpha: float, stream: Stream, max_redraws: int) -> list[Indices]:
    """One chunk by class, shared by a few clients, each of which gets half its even share or more."""
    n_images = sum(map(len, of_class))

    def draw() -> list[Indices]:
        piles = Piles(group, n_images)
        for images in of_class:
            shares = _open_shares(alpha, piles.below_even_share, stream)
            piles.deal(images, floor_counts(shares, len(images)))
        return piles.lists()

    return _until(draw, int(0.5 * n_images / group), max_redraws, "images of their chunk", "choose a larger alpha")


def _open_shares(alpha: float, is_open: npt.NDArray[np.bool_], stream: Stream) -> npt.NDArray[np.float64]:
    for _ in range(_MAX_SHARE_DRAWS):
        shares = stream.dirichlet(np.repeat(alpha, len(is_open))) * (is_open if is_open.any() else 1.0)
        if shares.sum() > 0:  # the released code would divide zero by zero
            return np.asarray(shares / shares.sum(), dtype=np.float64)
    raise FedCoPLError(
        f"alpha={alpha} is so small that {_MAX_SHARE_DRAWS} draws of the clients' shares were all zero; "
        "choose a larger alpha"
    )


def _recut(lists: list[Indices], n_clients: int) -> list[Indices]:
    """All lists one after the other, cut into parts of equal size; the first ones get what is left over."""
    return np.array_split(np.concatenate(lists), n_clients)


def _until(draw: Callable[[], list[Indices]], minimum: int, max_redraws: int, what: str, remedy: str) -> list[Indices]:
    if max_redraws < 0:
        raise FedCoPLError(f"max_redraws={max_redraws} is negative; choose 0 or more")
    best = 0
    for _ in range(max_redraws + 1):
        lists = draw()
        smallest = min(map(len, lists))
        if smallest >= minimum:
            return lists
        best = max(best, smallest)
    raise FedCoPLError(
        f"no draw of {max_redraws + 1} gave all {len(lists)} clients {minimum} {what} (the smallest had at most "
        f"{best}); {remedy}"
    )
