"""FedCoPL's partitions: label skew by Dirichlet draws, label skew by quantity, and an even split."""

from typing import TypeAlias

import numpy as np

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.data._shard import (
    ClassOrder,
    DirichletTestSplit,
    Indices,
    Labels,
    Minimums,
    Mode,
    Piles,
    QuantityTestSplit,
    Shard,
    Shares,
    Stream,
    dirichlet_shares,
    floor_counts,
    images_by_class,
    largest_remainder_counts,
    random_stream,
    shuffled,
)

BothLabels: TypeAlias = tuple[Labels, Labels]
Drawn: TypeAlias = tuple[list[Shard], int]  # an accepted draw, and how many were thrown away before it


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
    """Split the images among clients by one Dirichlet(beta) draw per class (FedCoPL, experimental setup).

    Class c goes to the clients in proportions p ~ Dir(beta 1_K). A client that already holds an even share of the
    training (or test) images gets no more of them, and the proportions of the others are scaled up. The whole draw
    is repeated until no client is below the minimum.

    Args:
        train_labels: class numbers of the training images, ``[n_train]``.
        test_labels: class numbers of the test images, ``[n_test]``.
        n_clients: number of clients K.
        beta: concentration, above 0; the smaller, the fewer classes a client sees.
        seed: the partition's seed.
        mode: ``"paper"`` rounds by largest remainder and takes its numbers from the seed. ``"authors"`` replays the
            released code: the legacy NumPy stream 500 + seed, so that seed 0 is their fixed partition, floors of
            cumulated shares with the rest of a class to the last client, and shards in the shuffled order.
        min_train: fewest training images of a client.
        min_test: fewest test images of a client; 0 accepts clients without any, as the released code does.
        test_split: ``"own_masks"`` fills the test shards up to their own even share; ``"same_proportions"`` shares
            out the test images of a class as its training images.
        max_redraws: draws to throw away before giving up.

    Returns:
        One :class:`Shard` per client: disjoint positions in the given label vectors that cover them all.

    Raises:
        FedCoPLError: on bad labels or arguments, or when no draw gives every client its minimum.

    >>> dirichlet_partition([0, 0, 0, 1, 1, 1], [0, 1], n_clients=2, beta=1.0, min_train=1)
    [Shard(3 train, 1 test), Shard(3 train, 1 test)]

    Shown in notebooks ``00_quickstart`` and ``fedcopl_supp_fig3``.
    """
    least = Minimums({"train": min_train, "test": min_test}, max_redraws)
    return draw_dirichlet((train_labels, test_labels), n_clients, beta, seed, mode, test_split, least)[0]


