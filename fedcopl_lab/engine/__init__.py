"""Engines: what runs a method over its rounds and writes to the store."""

from fedcopl_lab._lazy import lazy_names

_NAMES = {
    "._run": "run begin",
    "._rounds": "round run_rounds starting_state",
    "._sweep": "sweep computed shard_of in_order same_tokens n_rounds show_stored POLL_SECONDS import_methods "
    "modules_of_methods",
    "._machine": "environment check_device keep_freed_memory return_freed_memory base_bytes peak_bytes profiled",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
