"""The smallest semi-supervised run whose rounds have all their steps."""

from fedcopl_lab import configure

SMALL = {"width": 0.25, "rounds": 2, "n_probe": 20}


def config_of(method="SAGE", **changes):
    return configure("smoke", method=method, **{**SMALL, **changes})