def draw_dirichlet(
    labels: BothLabels, n_clients: int, beta: int | float, seed: int, mode: Mode, test_split: str, least: Minimums
) -> Drawn:
    """:func:`dirichlet_partition` together with the number of draws that were thrown away."""
    classes = images_by_class(*labels, n_clients)
    if not (np.isfinite(beta) and beta > 0):
        raise FedCoPLError(f"beta={beta} is not a number above 0; choose for instance 0.1 (strong label skew)")
    check_choice("test_split", test_split, ("own_masks", "same_proportions"))
    least.check(n_clients, *classes)
    stream = _stream(seed, mode, "dirichlet", len(classes[0]))
    to_counts = floor_counts if mode == "authors" else largest_remainder_counts

    def draw() -> list[list[Indices]]:
        parts = [Piles(n_clients, by_class) for by_class in classes]
        for of_class in zip(*classes, strict=True):
            # Shuffled before the shares are drawn: the order in which the released code spends its stream.
            images = [shuffled(positions, stream) for positions in of_class]
            masks = [piles.open_for(some) for piles, some in zip(parts, images, strict=True)]
            masks[1] = masks[0] if test_split == "same_proportions" else masks[1]
            shares = dirichlet_shares("beta", float(beta), masks, stream)
            for piles, some, part_shares in zip(parts, images, shares, strict=True):
                piles.deal(some, to_counts(part_shares, len(some)))
        return [piles.lists() for piles in parts]

    remedy = f"choose fewer clients than {n_clients}, a larger beta than {beta} or smaller minimums"
    (train, test), redraws = least.redraw(draw, remedy)
    if mode == "authors":
        return [Shard(shuffled(a, stream), shuffled(b, stream)) for a, b in zip(train, test, strict=True)], redraws
    return _shards(train, test, mode), redraws


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
    class_order: ClassOrder = "drawn",
    max_redraws: int = 1000,
) -> list[Shard]:
    """Split the images so that every client sees a fixed share of the classes.

    FedCoPL, experimental setup, s = 0.2 C: a client may take ceil(fraction C) classes. Each class in turn goes to the
    first floor(fraction K) clients that still have room: all but the last of them draw how many of its n images they
    take, between n / (K owners) and n / owners; the last takes the rest.

    Arguments, result and errors are those of :func:`dirichlet_partition`, except for:

    Args:
        fraction: share of the classes that a client sees, above 0 and up to 1; the clients must have room for all.
        mode: ``"paper"`` takes shuffled images; at least one client owns each class. ``"authors"`` takes images in
            their order, as the released code.
        test_split: ``"independent"`` draws the numbers of test images separately, as the released code does, so that
            a client's class mix differs between training and test; ``"same_proportions"`` as there.
        class_order: ``"drawn"`` goes through the classes in an order from the seed, so that seeds differ in the classes
            that share a client; ``"by_number"`` gives the first client the first classes under every seed, as the
            released code and so mode ``"authors"`` always does.

    >>> quantity_partition([0] * 40 + [1] * 40, [0, 1], n_clients=2, fraction=0.5)
    [Shard(40 train, 1 test), Shard(40 train, 1 test)]

    Shown in notebook ``fedcopl_main_table1``.
    """
    least = Minimums({"train": min_train, "test": min_test}, max_redraws)
    labels = train_labels, test_labels
    return draw_quantity(labels, n_clients, fraction, seed, mode, test_split, least, class_order)[0]


def draw_quantity(
    labels: BothLabels,
    n_clients: int,
    fraction: int | float,
    seed: int,
    mode: Mode,
    test_split: str,
    least: Minimums,
    class_order: str,
) -> Drawn:
    """:func:`quantity_partition` together with the number of draws that were thrown away."""
    classes = images_by_class(*labels, n_clients)
    if not 0 < fraction <= 1:
        raise FedCoPLError(f"fraction={fraction} is not in (0, 1]; choose the share of classes, such as 0.2")
    check_choice("test_split", test_split, ("independent", "same_proportions"))
    check_choice("class_order", class_order, ("drawn", "by_number"))
    least.check(n_clients, *classes)
    stream = _stream(seed, mode, "quantity", len(classes[0]))
    owners = _owners(len(classes[0]), n_clients, float(fraction), mode)
    if class_order == "drawn" and mode == "paper":
        owners = [owners[place] for place in stream.permutation(len(owners))]
    idle = n_clients - len({client for chosen in owners for client in chosen})
    if idle and least.images["train"] > 0:
        raise FedCoPLError(
            f"n_clients={n_clients} with fraction={fraction} leaves {idle} of them without a class; choose "
            "fewer clients, or a number of clients of which the fraction is a whole number"
        )

    def draw() -> list[list[Indices]]:
        train, test = (Piles(n_clients, by_class) for by_class in classes)
        for chosen, *images in zip(owners, *classes, strict=True):
            if mode == "paper":
                images = [shuffled(positions, stream) for positions in images]
            counts = _drawn_counts(len(images[0]), chosen, n_clients, len(owners), stream)
            train.deal(images[0], counts)
            if test_split == "independent":
                counts = _drawn_counts(len(images[1]), chosen, n_clients, len(owners), stream)
            else:
                counts = largest_remainder_counts(_shares(counts, chosen), len(images[1]))
            test.deal(images[1], counts)
        return [train.lists(), test.lists()]

    (train, test), redraws = least.redraw(draw, f"choose fewer clients than {n_clients} or smaller minimums")
    return _shards(train, test, mode), redraws


