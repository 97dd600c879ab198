"""One client's images, and what every partition shares: checked labels, random streams, images dealt to clients."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.seeding import numpy_generator

Indices: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Shares: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = Sequence[Any] | npt.NDArray[Any] | Tensor
ByClass: TypeAlias = Sequence[Indices]
Stream: TypeAlias = np.random.Generator | np.random.RandomState

if TYPE_CHECKING:
    Mode: TypeAlias = Literal["paper", "authors"]
    FedCoPLScheme: TypeAlias = Literal["dirichlet", "quantity", "iid"]
    SageScheme: TypeAlias = Literal["dirichlet", "pairwise_balanced", "iid"]
    Scheme: TypeAlias = Literal["dirichlet", "quantity", "iid", "pairwise_balanced"]
    Part: TypeAlias = Literal["train", "test", "labelled", "unlabelled"]
    DirichletTestSplit: TypeAlias = Literal["own_masks", "same_proportions"]
    QuantityTestSplit: TypeAlias = Literal["independent", "same_proportions"]
    ClassOrder: TypeAlias = Literal["drawn", "by_number"]
else:  # a wrong word is answered by our own message, also where a type checker watches the calls
    Mode = FedCoPLScheme = SageScheme = Scheme = Part = DirichletTestSplit = QuantityTestSplit = ClassOrder = str

_MAX_SHARE_DRAWS = 1000  # draws of one class before its shares are given up as numerically zero


@dataclass(frozen=True, eq=False)
class Shard:
    """One client's images, as read-only positions (int64).

    Attributes:
        train: positions of its training images.
        test: positions of its test images.
        labelled: positions of the training images whose labels the client knows, under SAGE; else None.

    From ``dirichlet_partition`` and its kind the positions count within the label vectors that were given; inside a
    ``Federation`` they are positions in the whole data set. ``torch.tensor(shard.train)`` makes a tensor of them.
    """

    train: Indices
    test: Indices
    labelled: Indices | None = None

    def __post_init__(self) -> None:
        for part, given in self.parts.items():
            positions = np.array(given, dtype=np.int64)
            positions.setflags(write=False)
            object.__setattr__(self, part, positions)

    @property
    def parts(self) -> dict[str, Indices]:
        """Its positions by part, as far as it has the part."""
        return {name: positions for name, positions in vars(self).items() if positions is not None}

    @classmethod
    def of(cls, parts: Mapping[str, Sequence[int]]) -> "Shard":
        """The shard of these :attr:`parts`, read from a file."""
        return cls(**{name: np.asarray(positions, dtype=np.int64) for name, positions in parts.items()})

    @property
    def unlabelled(self) -> Indices:
        """Positions of the training images without a label, in their order; all of them but under SAGE."""
        return self.train if self.labelled is None else self.train[~np.isin(self.train, self.labelled)]

    def __repr__(self) -> str:
        labelled = "" if self.labelled is None else f" {len(self.labelled)} labelled,"
        return f"Shard({len(self.train)} train,{labelled} {len(self.test)} test)"


def check_whole(name: str, value: Any) -> None:
    """Refuse what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise FedCoPLError(f"{name}={value!r} is not valid; expected a whole number")


def images_by_class(train_labels: Labels, test_labels: Labels, n_clients: int) -> tuple[ByClass, ByClass]:
    """Rising positions of every class's training and test images, after a check of labels and number of clients."""
    parts = _checked_labels(train_labels, "train_labels"), _checked_labels(test_labels, "test_labels")
    check_whole("n_clients", n_clients)
    if n_clients < 1:
        raise FedCoPLError(f"n_clients={n_clients} is below 1; choose a whole number of clients of 1 or more")
    if n_clients > len(parts[0]):
        raise FedCoPLError(
            f"n_clients={n_clients} is more than the {len(parts[0])} training images; choose at most {len(parts[0])} "
            "clients"
        )
    n_classes = int(max(labels.max() for labels in parts)) + 1
    train, test = ([np.flatnonzero(labels == c) for c in range(n_classes)] for labels in parts)
    return train, test


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


def random_stream(seed: int, mode: str, authors_seed: int, *purpose: str) -> Stream:
    """A Generator of the seed and the purpose; in mode ``"authors"`` the legacy stream ``authors_seed + seed``."""
    check_choice("mode", mode, ("paper", "authors"))
    check_whole("seed", seed)
    if mode == "paper":
        return numpy_generator(seed, "partition", *purpose)
    if not 0 <= seed < 2**32 - authors_seed:
        raise FedCoPLError(
            f"seed={seed} does not fit the 32-bit legacy stream; choose 0 (the authors' own) or another "
            f"seed below {2**32 - authors_seed}"
        )
    return np.random.RandomState(authors_seed + seed)


