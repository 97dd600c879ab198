"""Who holds which images, as plain values: stored with a run and read again when it is resumed."""

from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._datasets import Dataset
from fedcopl_lab.data._federation import Federation
from fedcopl_lab.data._shards import Shard

_SETTINGS = ("scheme", "n_clients", "beta", "fraction", "seed", "mode", "redraws", "alpha", "label_fraction")


def split_table(federation: Federation) -> dict[str, Any]:
    """A federation as values for JSON: settings, positions of every client, checksum.

    >>> sorted(split_table(federation))
    ['dataset', 'settings', 'sha256', 'shards']
    """
    shards = []
    for shard in federation.shards:
        parts = {"train": shard.train.tolist(), "test": shard.test.tolist()}
        shards.append(parts if shard.labelled is None else {**parts, "labelled": shard.labelled.tolist()})
    settings = {name: getattr(federation, name) for name in _SETTINGS}
    return {"dataset": federation.dataset.name, "settings": settings, "shards": shards, "sha256": federation.sha256}


def restore_federation(dataset: Dataset, table: dict[str, Any]) -> Federation:
    """The federation that :func:`split_table` described; nothing is drawn again.

    Args:
        dataset: the same data set.
        table: what was stored.

    Raises:
        FedCoPLError: another data set, positions outside it, or positions that were changed.

    >>> restore_federation(federation.dataset, split_table(federation)).sha256 == federation.sha256
    True
    """
    if table.get("dataset") != dataset.name:
        raise FedCoPLError(f"the stored split is of {table.get('dataset')!r}, not of {dataset.name!r}; load that set")
    try:
        shards = tuple(map(_shard, table["shards"]))
        federation = Federation(dataset=dataset, shards=shards, **table["settings"])
        expected, found = table["sha256"], federation.sha256
    except (KeyError, TypeError, ValueError, OverflowError) as error:
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


def _shard(parts: dict[str, Any]) -> Shard:
    labelled = np.asarray(parts["labelled"], dtype=np.int64) if "labelled" in parts else None
    return Shard(np.asarray(parts["train"], dtype=np.int64), np.asarray(parts["test"], dtype=np.int64), labelled)
