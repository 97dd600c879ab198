"""Sweeps over many workers or machines: leases on runs in a shared store, and Ray."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("holder_of", "lease", "run_claimed"), ".leases"),
        **dict.fromkeys(("needs_of", "ray_sweep"), ".ray_workers"),
    },
)
