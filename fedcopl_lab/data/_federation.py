"""A data set divided among clients."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

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
from fedcopl_lab.data._sage import SageScheme, sage_partition
from fedcopl_lab.data._shards import Drawn, Indices, Mode, Shard, check_minimums, checked_classes

if TYPE_CHECKING:
    Scheme: TypeAlias = Literal["dirichlet", "quantity", "iid", "pairwise_balanced"]
    Part: TypeAlias = Literal["train", "test", "labelled", "unlabelled"]
else:
    Scheme = Part = str  # as Mode

_MAX_REDRAWS = 1000


@dataclass(frozen=True, eq=False)
class Federation:
    """A data set and who holds which of its images.

    Attributes:
        dataset: the data set.
        shards: one per client, with positions in the whole data set (``dataset.images``), read-only.
        scheme: ``"dirichlet"``, ``"quantity"``, ``"iid"`` or ``"pairwise_balanced"``.
        n_clients: number of clients K.
        beta: Dirichlet concentration, ``None`` for the other schemes.
        fraction: share of the classes a client sees under ``"quantity"``, ``None`` for the other schemes.
        seed: the partition's seed.
        mode: ``"paper"`` or ``"authors"``.
        redraws: draws that were thrown away because a client had too few images.
        alpha: SAGE's Dirichlet concentration, ``None`` without.
        label_fraction: SAGE's share of labelled images, ``None`` when no image has a label.
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
    alpha: float | None = None
    label_fraction: float | None = None

    def indices(self, client: int, part: Part = "train") -> Int64[Tensor, " n_client"]:
        """One client's positions in ``dataset.images``, as a new tensor."""
        return torch.tensor(_positions(self.shards[client], part))

    def class_counts(self, part: Part = "train") -> Indices:
        """Images by client and class, ``[K, C]``, of a part: training, test, labelled or unlabelled images."""
        labels = self.dataset.labels.numpy()
        return np.stack(
            [np.bincount(labels[_positions(shard, part)], minlength=self.dataset.n_classes) for shard in self.shards]
        )

    @property
    def sha256(self) -> str:
        """Checksum of the positions of all clients, in their order."""
        digest = hashlib.sha256()
        for shard in self.shards:
            parts = (shard.train, shard.test) + (() if shard.labelled is None else (shard.labelled,))
            for positions in parts:
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
        details = {name: getattr(self, name) for name in ("beta", "fraction", "alpha", "label_fraction")}
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
    labelled_per_class: int | None = None,
) -> Federation:
    """Divide a data set among clients.

    FedCoPL, experimental setup; see ``dirichlet_partition``, ``quantity_partition`` and ``iid_partition``
    for what the schemes do.

    Args:
        dataset: the data set.
        scheme: ``"dirichlet"``, ``"quantity"`` or ``"iid"``; with ``label_fraction`` also ``"pairwise_balanced"``.
        n_clients: number of clients K.
        beta: Dirichlet concentration, above 0; given for ``"dirichlet"`` and only there.
        alpha: SAGE's concentration, above 0; takes the place of ``beta`` where ``label_fraction`` is given.
        label_fraction: SAGE's share of labelled images, such as 0.1: see ``sage_partition``. In mode
            ``"authors"`` the manifest's labelled images per class stand for it. No client has test images then.
        seed: the partition's seed.
        mode: ``"paper"``, or ``"authors"`` for what the released code does, ``seed=0`` being its own.
        fraction: share of the classes a client sees under ``"quantity"``.
        min_train: fewest training images of a client. ``None``: 10; in mode ``"authors"`` what the released
            code checks, 10 under ``"dirichlet"`` and 1 otherwise.
        min_test: fewest test images of a client. ``None``: 5; in mode ``"authors"`` 0.
        test_split: as in the scheme's own function. ``None``: its default.
        labelled_per_class: SAGE's labelled images of every class, in place of the share ``label_fraction``.

    Returns:
        The :class:`Federation`.

    Raises:
        FedCoPLError: on bad arguments, or when no draw gives every client its minimum.

    >>> from fedcopl_lab.data import load_dataset
    >>> partition(load_dataset("digits"), "dirichlet", n_clients=5, beta=0.1)
    Federation(digits, dirichlet, beta=0.1, 5 clients, seed=0, mode=paper)

    Shown in notebooks ``00_quickstart`` and ``fedcopl_supp_fig3``.
    """
    if alpha is not None or label_fraction is not None:
        refuse_options_of_fedcopl(beta=beta, min_test=min_test, test_split=test_split)
        return _sage_federation(
            dataset, scheme, n_clients, alpha, label_fraction, seed, mode, min_train, labelled_per_class
        )
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


def refuse_options_of_fedcopl(**options: object) -> None:
    """Refuse what has no meaning beside SAGE's alpha and label_fraction."""
    for name, value in options.items():
        if value is not None:
            raise FedCoPLError(
                f"{name}={value} has no meaning beside alpha and label_fraction, SAGE's options; leave it out"
            )


def _sage_federation(
    dataset: Dataset,
    scheme: Scheme,
    n_clients: int,
    alpha: int | float | None,
    label_fraction: int | float | None,
    seed: int,
    mode: Mode,
    min_train: int | None,
    per_class: int | None,
) -> Federation:
    if label_fraction is None:
        raise FedCoPLError(f"alpha={alpha} without label_fraction; give the share of labelled images, such as 0.1")
    if per_class is None and mode == "authors":
        per_class = dict(dataset.manifest.labelled_per_class).get(float(label_fraction))
    shards = sage_partition(
        dataset.train_labels,
        n_clients,
        alpha,
        label_fraction,
        seed,
        mode,
        scheme=cast(SageScheme, scheme),
        labelled_per_class=per_class,
        min_unlabelled=10 if min_train is None else min_train,
    )
    positions = dataset.train_indices.numpy()
    return Federation(
        dataset=dataset,
        shards=tuple(Shard(positions[s.train], s.test, positions[s.labelled]) for s in shards),
        scheme=scheme,
        n_clients=n_clients,
        beta=None,
        fraction=None,
        seed=seed,
        mode=mode,
        redraws=0,
        alpha=None if alpha is None else float(alpha),
        label_fraction=float(label_fraction),
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
    if part not in ("train", "test", "labelled", "unlabelled"):
        raise FedCoPLError(f"part={part!r} is unknown; choose 'train', 'test', 'labelled' or 'unlabelled'")
    positions: Indices | None = getattr(shard, part)
    if positions is None:
        raise FedCoPLError("no image of this federation is labelled; give label_fraction= to partition")
    return positions
