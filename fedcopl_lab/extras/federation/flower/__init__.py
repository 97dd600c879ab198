"""Flower carries the federation: in simulation on one machine, or between machines."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FlowerCarrier": "._carrier",
        "client_app": "._apps",
        "need": "._need",
        "server_app": "._apps",
        "simulate": "._simulate",
    },
)
