"""What every bench measures with: clocks, the machine's own matrix rate, and checks of what was asked for."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError, check_choice

DTYPES = ("fp32", "bf16")


def process_clock(device: str) -> Callable[[], float]:
    """Seconds of this process alone where it computes with one thread, so that other processes disturb less."""
    return time.process_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter


def timed(work: Callable[[], Any], device: str, clock: Callable[[], float] | None = None) -> float:
    """Seconds that a piece of work takes, the device's queue included; by :func:`process_clock` unless given."""
    clock = clock or process_clock(device)
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    start = clock()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return clock() - start


def median_time(work: Callable[[], Any], device: str, repeats: int) -> float:
    """Median seconds of repeated work."""
    return statistics.median(timed(work, device) for _ in range(repeats))


def matmul_rate(dtype: str, device: str = "cpu", seconds: float = 0.5) -> float:
    """Best rate of products of the sizes that the towers have, GFLOP/s: the ceiling of a step."""
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    best = 0.0
    for rows, inner, columns in ((3200, 768, 3072), (3200, 3072, 768), (3200, 768, 2304)):
        a = torch.randn(rows, inner, device=device, dtype=kind)
        b = torch.randn(columns, inner, device=device, dtype=kind)
        product = tf32_in(matrices=dtype == "tf32")(partial(F.linear, a, b))
        timed(product, device)
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            best = max(best, 2e-9 * rows * inner * columns / timed(product, device))
    return best


def load_average() -> float:
    """Processes that want a core, by the system's count of the last minute; 0 where it keeps none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def hardware_of(device: str) -> str:
    """The GPU's name, or ``"cpu"``."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"


def check_dtypes(dtypes: Sequence[str]) -> None:
    """Refuse types of matrix products that the bench does not know."""
    for dtype in dtypes:
        check_choice("dtype", dtype, (*DTYPES, "tf32"))


def check_counts(least: int = 1, **counts: int) -> None:
    """Refuse numbers below the least."""
    for name, value in counts.items():
        if value < least:
            raise FedCoPLError(f"{name}={value}; expected {least} or more")
