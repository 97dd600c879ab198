"""Flower carries the federation: in simulation on one machine, or between machines.

Flower and Ray come with the extra ``cluster`` and are loaded only when asked for.
"""

import importlib
import os
from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"._carrier": "FlowerCarrier", "._apps": "client_app server_app simulate"})

HELLO = "hello"
"""What a node is asked first: which client's files it holds."""


def need(module: str) -> Any:
    """Import a module of the extra.

    Flower reports its use to its makers unless told otherwise; here it does not, unless
    ``FLWR_TELEMETRY_ENABLED`` is set already. The same for Ray and ``RAY_USAGE_STATS_ENABLED``.

    Raises:
        FedCoPLError: the extra is not installed.
    """
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise FedCoPLError(
            f"{package} is not installed; it comes with the extra: pip install '.[cluster]' in a checkout"
        ) from error
