"""A data set divided among clients."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._datasets import Dataset
from fedcopl_lab.data._dirichlet import draw_dirichlet
from fedcopl_lab.data._heterogeneity import Heterogeneity, heterogeneity
from fedcopl_lab.data._iid import iid_partition
from fedcopl_lab.data._quantity import draw_quantity
from fedcopl_lab.data._shards import Drawn, Indices, Mode, Shard, check_minimums, checked_classes

if TYPE_CHECKING:
    Scheme: TypeAlias = Literal["dirichlet", "quantity", "iid"]
    Part: TypeAlias = Literal["train", "test"]
else:
    Scheme = Part = str  # as Mode

_MAX_REDRAWS = 1000


@dataclass(frozen=True, eq=False)
class Federation:
    """A data set and who holds which of its images.

    Attributes:
        dataset: the data set.
        shards: one per client, with positions in the whole data set (``dataset.images``), read-only.
        scheme: ``"dirichlet"``, ``"quantity"`` or ``"iid"``.
        n_clients: number of clients K.
        beta: Dirichlet concentration, ``None`` for the other schemes.
        fraction: share of the classes a client sees under ``"quantity"``, ``None`` for the other schemes.
        seed: the partition's seed.
        mode: ``"paper"`` or ``"authors"``.
        redraws: draws that were thrown away because a client had too few images.
    """

    dataset: Dataset
    shards: tuple[Shard, ...]
    scheme: Scheme
    n_clients: int
    beta: float | None
    fraction: float | None
    seed: int
    mode: Mode
    redraws: int

    def indices(self, client: int, part: Part = "train") -> Int64[Tensor, " n_client"]:
        """One client's positions in ``dataset.images``, as a new tensor."""
        return torch.tensor(_positions(self.shards[client], part))

    def class_counts(self, part: Part = "train") -> Indices:
        """Images by client and class, ``[K, C]``, of the training or the test part."""
        labels = self.dataset.labels.numpy()
        return np.stack(
            [np.bincount(labels[_positions(shard, part)], minlength=self.dataset.n_classes) for shard in self.shards]
        )

    @property
    def sha256(self) -> str:
        """Checksum of the positions of all clients, in their order."""
        digest = hashlib.sha256()
        for shard in self.shards:
            for positions in (shard.train, shard.test):
                digest.update(len(positions).to_bytes(8, "little"))
                digest.update(positions.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def heterogeneity(self) -> Heterogeneity:
        """How different the clients are."""
        return heterogeneity(self.class_counts("train"), self.class_counts("test"))

    def __len__(self) -> int:
        return self.n_clients

    def __repr__(self) -> str:
        details = {"beta": self.beta, "fraction": self.fraction}
        shown = "".join(f", {name}={value:g}" for name, value in details.items() if value is not None)
        return (
            f"Federation({self.dataset.name}, {self.scheme}{shown}, {self.n_clients} clients, "
            f"seed={self.seed}, mode={self.mode})"
        )


def partition(
    dataset: Dataset,
    scheme: Scheme,
    n_clients: int,
    beta: int | float | None = None,
    alpha: int | float | None = None,
    label_fraction: int | float | None = None,
    seed: int = 0,
    mode: Mode = "paper",
    *,
    fraction: int | float = 0.2,
    min_train: int | None = None,
    min_test: int | None = None,
    test_split: str | None = None,
) -> Federation:
    """Divide a data set among clients.

    FedCoPL, experimental setup; see ``dirichlet_partition``, ``quantity_partition`` and ``iid_partition``
    for what the schemes do.

    Args:
        dataset: the data set.
        scheme: ``"dirichlet"``, ``"quantity"`` or ``"iid"``.
        n_clients: number of clients K.
        beta: Dirichlet concentration, above 0; given for ``"dirichlet"`` and only there.
        alpha: SAGE's concentration; not available in this version.
        label_fraction: SAGE's share of labelled images; not available in this version.
        seed: the partition's seed.
        mode: ``"paper"``, or ``"authors"`` for what the released code does, ``seed=0`` being its own.
        fraction: share of the classes a client sees under ``"quantity"``.
        min_train: fewest training images of a client. ``None``: 10; in mode ``"authors"`` what the released
            code checks, 10 under ``"dirichlet"`` and 1 otherwise.
        min_test: fewest test images of a client. ``None``: 5; in mode ``"authors"`` 0.
        test_split: as in the scheme's own function. ``None``: its default.

    Returns:
        The :class:`Federation`.

    Raises:
        FedCoPLError: on bad arguments, or when no draw gives every client its minimum.

    >>> from fedcopl_lab.data import load_dataset
    >>> partition(load_dataset("digits"), "dirichlet", n_clients=5, beta=0.1)
    Federation(digits, dirichlet, beta=0.1, 5 clients, seed=0, mode=paper)

    Shown in notebooks ``00_quickstart`` and ``fedcopl_supp_fig3``.
    """
    _refuse_options_of_sage(alpha, label_fraction)
    _check_scheme(scheme, beta, test_split)
    default_train = 10 if mode != "authors" or scheme == "dirichlet" else 1
    default_test = 0 if mode == "authors" else 5
    drawn = _drawn(
        dataset,
        scheme,
        n_clients,
        beta,
        fraction,
        seed,
        mode,
        default_train if min_train is None else min_train,
        default_test if min_test is None else min_test,
        test_split,
    )
    train_indices, test_indices = dataset.train_indices.numpy(), dataset.test_indices.numpy()
    return Federation(
        dataset=dataset,
        shards=tuple(Shard(train_indices[shard.train], test_indices[shard.test]) for shard in drawn.shards),
        scheme=scheme,
        n_clients=n_clients,
        beta=None if beta is None else float(beta),
        fraction=float(fraction) if scheme == "quantity" else None,
        seed=seed,
        mode=mode,
        redraws=drawn.redraws,
    )


def _drawn(
    dataset: Dataset,
    scheme: str,
    n_clients: int,
    beta: int | float | None,
    fraction: int | float,
    seed: int,
    mode: Mode,
    min_train: int,
    min_test: int,
    test_split: str | None,
) -> Drawn:
    labels = (dataset.train_labels, dataset.test_labels)
    if scheme == "dirichlet":
        assert beta is not None
        return draw_dirichlet(
            *labels,
            n_clients,
            beta,
            seed,
            mode,
            min_train=min_train,
            min_test=min_test,
            test_split=test_split or "own_masks",
            max_redraws=_MAX_REDRAWS,
        )
    if scheme == "quantity":
        return draw_quantity(
            *labels,
            n_clients,
            fraction,
            seed,
            mode,
            min_train=min_train,
            min_test=min_test,
            test_split=test_split or "independent",
            max_redraws=_MAX_REDRAWS,
        )
    # An even split of enough images satisfies every minimum, up to the rounding of mode "authors".
    check_minimums(checked_classes(*labels, n_clients), n_clients, min_train, min_test)
    return Drawn(iid_partition(*labels, n_clients, seed, mode), 0)


def _refuse_options_of_sage(alpha: int | float | None, label_fraction: int | float | None) -> None:
    for name, value in (("alpha", alpha), ("label_fraction", label_fraction)):
        if value is not None:
            raise FedCoPLError(
                f"{name}={value} belongs to the partitions of SAGE, which are not available in this version; "
                "leave it out, and give beta= for the scheme 'dirichlet'"
            )


def _check_scheme(scheme: str, beta: int | float | None, test_split: str | None) -> None:
    if scheme not in ("dirichlet", "quantity", "iid"):
        raise FedCoPLError(f"scheme={scheme!r} is unknown; choose 'dirichlet', 'quantity' or 'iid'")
    if scheme == "dirichlet" and beta is None:
        raise FedCoPLError("beta=None, but the scheme 'dirichlet' needs a number above 0; give beta=0.1")
    if scheme != "dirichlet" and beta is not None:
        raise FedCoPLError(f"beta={beta} has no meaning for the scheme {scheme!r}; leave it out or choose 'dirichlet'")
    if scheme == "iid" and test_split is not None:
        raise FedCoPLError(f"test_split={test_split!r} has no meaning for the scheme 'iid'; leave it out")


def _positions(shard: Shard, part: str) -> Indices:
    if part not in ("train", "test"):
        raise FedCoPLError(f"part={part!r} is unknown; choose 'train' or 'test'")
    return shard.train if part == "train" else shard.test
