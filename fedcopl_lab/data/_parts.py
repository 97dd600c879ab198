"""A fixed part of a data set: ``"cifar10:300"`` for a quick look, ``"cifar10:unseen:6000"`` for clients of `mini`."""

import base64
import hashlib
import tomllib
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.seeding import numpy_generator

Positions = npt.NDArray[np.int64]

UNSEEN = "unseen"
"""The word in a name that leaves out what `mini` is trained on."""

GREY = "grey"
"""The word that takes the colour out of the images: `mini` saw coloured ones only."""

SEEN_SETS = ("cifar10", "cifar100")
"""The sets that the `mini` CLIP is trained on a recorded part of."""

SEEN_RECORD = Path(__file__).parent / "mini_seen.toml"
"""That part: a mask over the training images of each set, with its checksum."""


@dataclass(frozen=True)
class PartName:
    """What a data set's name asks for."""

    whole: str  # name of the whole set
    n_images: int | None = None  # training and test images wanted; None for all of them
    n_test: int | None = None  # test images wanted beside n_images training images; None: in the set's proportion
    unseen: bool = False  # without the training images that the `mini` CLIP is trained on
    grey: bool = False  # without colour

    @property
    def is_whole(self) -> bool:
        """Whether it is the set as it is."""
        return self.n_images is None and not self.unseen and not self.grey

    @property
    def text(self) -> str:
        """The name again, such as ``cifar10:unseen:grey:6000``."""
        words = [word for word, said in ((UNSEEN, self.unseen), (GREY, self.grey)) if said]
        sizes = [str(n) for n in (self.n_images, self.n_test) if n is not None]
        return ":".join([self.whole, *words, *(["+".join(sizes)] if sizes else [])])


def split_name(name: str, known: Container[str]) -> PartName:
    """Take the name of a set or of a part of one apart.

    Args:
        name: such as ``"cifar10"``, ``"cifar10:300"``, ``"cifar10:unseen"`` or ``"cifar10:unseen:grey:5000+10000"``,
            which is 5,000 training and 10,000 test images.
        known: the sets that have parts; any other name is left as it is.

    Raises:
        FedCoPLError: what follows a known name is not a number, or the set knows no such word.

    >>> split_name("cifar10:unseen:300", ("cifar10",))
    PartName(whole='cifar10', n_images=300, n_test=None, unseen=True, grey=False)
    """
    base, colon, rest = name.partition(":")
    if not colon or base not in known:
        return PartName(name)
    words = rest.split(":")
    unseen = words[0] == UNSEEN
    words = words[unseen:]
    grey = words[:1] == [GREY]
    words = words[grey:]
    if (unseen or grey) and base not in SEEN_SETS:
        word = UNSEEN if unseen else GREY
        raise FedCoPLError(f"{name!r}: mini is trained on no image of {base}; leave {word!r} out of the name")
    if not words:
        return PartName(base, unseen=unseen, grey=grey)
    size = ":".join(words)
    numbers = size.split("+")
    if len(numbers) > 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        raise FedCoPLError(
            f"{name!r} asks for {size!r} images; expected a number, such as {base}:300, or two for training and test "
            f"images, such as {base}:250+50"
        )
    n_images, n_test = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else None
    return PartName(base, n_images, n_test, unseen, grey)


def counts_of(part: PartName, n_train: int, n_test: int) -> tuple[int, int]:
    """Training and test images of a part; those of one that names a number alone in the proportion of the whole set.

    Args:
        part: from :func:`split_name`.
        n_train: training images of the whole set.
        n_test: test images of the whole set.

    Raises:
        FedCoPLError: more than there are, or none of either kind.

    >>> counts_of(PartName("cifar10", 300), 50_000, 10_000), counts_of(PartName("cifar10", 300, 60), 50_000, 10_000)
    ((250, 50), (300, 60))
    """
    if part.n_images is None:
        return n_train - (len(seen_positions(part.whole)) if part.unseen else 0), n_test
    n = part.n_images
    if part.n_test is not None:
        if not (1 <= n <= n_train and 1 <= part.n_test <= n_test):
            raise FedCoPLError(
                f"{part.text} asks for {n} training and {part.n_test} test images; there are {n_train} and {n_test}"
            )
        return n, part.n_test
    if not 2 <= n <= n_train + n_test:
        raise FedCoPLError(f"{part.text} asks for {n} images; expected 2 to {n_train + n_test}, all there are")
    train = min(max(round(n * n_train / (n_train + n_test)), 1), n - 1)
    return train, n - train


def draw_part(
    labels: Positions, train: Positions, test: Positions, sizes: tuple[int, int], name: str
) -> tuple[Positions, Positions]:
    """Positions of a part's training and test images, rising; the same each time.

    Args:
        labels: class of every image, [n_all].
        train: positions of the training images that may be taken.
        test: positions of the test images.
        sizes: training and test images of the part.
        name: the whole set.

    Returns:
        Training and test positions; every class has as many as any other, or one less, while it has any left.
    """
    n_train, n_test = sizes
    if n_train > len(train):
        raise FedCoPLError(f"{name}: {n_train} training images asked for, {len(train)} may be taken; ask for less")
    return _balanced(labels, train, n_train, name, "train"), _balanced(labels, test, n_test, name, "test")


def _balanced(labels: Positions, positions: Positions, size: int, name: str, part: str) -> Positions:
    shuffled = numpy_generator(0, "part of a data set", name, part).permutation(positions)
    turn = np.empty(len(shuffled), dtype=np.int64)  # an image's place among those of its class
    for label in np.unique(labels[positions]):
        own = np.flatnonzero(labels[shuffled] == label)
        turn[own] = np.arange(len(own))
    chosen: Positions = np.sort(shuffled[np.argsort(turn, kind="stable")[:size]])
    return chosen


@lru_cache
def seen_positions(name: str) -> Positions:
    """The recorded images of a set that `mini` is trained on, as rising positions among its training images.

    Args:
        name: one of :data:`SEEN_SETS`.

    Raises:
        FedCoPLError: nothing of that set is recorded, or the record was changed.

    >>> len(seen_positions("cifar10"))
    9823

    Shown in notebook ``data_check``.
    """
    table = _seen_table(name)
    packed = np.frombuffer(base64.b64decode(table["mask"]), dtype=np.uint8)
    seen = np.flatnonzero(np.unpackbits(packed)[: table["train"]]).astype(np.int64)
    found = positions_sha256(seen)
    if found != table["sha256"]:
        raise FedCoPLError(
            f"{SEEN_RECORD}: the mask of {name} has checksum {found}, expected {table['sha256']}; restore the file "
            "from the package"
        )
    seen.setflags(write=False)
    return seen


def seen_sha256(name: str) -> str:
    """The checksum of a set's recorded images, from the record alone.

    >>> seen_sha256("cifar10")[:8]
    'ae0f7742'
    """
    return str(_seen_table(name)["sha256"])


def positions_sha256(positions: Positions) -> str:
    """Checksum of positions, int64 and little endian."""
    return hashlib.sha256(positions.astype("<i8").tobytes()).hexdigest()


def _seen_table(name: str) -> dict[str, Any]:
    if name not in SEEN_SETS:
        raise FedCoPLError(f"no image of {name!r} is seen by mini; recorded are {', '.join(SEEN_SETS)}")
    found: dict[str, Any] = tomllib.loads(SEEN_RECORD.read_text(encoding="ascii"))[name]
    return found
