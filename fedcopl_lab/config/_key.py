"""The name of a result: what goes into a run key."""

import hashlib
import json

from fedcopl_lab.config._run import RunConfig

NUMERICS = 2
"""Raised whenever a change of code changes a result, so that stored runs of older code are not reused."""


def run_key(config: RunConfig, *, data_sha: str, weights_sha: str) -> str:
    """The name of a result: a hash of everything that can change one of its numbers.

    Args:
        config: the run's configuration, seeds, device and thread count included.
        data_sha: sha256 of the data set's pixels, labels and split.
        weights_sha: sha256 of the frozen model's weights.

    Returns:
        16 hexadecimal digits.

    >>> config = configure("smoke")
    >>> len(run_key(config, data_sha="a", weights_sha="b"))
    16
    """
    identity = {
        "numerics": NUMERICS,
        "config": config.as_dict() | {"device": config.device.split(":")[0]},
        "data": data_sha,
        "weights": weights_sha,
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
