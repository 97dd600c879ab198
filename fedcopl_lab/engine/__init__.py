"""Engines: what runs a method over its rounds and writes to the store."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("run", "begin"), "._run"),
        **dict.fromkeys(("round", "run_rounds", "starting_state"), "._rounds"),
        **dict.fromkeys(
            ("sweep", "computed", "shard_of", "in_order", "same_tokens", "n_rounds", "show_stored", "POLL_SECONDS"),
            "._sweep",
        ),
        **dict.fromkeys(("import_methods", "modules_of_methods"), "._sweep"),
        **dict.fromkeys(("environment", "check_device", "keep_freed_memory", "return_freed_memory"), "._machine"),
        **dict.fromkeys(("base_bytes", "peak_bytes", "profiled"), "._machine"),
    },
)
