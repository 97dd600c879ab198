"""Where a run was computed: machine and versions, for the provenance of every number."""

import os
import platform
from importlib.metadata import version
from typing import Any

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


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
