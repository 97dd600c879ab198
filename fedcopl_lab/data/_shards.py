"""What every partition shares: labels checked, images of a class dealt to clients, draws repeated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.seeding import numpy_generator

Indices: TypeAlias = npt.NDArray[np.int64]
Shares: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = Sequence[Any] | npt.NDArray[Any] | Tensor
Stream: TypeAlias = np.random.Generator | np.random.RandomState

if TYPE_CHECKING:
    Mode: TypeAlias = Literal["paper", "authors"]
else:
    # At run time a wrong word is answered by our own message, also where a type checker watches the calls.
    Mode = str

# The released code seeds NumPy with 500 whatever the trial seed is (spec: one partition for all trials).
AUTHORS_SEED = 500


@dataclass(frozen=True, eq=False)
class Shard:
    """One client's images, as read-only positions (int64).

    Attributes:
        train: positions of its training images.
        test: positions of its test images.
        labelled: positions of the training images whose labels the client knows, under SAGE; else None.

    From ``dirichlet_partition`` and its kind the positions count within the label vectors that were given;
    inside a ``Federation`` they are positions in the whole data set. Make a tensor of them with
    ``torch.tensor(shard.train)``, which copies; PyTorch warns when it indexes by a read-only array.
    """

    train: Indices
    test: Indices
    labelled: Indices | None = None

    def __post_init__(self) -> None:
        for part in ("train", "test", "labelled"):
            if getattr(self, part) is not None:
                positions = np.array(getattr(self, part), dtype=np.int64)
                positions.setflags(write=False)
                object.__setattr__(self, part, positions)

    @property
    def unlabelled(self) -> Indices:
        """Positions of the training images without a label, in their order; all of them but under SAGE."""
        if self.labelled is None:
            return self.train
        return self.train[~np.isin(self.train, self.labelled)]

    def __repr__(self) -> str:
        labelled = "" if self.labelled is None else f" {len(self.labelled)} labelled,"
        return f"Shard({len(self.train)} train,{labelled} {len(self.test)} test)"


@dataclass(frozen=True, eq=False)
class Classes:
    """Positions of the images of every class, in rising order.

    Attributes:
        train: one index array per class.
        test: one index array per class.
    """

    train: tuple[Indices, ...]
    test: tuple[Indices, ...]

    @property
    def n_train(self) -> int:
        """Number of training images."""
        return sum(map(len, self.train))

    @property
    def n_test(self) -> int:
        """Number of test images."""
        return sum(map(len, self.test))

    def __len__(self) -> int:
        return len(self.train)


def checked_classes(train_labels: Labels, test_labels: Labels, n_clients: int) -> Classes:
    """The images of every class, after a check of the labels and of the number of clients."""
    train = _checked_labels(train_labels, "train_labels")
    test = _checked_labels(test_labels, "test_labels")
    check_n_clients(n_clients)
    if n_clients > len(train):
        raise FedCoPLError(
            f"n_clients={n_clients} is more than the {len(train)} training images; choose at most {len(train)} clients"
        )
    n_classes = int(max(train.max(), test.max())) + 1
    return Classes(*(tuple(np.flatnonzero(labels == c) for c in range(n_classes)) for labels in (train, test)))


def check_n_clients(n_clients: int) -> None:
    """Refuse fewer than one client."""
    if n_clients < 1:
        raise FedCoPLError(f"n_clients={n_clients} is below 1; choose a whole number of clients of 1 or more")


def check_minimums(classes: Classes, n_clients: int, min_train: int, min_test: int) -> None:
    """Refuse at once what no draw can give every client."""
    for part, minimum, available in (("train", min_train, classes.n_train), ("test", min_test, classes.n_test)):
        if minimum < 0:
            raise FedCoPLError(f"min_{part}={minimum} is negative; choose 0 or more images per client")
        if n_clients * minimum > available:
            raise FedCoPLError(
                f"n_clients={n_clients} with min_{part}={minimum} needs {n_clients * minimum} {part} images, "
                f"but there are {available}; choose at most {available // minimum} clients "
                f"or a smaller min_{part}"
            )


def random_stream(seed: int, mode: str, scheme: str, n_classes: int) -> Stream:
    """The random numbers of one partition.

    ``"paper"`` derives a Generator from the seed; ``"authors"`` replays the legacy stream of the released
    code, which is seeded with 500 and has spent one permutation of the classes before it partitions.
    """
    if mode == "paper":
        return numpy_generator(seed, "partition", scheme)
    if mode != "authors":
        raise FedCoPLError(f"mode={mode!r} is unknown; choose 'paper' or 'authors'")
    if not 0 <= seed < 2**32 - AUTHORS_SEED:
        raise FedCoPLError(
            f"seed={seed} does not fit the 32-bit legacy stream; choose 0 (the authors' own) or another "
            f"seed below {2**32 - AUTHORS_SEED}"
        )
    stream = np.random.RandomState(AUTHORS_SEED + seed)
    stream.choice(n_classes, n_classes, replace=False)
    return stream


def floor_counts(shares: Shares, n_images: int) -> Indices:
    """Cut ``n_images`` at the floors of the summed shares; what is left over goes to the last client."""
    cuts = (np.cumsum(shares) * n_images).astype(np.int64)[:-1]
    return np.diff(cuts, prepend=0, append=n_images)


def largest_remainder_counts(shares: Shares, n_images: int) -> Indices:
    """Whole numbers that sum to ``n_images``, each the floor or the ceiling of its share of them."""
    exact = shares * n_images
    counts = np.floor(exact).astype(np.int64)
    fractions = exact - counts
    largest_first = np.argsort(-fractions, kind="stable")
    counts[largest_first[: n_images - int(counts.sum())]] += 1
    return counts


class Piles:
    """The growing lists of images of all clients, for one part of the data."""

    def __init__(self, n_clients: int, n_images: int) -> None:
        self.sizes = np.zeros(n_clients, dtype=np.int64)
        self._n_images = n_images
        self._slices: list[list[Indices]] = [[] for _ in range(n_clients)]

    @property
    def below_even_share(self) -> npt.NDArray[np.bool_]:
        """Which clients hold fewer images than an even split would give them."""
        return self.sizes * len(self.sizes) < self._n_images

    def deal(self, images: Indices, counts: Indices) -> None:
        """Hand the next ``counts[k]`` images to client k."""
        for client, images_of_client in enumerate(np.split(images, np.cumsum(counts)[:-1])):
            self._slices[client].append(images_of_client)
        self.sizes += counts

    def lists(self) -> list[Indices]:
        """One index array per client, in the order dealt."""
        return [np.concatenate(slices) for slices in self._slices]


def sorted_shards(train: Piles, test: Piles) -> list[Shard]:
    """Shards with rising positions."""
    pairs = zip(train.lists(), test.lists(), strict=True)
    return [Shard(np.sort(train_positions), np.sort(test_positions)) for train_positions, test_positions in pairs]


def shards_in_order(train: Piles, test: Piles) -> list[Shard]:
    """Shards with positions in the order dealt."""
    return [Shard(*pair) for pair in zip(train.lists(), test.lists(), strict=True)]


@dataclass(frozen=True, eq=False)
class Drawn:
    """An accepted draw.

    Attributes:
        shards: one per client.
        redraws: how many draws were thrown away before it.
    """

    shards: list[Shard]
    redraws: int


def redraw_until(
    draw: Callable[[], tuple[Piles, Piles]],
    finish: Callable[[Piles, Piles], list[Shard]],
    min_train: int,
    min_test: int,
    max_redraws: int,
    remedy: str,
) -> Drawn:
    """Draw until every client holds its minimum of training and of test images.

    Args:
        draw: one draw of the training and test piles; it advances its own random stream.
        finish: makes shards of the accepted piles.
        min_train: fewest training images of a client.
        min_test: fewest test images of a client.
        max_redraws: draws to throw away before giving up.
        remedy: what to change when no draw is accepted.
    """
    if max_redraws < 0:
        raise FedCoPLError(f"max_redraws={max_redraws} is negative; choose 0 or more")
    best_train = best_test = 0
    for redraws in range(max_redraws + 1):
        train, test = draw()
        smallest_train, smallest_test = int(train.sizes.min()), int(test.sizes.min())
        if smallest_train >= min_train and smallest_test >= min_test:
            return Drawn(finish(train, test), redraws)
        best_train, best_test = max(best_train, smallest_train), max(best_test, smallest_test)
    raise FedCoPLError(
        f"no draw of {max_redraws + 1} gave all {len(train.sizes)} clients {min_train} training and "
        f"{min_test} test images (the smallest client had at most {best_train} and {best_test}); {remedy}"
    )


def _checked_labels(labels: Labels, name: str) -> Indices:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1:
        raise FedCoPLError(f"{name} has {array.ndim} dimensions; give one class number per image")
    if array.size == 0:
        raise FedCoPLError(f"{name} is empty; give the class number of one image or more")
    if array.dtype.kind not in "iu":
        raise FedCoPLError(f"{name} is of type {array.dtype}; give whole class numbers 0, 1, 2, ...")
    if array.min() < 0:
        raise FedCoPLError(f"{name} contains {array.min()}; class numbers start at 0")
    return array.astype(np.int64)