def shuffled(images: Indices, stream: Stream) -> Indices:
    """A shuffled copy."""
    return np.asarray(stream.permutation(images), dtype=np.int64)


def floor_counts(shares: Shares, n_images: int) -> Indices:
    """Cut ``n_images`` at the floors of the summed shares; what is left over goes to the last client."""
    cuts = (np.cumsum(shares) * n_images).astype(np.int64)[:-1]
    return np.diff(cuts, prepend=0, append=n_images)


def largest_remainder_counts(shares: Shares, n_images: int) -> Indices:
    """Whole numbers that sum to ``n_images``, each the floor or the ceiling of its share of them."""
    exact = shares * n_images
    counts = np.floor(exact).astype(np.int64)
    largest_first = np.argsort(-(exact - counts), kind="stable")
    counts[largest_first[: n_images - int(counts.sum())]] += 1
    return counts


class Piles:
    """The growing lists of images of all clients, for one part of the data."""

    def __init__(self, n_clients: int, by_class: ByClass) -> None:
        self.sizes = np.zeros(n_clients, dtype=np.int64)
        self._n_images = sum(map(len, by_class))
        self._slices: list[list[Indices]] = [[] for _ in range(n_clients)]

    @property
    def below_even_share(self) -> Flags:
        """Which clients hold fewer images than an even split would give them."""
        return self.sizes * len(self.sizes) < self._n_images

    def open_for(self, images: Indices) -> Flags:
        """Which clients may get some of a class; all where it has no image, as all may be full."""
        return self.below_even_share if len(images) else np.ones(len(self.sizes), dtype=np.bool_)

    def deal(self, images: Indices, counts: Indices) -> None:
        """Hand the next ``counts[k]`` images to client k."""
        for client, images_of_client in enumerate(np.split(images, np.cumsum(counts)[:-1])):
            self._slices[client].append(images_of_client)
        self.sizes += counts

    def lists(self) -> list[Indices]:
        """One index array per client, in the order dealt."""
        return [np.concatenate(slices) for slices in self._slices]


def dirichlet_shares(name: str, concentration: float, masks: Sequence[Flags], stream: Stream) -> list[Shares]:
    """Clients' shares of one class: one Dirichlet draw, scaled up to sum to 1 over the clients of each mask.

    A small concentration can put all mass, to the last bit, on clients outside a mask. The shares are then drawn
    again, which is the limit of scaling up what is left; the released codes would divide zero by zero.
    """
    for _ in range(_MAX_SHARE_DRAWS):
        drawn = stream.dirichlet(np.repeat(concentration, len(masks[0])))
        sums = [(drawn * mask).sum() for mask in masks]
        if min(sums) > 0:
            return [drawn * mask / total for mask, total in zip(masks, sums, strict=True)]
    raise FedCoPLError(
        f"{name}={concentration} is so small that {_MAX_SHARE_DRAWS} draws of the clients' shares were all zero; "
        f"choose a larger {name}"
    )


@dataclass(frozen=True)
class Minimums:
    """Fewest images of a client by part, such as ``{"train": 10, "test": 5}``, and draws to throw away for them."""

    images: dict[str, int]
    max_redraws: int

    def check(self, n_clients: int, *parts: ByClass, hint: str = "") -> None:
        """Refuse at once what no draw can give every client."""
        for (part, minimum), by_class in zip(self.images.items(), parts, strict=True):
            available = sum(map(len, by_class))
            if minimum < 0:
                raise FedCoPLError(f"min_{part}={minimum} is negative; choose 0 or more images per client")
            if n_clients * minimum > available:
                raise FedCoPLError(
                    f"n_clients={n_clients} with min_{part}={minimum} needs {n_clients * minimum} {part} images, but "
                    f"there are {available}; choose at most {available // minimum} clients or a smaller "
                    f"min_{part}{hint}"
                )

    def redraw(self, draw: Callable[[], list[list[Indices]]], remedy: str) -> tuple[list[list[Indices]], int]:
        """Call ``draw``, which deals each part's images to the clients, until all have enough; (draw, redraws)."""
        if self.max_redraws < 0:
            raise FedCoPLError(f"max_redraws={self.max_redraws} is negative; choose 0 or more")
        best = [0] * len(self.images)
        for redraws in range(self.max_redraws + 1):
            parts = draw()
            smallest = [min(map(len, lists)) for lists in parts]
            if all(size >= minimum for size, minimum in zip(smallest, self.images.values(), strict=True)):
                return parts, redraws
            best = list(map(max, best, smallest))
        wanted = " and ".join(f"{minimum} {part}" for part, minimum in self.images.items())
        raise FedCoPLError(
            f"no draw of {self.max_redraws + 1} gave all {len(parts[0])} clients {wanted} images (the smallest client "
            f"had at most {' and '.join(map(str, best))}); {remedy}"
        )