def _owners(n_classes: int, n_clients: int, fraction: float, mode: Mode) -> list[list[int]]:
    """The clients that share each class."""
    if mode == "authors":
        # The released code's own products: a budget that is a hair above 3 admits a fourth class.
        budget = fraction * n_classes
        owners_per_class = int(n_clients / n_classes * budget)
    else:
        budget = int(np.ceil(round(fraction * n_classes, 9)))
        owners_per_class = max(int(round(fraction * n_clients, 9)), 1)
    if owners_per_class < 1:
        needed = int(np.ceil(1 / fraction))
        raise FedCoPLError(
            f"n_clients={n_clients} with fraction={fraction} leaves no client for a class; choose {needed} clients or "
            "more, or mode='paper'"
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
        room = [places - (client in chosen) for client, places in enumerate(room)]
        owners.append(chosen)
    return owners


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
        integers = stream.randint if isinstance(stream, np.random.RandomState) else stream.integers
        counts[chosen[:-1]] = integers(lowest, beyond, len(chosen) - 1)
    counts[chosen[-1]] = n_images - counts.sum()
    return counts


def _shares(counts: Indices, chosen: list[int]) -> Shares:
    """Each client's share of a class; an even one among its owners where they hold no image."""
    weights = counts if counts.any() else np.isin(np.arange(len(counts)), chosen)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def iid_partition(
    train_labels: Labels, test_labels: Labels, n_clients: int, seed: int = 0, mode: Mode = "paper"
) -> list[Shard]:
    """Split the images of every class evenly among the clients.

    Arguments, result and errors are those of :func:`dirichlet_partition`; no client may be left without a training
    image.

    Args:
        mode: ``"paper"`` deals the shuffled images of class after class in turn, so that sizes and class counts differ
            by one image at most. ``"authors"`` cuts each class at floor(n cumsum(1/K)), whose rounding errors add up.

    >>> iid_partition([0, 0, 1, 1], [0, 1], n_clients=2)
    [Shard(2 train, 1 test), Shard(2 train, 1 test)]

    Shown in notebook ``fedcopl_supp_fig3``.
    """
    classes = images_by_class(train_labels, test_labels, n_clients)
    stream = _stream(seed, mode, "iid", len(classes[0]))
    parts = [Piles(n_clients, by_class) for by_class in classes]
    for of_class in zip(*classes, strict=True):
        for piles, images in zip(parts, of_class, strict=True):
            piles.deal(shuffled(images, stream), _even_counts(piles, len(images), mode))
    if not parts[0].sizes.all():
        raise FedCoPLError(
            f"n_clients={n_clients} in mode {mode!r} leaves {int((parts[0].sizes == 0).sum())} of them without "
            "a training image; choose fewer clients or mode='paper'"
        )
    return _shards(parts[0].lists(), parts[1].lists(), mode)


def _even_counts(piles: Piles, n_images: int, mode: Mode) -> Indices:
    n_clients = len(piles.sizes)
    if mode == "authors":
        return floor_counts(np.repeat(1 / n_clients, n_clients), n_images)
    # In turn: the client after the one that got the last image of the class before comes first.
    turns = (np.arange(n_clients) - int(piles.sizes.sum()) % n_clients) % n_clients
    return n_images // n_clients + (turns < n_images % n_clients).astype(np.int64)


def _stream(seed: int, mode: Mode, scheme: str, n_classes: int) -> Stream:
    stream = random_stream(seed, mode, 500, scheme)  # the released code's seed, whatever the trial's is
    if mode == "authors":  # it has spent one permutation of the classes before it partitions
        stream.choice(n_classes, n_classes, replace=False)
    return stream


def _shards(train: list[Indices], test: list[Indices], mode: Mode) -> list[Shard]:
    """Shards with rising positions; in mode ``"authors"`` in the order dealt."""
    order = np.asarray if mode == "authors" else np.sort
    return [Shard(order(a), order(b)) for a, b in zip(train, test, strict=True)]
