"""Engines: what runs a method over its rounds and writes to the store."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "run": "._local",
        "sweep": "._sweep",
        "shard_of": "._sweep",
        "ray_sweep": "._ray",
        "environment": "._environment",
        "bench_step": "._bench",
        "bench_sage": "._bench_sage",
        "plan_run": "._plan",
        "plan_semi_run": "._semi_plan",
        "measure_rates": "._rates",
    },
)
