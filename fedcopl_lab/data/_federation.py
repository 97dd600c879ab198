"""A data set divided among clients: who holds which images, how different they are, and the stored form of it."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab._html import folded
from fedcopl_lab._html import table as html_table
from fedcopl_lab.data._datasets import Dataset
from fedcopl_lab.data._shard import Indices, Mode, Part, Scheme, Shard

_FEW = 10  # classes that the HTML table names, and clients that it shows unfolded


@dataclass(frozen=True)
class Heterogeneity:
    """How far a federation is from an even mix of classes."""

    # mean over clients of half the L1 distance between the client's and the global mix of training classes, 0 to 1
    total_variation: float
    # mean over clients with test images of half the L1 distance between their own mixes of training and of test classes
    train_test_variation: float
    classes_per_client: float  # mean number of classes with a training image
    smallest_train: int  # fewest training images of a client
    smallest_test: int  # fewest test images of a client

    def __repr__(self) -> str:
        return (
            f"Heterogeneity(total variation {self.total_variation:.3f}, {self.classes_per_client:.1f} classes per "
            f"client, smallest client {self.smallest_train} train + {self.smallest_test} test)"
        )


def heterogeneity(train_counts: Indices, test_counts: Indices) -> Heterogeneity:
    """Summarise the class counts of all clients.

    Args:
        train_counts: training images by client and class, ``[K, C]``; distances leave out a client without any.
        test_counts: test images by client and class, ``[K, C]``.

    >>> heterogeneity(np.array([[4, 0], [0, 4]]), np.array([[1, 0], [0, 1]])).total_variation
    0.5

    Shown in notebook ``fedcopl_supp_fig3``.
    """
    train_sizes, test_sizes = train_counts.sum(axis=1), test_counts.sum(axis=1)
    train_mix = train_counts / np.maximum(train_sizes, 1)[:, None]
    global_mix = train_counts.sum(axis=0) / train_counts.sum()
    tested = (train_sizes > 0) & (test_sizes > 0)
    test_mix = test_counts[tested] / test_sizes[tested, None]
    own_distances = np.abs(train_mix[tested] - test_mix).sum(axis=1) / 2
    return Heterogeneity(
        total_variation=float(np.abs(train_mix[train_sizes > 0] - global_mix).sum(axis=1).mean() / 2),
        train_test_variation=float(own_distances.mean()) if tested.any() else 0.0,
        classes_per_client=float((train_counts > 0).sum(axis=1).mean()),
        smallest_train=int(train_sizes.min()),
        smallest_test=int(test_sizes.min()),
    )


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
        redraws: draws that were thrown away because a client had too few images; SAGE's are not counted, it has 0.
        alpha: SAGE's Dirichlet concentration, ``None`` without.
        label_fraction: SAGE's share of labelled images as it was given, also where ``labelled_per_class`` took its
            place; ``None`` when no image has a label.
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
            for positions in shard.parts.values():
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
        if self.label_fraction is not None:
            train, labelled = (sum(len(shard.parts[part]) for shard in self.shards) for part in ("train", "labelled"))
            if abs(self.label_fraction * train - labelled) > self.dataset.n_classes:  # it was not what counted
                details |= {"label_fraction": None, "labelled_per_class": labelled / self.dataset.n_classes}
        shown = "".join(f", {name}={value:g}" for name, value in details.items() if value is not None)
        return (
            f"Federation({self.dataset.name}, {self.scheme}{shown}, {self.n_clients} clients, "
            f"seed={self.seed}, mode={self.mode})"
        )

    def _repr_html_(self) -> str:
        """Images of every client: of each class where there are few, and in all."""
        classes = self.dataset.class_names if self.dataset.n_classes <= _FEW else ()
        parts = ["train", "test"] if self.label_fraction is None else ["train", "labelled"]
        rows = [
            [client, *counts[: len(classes)], sum(count > 0 for count in counts)]
            + [len(_positions(shard, part)) for part in parts]
            for client, (shard, counts) in enumerate(zip(self.shards, self.class_counts().tolist(), strict=True))
        ]
        header, few = ("client", *classes, "classes", *parts), len(rows) <= _FEW
        html = html_table(rows, header, repr(self) if few else "")
        return html if few else folded(repr(self), html)


def _positions(shard: Shard, part: str) -> Indices:
    check_choice("part", part, ("train", "test", "labelled", "unlabelled"))
    positions: Indices | None = getattr(shard, part)
    if positions is None:
        raise FedCoPLError("no image of this federation is labelled; give label_fraction= to partition")
    return positions


_SETTINGS = ("scheme", "n_clients", "beta", "fraction", "seed", "mode", "redraws", "alpha", "label_fraction")


def split_table(federation: Federation) -> dict[str, Any]:
    """A federation as values for JSON, stored with a run: settings, positions of every client, checksum.

    >>> sorted(split_table(partition(load_dataset("digits"), "iid", 5)))
    ['dataset', 'settings', 'sha256', 'shards']
    """
    shards = [{part: own.tolist() for part, own in shard.parts.items()} for shard in federation.shards]
    settings = {name: getattr(federation, name) for name in _SETTINGS}
    return {"dataset": federation.dataset.name, "settings": settings, "shards": shards, "sha256": federation.sha256}


def restore_federation(dataset: Dataset, table: dict[str, Any]) -> Federation:
    """The federation that :func:`split_table` described, read again when a run is resumed; nothing is drawn.

    Args:
        dataset: the same data set.
        table: what was stored.

    Raises:
        FedCoPLError: another data set, positions outside it, or positions that were changed.

    >>> drawn = partition(load_dataset("digits"), "iid", 5)
    >>> restore_federation(drawn.dataset, split_table(drawn)).sha256 == drawn.sha256
    True
    """
    if table.get("dataset") != dataset.name:
        raise FedCoPLError(f"the stored split is of {table.get('dataset')!r}, not of {dataset.name!r}; load that set")
    try:
        shards = tuple(map(Shard.of, table["shards"]))
        federation = Federation(dataset=dataset, shards=shards, **table["settings"])
        expected, found = table["sha256"], federation.sha256
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise FedCoPLError(
            f"the stored split of {dataset.name} is damaged ({type(error).__name__}: {error}); remove the run to "
            "compute it again"
        ) from error
    highest = max((int(part.max()) for shard in shards for part in (shard.train, shard.test) if len(part)), default=0)
    if highest >= len(dataset):
        raise FedCoPLError(f"the stored split names image {highest}, but {dataset.name} has {len(dataset)}")
    if found != expected or federation.n_clients != len(shards):
        raise FedCoPLError(
            f"the stored split of {dataset.name} has checksum {found} and {len(shards)} clients instead of {expected} "
            f"and {federation.n_clients}; it was changed: remove the run to compute it again"
        )
    return federation
