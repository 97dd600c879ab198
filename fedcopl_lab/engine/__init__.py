"""Engines: what runs a method over its rounds and writes to the store."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {"run": "._local", "sweep": "._sweep", "shard_of": "._sweep", "environment": "._environment"}
)
