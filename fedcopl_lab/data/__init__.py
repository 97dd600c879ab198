"""Data: manifests, data sets, and how clients share them. Manifests are read without torch."""

from typing import TYPE_CHECKING

from fedcopl_lab._lazy import lazy_names
from fedcopl_lab.data._manifests import Manifest, known_manifests, load_manifest, manifest_folder, read_manifest_table

if TYPE_CHECKING:
    from fedcopl_lab.data._cache import CachedImages, cached_images
    from fedcopl_lab.data._channel_statistics import ChannelStatistics, channel_statistics
    from fedcopl_lab.data._datasets import PAPER_DATASETS, Dataset, load_dataset
    from fedcopl_lab.data._dirichlet import dirichlet_partition
    from fedcopl_lab.data._download import DownloadError
    from fedcopl_lab.data._federation import Federation, partition
    from fedcopl_lab.data._fetch import Verification, download_of, get, state_of, verify
    from fedcopl_lab.data._heterogeneity import Heterogeneity, heterogeneity
    from fedcopl_lab.data._iid import iid_partition
    from fedcopl_lab.data._operations import OPERATIONS, apply_operation
    from fedcopl_lab.data._quantity import quantity_partition
    from fedcopl_lab.data._readers import read_source
    from fedcopl_lab.data._resize import resized
    from fedcopl_lab.data._roots import data_root
    from fedcopl_lab.data._sage import sage_partition
    from fedcopl_lab.data._shards import Shard
    from fedcopl_lab.data._sources import ImageSource
    from fedcopl_lab.data._split_table import restore_federation, split_table
    from fedcopl_lab.data._views import (
        StrongDraws,
        WeakDraws,
        draw_strong,
        draw_weak,
        normalise,
        strong_view,
        weak_view,
    )

__all__ = [
    "OPERATIONS",
    "PAPER_DATASETS",
    "CachedImages",
    "ChannelStatistics",
    "Dataset",
    "DownloadError",
    "Federation",
    "Heterogeneity",
    "ImageSource",
    "Manifest",
    "Shard",
    "StrongDraws",
    "Verification",
    "WeakDraws",
    "apply_operation",
    "cached_images",
    "channel_statistics",
    "data_root",
    "dirichlet_partition",
    "download_of",
    "draw_strong",
    "draw_weak",
    "get",
    "heterogeneity",
    "iid_partition",
    "known_manifests",
    "load_dataset",
    "load_manifest",
    "manifest_folder",
    "normalise",
    "partition",
    "quantity_partition",
    "read_manifest_table",
    "read_source",
    "resized",
    "restore_federation",
    "sage_partition",
    "split_table",
    "state_of",
    "strong_view",
    "verify",
    "weak_view",
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
        **dict.fromkeys(("OPERATIONS", "apply_operation"), "._operations"),
        **dict.fromkeys(("ChannelStatistics", "channel_statistics"), "._channel_statistics"),
        **dict.fromkeys(
            ("StrongDraws", "WeakDraws", "draw_strong", "draw_weak", "normalise", "strong_view", "weak_view"), "._views"
        ),
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
