"""The run key of a configuration, from the manifests alone: planning and reporting need no data and no torch."""

import hashlib
from functools import cache, lru_cache
from pathlib import Path

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import REGISTERED, PromptConfig, RunConfig, SageConfig, run_key
from fedcopl_lab.data import SEEN_SETS, known_manifests, load_manifest, read_manifest_table, seen_sha256, split_name


def key_of(config: RunConfig) -> str:
    """The run key of a configuration; loading checks that data and weights are those of the manifests."""
    version = REGISTERED[config.method].version if config.method in REGISTERED else 0
    return _key_of(config, version, _folder_state(config.dataset))


@cache
def _key_of(config: RunConfig, _version: int, state: int) -> str:
    weights = _weights_sha(config.clip, config.weights) if isinstance(config, PromptConfig) else "from scratch"
    if isinstance(config, SageConfig) and config.start != "drawn":
        weights = _weights_sha(config.start, "pretrained")
    return run_key(config, data_sha=_data_sha(config.dataset, state), weights_sha=weights)


def has_key(config: RunConfig) -> bool:
    """Whether the data and weights of a run have a known content, without which it has no key."""
    if isinstance(config, PromptConfig) and not _is_known_clip(config.clip):
        return False
    try:
        key_of(config)
    except FedCoPLError:  # says how to get them, with this machine's paths: not for a table that is committed
        return False
    return True


def _folder_state(name: str) -> int:
    """A number that changes with the files of ``folder:PATH``; 0 for every other data set."""
    if not name.startswith("folder:"):
        return 0
    root = Path(name.removeprefix("folder:")).expanduser()  # CLASS/IMAGE or PART/CLASS/IMAGE, links as well
    files = sorted(path for depth in ("*/*", "*/*/*") for path in root.glob(depth) if path.is_file())
    stats = [path.stat() for path in files]
    return hash((*files, *((stat.st_size, stat.st_mtime_ns) for stat in stats)))


@lru_cache
def _is_known_clip(name: str) -> bool:
    return name in known_manifests("weights")


@lru_cache
def _data_sha(name: str, _state: int = 0) -> str:
    if name in known_manifests("dataset") and load_manifest(name).content_known:
        manifest = load_manifest(name)
        pinned: tuple[str, ...] = (manifest.content_sha256, manifest.split_sha256)
    elif (part := split_name(name, SEEN_SETS)).unseen:  # a recorded draw: needs no images
        manifest = load_manifest(part.whole)
        pinned = (manifest.content_sha256, manifest.split_sha256, seen_sha256(part.whole), name)
    else:
        from fedcopl_lab.data import load_dataset  # a user's folder, or a set whose content no manifest pins

        dataset = load_dataset(name)  # any other name: says what is known
        manifest, pinned = dataset.manifest, (dataset.sha256,)
    parts = (*pinned, manifest.template, *manifest.classes)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@lru_cache
def _weights_sha(name: str, weights: str) -> str:
    if name not in known_manifests("weights"):
        from fedcopl_lab.models import load_clip

        load_clip(name, weights="random" if weights == "random" else None)  # says what is known and what to do
    return "random" if weights == "random" else str(read_manifest_table(name)["sha256"])
