"""Sweeps over many workers or machines: leases on runs in a shared store, and Ray."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {"lease": ".leases", "ray_sweep": ".ray_workers", "run_claimed": ".claimed"}
)
