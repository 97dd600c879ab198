"""SAGE's partition: a few labelled and many unlabelled images per client, the two parts dealt by separate draws."""

from collections.abc import Callable

import numpy as np

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.data._shard import (
    ByClass,
    Indices,
    Labels,
    Minimums,
    Mode,
    Piles,
    SageScheme,
    Shard,
    Stream,
    check_whole,
    dirichlet_shares,
    floor_counts,
    images_by_class,
    largest_remainder_counts,
    random_stream,
    shuffled,
)

# The released code seeds NumPy with 7 for the labelled images, and both partitions with 0.
AUTHORS_LABEL_SEED = 7
AUTHORS_PARTITION_SEED = 0
_GROUP = 2  # clients that share one chunk of the data under "pairwise_balanced"


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

    SAGE, setting and supplement E: the two parts follow different class mixes on one client. The labelled images join
    a client's unlabelled pool without their labels, so that ``Shard.train`` holds both.

    Args:
        train_labels: class numbers of the training images, ``[n_train]``.
        n_clients: number of clients K.
        alpha: Dirichlet concentration, above 0; None with the scheme ``"iid"``.
        label_fraction: share of every class that is labelled, above 0 and below 1.
        seed: the partition's seed.
        mode: ``"paper"`` takes its numbers from the seed. ``"authors"`` replays the released code: labelled images
            from the legacy stream 7 + seed, each part from its own legacy stream 0 + seed, always by
            ``"pairwise_balanced"`` (or ``"iid"``, which the released code means but cannot run).
        scheme: ``"dirichlet"``: per class one draw over all clients. ``"pairwise_balanced"``: shuffled chunks, each
            shared by two clients by a draw over the two, and all lists cut again into equal parts. ``"iid"``: every
            class evenly.
        labelled_per_class: labelled images of every class instead of a share, as the released code counts.
        min_labelled: fewest labelled images of a client.
        min_unlabelled: fewest unlabelled images of a client.
        max_redraws: draws to throw away before giving up.

    Returns:
        One :class:`Shard` per client, without test images: SAGE tests one model on the whole test set.

    Raises:
        FedCoPLError: on bad labels or arguments, or when no draw gives every client its minimum.

    >>> sage_partition([0, 1] * 100, n_clients=2, alpha=1.0)
    [Shard(85 train, 15 labelled, 0 test), Shard(115 train, 5 labelled, 0 test)]

    Shown in notebook ``data_label_skew``.
    """
    classes = images_by_class(train_labels, [0], n_clients)[0]
    _check(alpha, label_fraction, scheme)
    chosen = _labelled_first(classes, float(label_fraction), labelled_per_class, seed, mode)
    scheme = "pairwise_balanced" if mode == "authors" and scheme == "dirichlet" else scheme
    parts = []
    for part, minimum, by_class in (
        ("labelled", min_labelled, [images[:count] for images, count in chosen]),
        ("unlabelled", min_unlabelled, [images[count:] for images, count in chosen]),
    ):
        minimums = Minimums({part: minimum}, max_redraws)
        minimums.check(n_clients, by_class, hint=f" or another label_fraction than {label_fraction}")
        stream = random_stream(seed, mode, AUTHORS_PARTITION_SEED, "sage", part)
        parts.append(_dealt(by_class, n_clients, alpha, scheme, stream, minimums))
    order = np.asarray if mode == "authors" else np.sort
    nothing = np.zeros(0, dtype=np.int64)
    return [Shard(order(np.concatenate([b, a])), nothing, order(a)) for a, b in zip(*parts, strict=True)]


def _check(alpha: int | float | None, label_fraction: int | float, scheme: str) -> None:
    check_choice("scheme", scheme, ("dirichlet", "pairwise_balanced", "iid"))
    if scheme == "iid":
        if alpha is not None:
            raise FedCoPLError(f"alpha={alpha} has no meaning for the scheme 'iid'; leave it out")
    elif alpha is None or not (np.isfinite(alpha) and alpha > 0):
        raise FedCoPLError(f"alpha={alpha} is not a number above 0; choose for instance 0.1 (strong label skew)")
    if not 0 < label_fraction < 1:
        raise FedCoPLError(f"label_fraction={label_fraction} is not between 0 and 1; choose for instance 0.1")


def _labelled_first(
    classes: ByClass, fraction: float, per_class: int | None, seed: int, mode: str
) -> list[tuple[Indices, int]]:
    """Every class shuffled, with the number of its first images that are labelled."""
    stream = random_stream(seed, mode, AUTHORS_LABEL_SEED, "sage", "labels")
    if per_class is not None:
        check_whole("labelled_per_class", per_class)
    chosen = []
    for label, images in enumerate(classes):
        count = max(round(fraction * len(images)), 1) if per_class is None else per_class
        if not 0 < count < len(images):
            raise FedCoPLError(
                f"{count} labelled images of class {label}, which has {len(images)}, leave none on one side; choose "
                "another label_fraction or labelled_per_class"
            )
        chosen.append((shuffled(images, stream), count))
    return chosen


def _dealt(
    by_class: ByClass, n_clients: int, alpha: int | float | None, scheme: str, stream: Stream, minimums: Minimums
) -> list[Indices]:
    """The images of every client."""
    if scheme == "iid":  # in turn, class after class, so that sizes differ by one image at most

        def draw() -> list[list[Indices]]:
            every = np.concatenate([shuffled(images, stream) for images in by_class])
            return [[every[client::n_clients] for client in range(n_clients)]]
    else:
        assert alpha is not None
        if scheme == "pairwise_balanced":
            return _pairwise(by_class, n_clients, float(alpha), stream, minimums)
        draw = _class_draws(by_class, n_clients, float(alpha), stream, masked=False)
    return minimums.redraw(draw, f"choose fewer clients than {n_clients} or a larger alpha")[0][0]


def _class_draws(
    by_class: ByClass, n_clients: int, alpha: float, stream: Stream, masked: bool
) -> Callable[[], list[list[Indices]]]:
    """One draw per class; ``masked``: clients with an even share get no more, and shares are cut at their floors."""

    def draw() -> list[list[Indices]]:
        piles, everyone = Piles(n_clients, by_class), np.ones(n_clients, dtype=np.bool_)
        for images in by_class:
            if masked:
                mask = piles.below_even_share if piles.below_even_share.any() else everyone
                counts = floor_counts(dirichlet_shares("alpha", alpha, [mask], stream)[0], len(images))
            else:
                counts = largest_remainder_counts(stream.dirichlet(np.full(n_clients, alpha)), len(images))
            piles.deal(images, counts)
        return [piles.lists()]

    return draw


def _pairwise(by_class: ByClass, n_clients: int, alpha: float, stream: Stream, minimums: Minimums) -> list[Indices]:
    """Every two clients share a shuffled chunk by draws over the two; all lists are then cut into equal parts."""
    images = np.concatenate(list(by_class))
    labels = np.repeat(np.arange(len(by_class)), [len(of_class) for of_class in by_class])
    order = np.arange(len(images))
    stream.shuffle(order)
    size = int(_GROUP / n_clients * len(images))
    lists: list[Indices] = []
    for first in range(0, n_clients, _GROUP):
        start, group = first // _GROUP * size, min(_GROUP, n_clients - first)
        chunk = order[start:] if first + _GROUP >= n_clients else order[start : start + size]
        of_class = [images[chunk[labels[chunk] == label]] for label in range(len(by_class))]
        half = Minimums({"chunk": int(0.5 * len(chunk) / group)}, minimums.max_redraws)  # of an even share
        draw = _class_draws(of_class, group, alpha, stream, masked=True)
        lists += half.redraw(draw, "choose a larger alpha")[0][0]
    equal = np.array_split(np.concatenate(lists), n_clients)  # the first ones get what is left over
    ((part, minimum),) = minimums.images.items()
    if len(equal[-1]) < minimum:
        raise FedCoPLError(f"{n_clients} clients get {len(equal[-1])} {part} images each; choose fewer clients")
    return equal
