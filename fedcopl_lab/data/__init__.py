"""Data: manifests, data sets, and how clients share them. Manifests are read without torch."""

from typing import TYPE_CHECKING

from fedcopl_lab._lazy import lazy_names
from fedcopl_lab.data._manifests import Manifest, known_manifests, load_manifest, manifest_folder, read_manifest_table

if TYPE_CHECKING:
    from fedcopl_lab.data._augmentations import OPERATIONS
    from fedcopl_lab.data._datasets import PAPER_DATASETS, Dataset, load_dataset
    from fedcopl_lab.data._download import DownloadError
    from fedcopl_lab.data._fedcopl_partition import dirichlet_partition, iid_partition, quantity_partition
    from fedcopl_lab.data._federation import Federation, Heterogeneity, heterogeneity, restore_federation, split_table
    from fedcopl_lab.data._folders import data_root, set_folder, weights_folders
    from fedcopl_lab.data._image_cache import CachedImages, cached_images, resized
    from fedcopl_lab.data._image_source import ImageSource
    from fedcopl_lab.data._installed import Verification, download_of, get, state_of, verify
    from fedcopl_lab.data._partition import fedcopl_shards, partition
    from fedcopl_lab.data._parts import (
        SEEN_SETS,
        PartName,
        counts_of,
        positions_sha256,
        seen_positions,
        seen_sha256,
        split_name,
    )
    from fedcopl_lab.data._readers import read_source
    from fedcopl_lab.data._sage_partition import sage_partition
    from fedcopl_lab.data._shard import Shard
    from fedcopl_lab.data._views import (
        PAD_SHARE,
        ChannelStatistics,
        StrongDraws,
        WeakDraws,
        channel_statistics,
        check_pixels,
        draw_strong,
        draw_weak,
        holes,
        normalise,
        strong_view,
        weak_view,
    )

__all__ = ["OPERATIONS", "PAD_SHARE", "PAPER_DATASETS", "SEEN_SETS", "CachedImages", "ChannelStatistics", "Dataset",
           "DownloadError", "Federation", "Heterogeneity", "ImageSource", "Manifest", "PartName", "Shard",
           "StrongDraws", "Verification", "WeakDraws", "cached_images", "channel_statistics", "check_pixels",
           "counts_of", "data_root", "dirichlet_partition", "download_of", "draw_strong", "draw_weak",
           "fedcopl_shards", "get", "heterogeneity", "holes", "iid_partition", "known_manifests", "load_dataset",
           "load_manifest", "manifest_folder", "normalise", "partition", "positions_sha256", "quantity_partition",
           "read_manifest_table", "read_source", "resized", "restore_federation", "sage_partition",
           "seen_positions", "seen_sha256", "set_folder", "split_name", "split_table", "state_of", "strong_view",
           "verify", "weak_view", "weights_folders"]  # fmt: skip

_NAMES = {
    "._datasets": "PAPER_DATASETS Dataset load_dataset",
    "._download": "DownloadError",
    "._fedcopl_partition": "dirichlet_partition iid_partition quantity_partition",
    "._federation": "Federation Heterogeneity heterogeneity restore_federation split_table",
    "._installed": "Verification download_of get state_of verify",
    "._folders": "data_root set_folder weights_folders",
    "._image_cache": "CachedImages cached_images resized",
    "._image_source": "ImageSource",
    "._augmentations": "OPERATIONS",
    "._partition": "fedcopl_shards partition",
    "._parts": "SEEN_SETS PartName counts_of positions_sha256 seen_positions seen_sha256 split_name",
    "._readers": "read_source",
    "._sage_partition": "sage_partition",
    "._shard": "Shard",
    "._views": "PAD_SHARE ChannelStatistics StrongDraws WeakDraws channel_statistics check_pixels draw_strong "
    "draw_weak holes normalise strong_view weak_view",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
