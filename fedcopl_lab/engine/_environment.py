"""The machine: which devices it has, and where a run was computed, for the provenance of every number."""

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from fedcopl_lab._errors import FedCoPLError

PACKAGES = ("fedcopl-lab", "torch", "torchvision", "open_clip_torch", "numpy", "scikit-learn", "safetensors")


def environment(device: str, threads: int) -> dict[str, Any]:
    """Processor or GPU, operating system, Python and package versions.

    >>> environment("cpu", 1)["threads"]
    1
    """
    import torch

    hardware = torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor()
    return {
        "hardware": hardware,
        "cores": os.cpu_count(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def check_device(device: str) -> None:
    """Say which devices there are when the one asked for is not."""
    import torch

    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda", "mps"):
        raise FedCoPLError(f"device={device!r} is unknown; choose cpu, cuda or mps")
    there: dict[str, Callable[[], bool]] = {
        "cpu": lambda: True,
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if not there[kind]():
        raise FedCoPLError(f"device={device!r} is not available to torch {torch.__version__} here; use device='cpu'")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
