"""How different the clients are, in a few numbers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Heterogeneity:
    """How far a federation is from an even mix of classes.

    Attributes:
        total_variation: mean over clients of half the L1 distance between the client's and the global mix of
            training classes, 0 (same mix) to 1.
        train_test_variation: mean over clients with test images of half the L1 distance between the client's
            own mix of training and of test classes, 0 to 1.
        classes_per_client: mean number of classes with a training image.
        smallest_train: fewest training images of a client.
        smallest_test: fewest test images of a client.
    """

    total_variation: float
    train_test_variation: float
    classes_per_client: float
    smallest_train: int
    smallest_test: int

    def __repr__(self) -> str:
        return (
            f"Heterogeneity(total variation {self.total_variation:.3f}, "
            f"{self.classes_per_client:.1f} classes per client, "
            f"smallest client {self.smallest_train} train + {self.smallest_test} test)"
        )


def heterogeneity(train_counts: npt.NDArray[np.int64], test_counts: npt.NDArray[np.int64]) -> Heterogeneity:
    """Summarise the class counts of all clients.

    Args:
        train_counts: training images by client and class, ``[K, C]``; every client has one or more.
        test_counts: test images by client and class, ``[K, C]``.

    >>> heterogeneity(np.array([[4, 0], [0, 4]]), np.array([[1, 0], [0, 1]])).total_variation
    0.5

    Shown in notebook ``fedcopl_supp_fig3``.
    """
    train_sizes, test_sizes = train_counts.sum(axis=1), test_counts.sum(axis=1)
    train_mix = train_counts / train_sizes[:, None]
    global_mix = train_counts.sum(axis=0) / train_counts.sum()
    tested = test_sizes > 0
    test_mix = test_counts[tested] / test_sizes[tested, None]
    own_distances = np.abs(train_mix[tested] - test_mix).sum(axis=1) / 2
    return Heterogeneity(
        total_variation=float(np.abs(train_mix - global_mix).sum(axis=1).mean() / 2),
        train_test_variation=float(own_distances.mean()) if tested.any() else 0.0,
        classes_per_client=float((train_counts > 0).sum(axis=1).mean()),
        smallest_train=int(train_sizes.min()),
        smallest_test=int(test_sizes.min()),
    )
