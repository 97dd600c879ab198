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
    from fedcopl_lab.data._cache import CachedImages, cached_images
    from fedcopl_lab.data._datasets import PAPER_DATASETS, Dataset, load_dataset
    from fedcopl_lab.data._dirichlet import dirichlet_partition
    from fedcopl_lab.data._download import DownloadError
    from fedcopl_lab.data._federation import Federation, partition
    from fedcopl_lab.data._fetch import Verification, download_of, get, state_of, verify
    from fedcopl_lab.data._heterogeneity import Heterogeneity, heterogeneity
    from fedcopl_lab.data._iid import iid_partition
    from fedcopl_lab.data._quantity import quantity_partition
    from fedcopl_lab.data._readers import read_source
    from fedcopl_lab.data._resize import resized
    from fedcopl_lab.data._roots import data_root
    from fedcopl_lab.data._sage import sage_partition
    from fedcopl_lab.data._shards import Shard
    from fedcopl_lab.data._sources import ImageSource
    from fedcopl_lab.data._split_table import restore_federation, split_table

__all__ = [
    "PAPER_DATASETS",
    "CachedImages",
    "Dataset",
    "DownloadError",
    "Federation",
    "Heterogeneity",
    "ImageSource",
    "Manifest",
    "Shard",
    "Verification",
    "cached_images",
    "data_root",
    "dirichlet_partition",
    "download_of",
    "get",
    "heterogeneity",
    "iid_partition",
    "known_manifests",
    "load_dataset",
    "load_manifest",
    "manifest_folder",
    "partition",
    "quantity_partition",
    "read_manifest_table",
    "read_source",
    "resized",
    "restore_federation",
    "sage_partition",
    "split_table",
    "state_of",
    "verify",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("PAPER_DATASETS", "Dataset", "load_dataset"), "._datasets"),
        **dict.fromkeys(("Federation", "partition"), "._federation"),
        **dict.fromkeys(("Heterogeneity", "heterogeneity"), "._heterogeneity"),
        **dict.fromkeys(("CachedImages", "cached_images"), "._cache"),
        **dict.fromkeys(("Verification", "download_of", "get", "state_of", "verify"), "._fetch"),
        "DownloadError": "._download",
        "ImageSource": "._sources",
        "Shard": "._shards",
        "data_root": "._roots",
        "read_source": "._readers",
        "resized": "._resize",
        **dict.fromkeys(("restore_federation", "split_table"), "._split_table"),
        "sage_partition": "._sage",
        "dirichlet_partition": "._dirichlet",
        "iid_partition": "._iid",
        "quantity_partition": "._quantity",
    },
)
