"""Data: manifests, data sets, and how clients share them. Manifests are read without torch."""

from typing import TYPE_CHECKING

from fedcopl_lab._lazy import lazy_names
from fedcopl_lab.data._manifests import (
    Manifest,
    known_manifests,
    load_manifest,
    manifest_folder,
    read_manifest_table,
)

if TYPE_CHECKING:
    from fedcopl_lab.data._datasets import PAPER_DATASETS, Dataset, load_dataset
    from fedcopl_lab.data._dirichlet import dirichlet_partition
    from fedcopl_lab.data._federation import Federation, partition
    from fedcopl_lab.data._heterogeneity import Heterogeneity, heterogeneity
    from fedcopl_lab.data._iid import iid_partition
    from fedcopl_lab.data._quantity import quantity_partition
    from fedcopl_lab.data._shards import Shard

__all__ = [
    "PAPER_DATASETS",
    "Dataset",
    "Federation",
    "Heterogeneity",
    "Manifest",
    "Shard",
    "dirichlet_partition",
    "heterogeneity",
    "iid_partition",
    "known_manifests",
    "load_dataset",
    "load_manifest",
    "manifest_folder",
    "partition",
    "quantity_partition",
    "read_manifest_table",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("PAPER_DATASETS", "Dataset", "load_dataset"), "._datasets"),
        **dict.fromkeys(("Federation", "partition"), "._federation"),
        **dict.fromkeys(("Heterogeneity", "heterogeneity"), "._heterogeneity"),
        "Shard": "._shards",
        "dirichlet_partition": "._dirichlet",
        "iid_partition": "._iid",
        "quantity_partition": "._quantity",
    },
)
