"""The machine: its devices and memory, and where a run was computed, for the provenance of every number."""

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from fedcopl_lab._errors import FedCoPLError

PACKAGES = ("fedcopl-lab", "torch", "torchvision", "open_clip_torch", "numpy", "scikit-learn", "safetensors")

_LIBRARIES = 800_000_000  # what torch, torchvision and open_clip take where the system does not tell
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # glibc's malloc.h
_DEFAULT_TRIM_THRESHOLD, _DEFAULT_MMAP_MAX = 128 * 1024, 65536


def environment(device: str, threads: int) -> dict[str, Any]:
    """Processor with its instructions or GPU, operating system, Python and package versions.

    >>> environment("cpu", 1)["threads"]
    1
    """
    return {
        "hardware": torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def check_device(device: str) -> None:
    """Say which devices there are when the one asked for is not."""
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
        names = [platform.processor()]
    instructions = torch.backends.cpu.get_cpu_capability()  # which rounding depends on, such as AVX512
    return f"{next(filter(None, names), platform.machine())}, {instructions}"


@lru_cache
def keep_freed_memory() -> bool:
    """Let glibc keep freed memory, so that each step's large tensors do not cost page faults again.

    Changes no number. The process keeps its largest size until it ends. False where there is no glibc.
    """
    return _mallopt(mmap_max=0, trim_threshold=2**31 - 1)


def return_freed_memory() -> bool:
    """Undo :func:`keep_freed_memory`, for comparisons: what is free goes back now. False where there is no glibc."""
    keep_freed_memory.cache_clear()
    done = _mallopt(mmap_max=_DEFAULT_MMAP_MAX, trim_threshold=_DEFAULT_TRIM_THRESHOLD)
    if done:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return done


def _mallopt(mmap_max: int, trim_threshold: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, mmap_max)) and bool(mallopt(_M_TRIM_THRESHOLD, trim_threshold))


@lru_cache
def base_bytes() -> int:
    """Memory of this process when first asked: Python and its libraries, before any model or data."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _LIBRARIES


def peak_bytes() -> int:
    """Largest memory of this process so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def profiled(work: Callable[[], Any], device: str) -> tuple[int, dict[str, float]]:
    """Largest number of tensor bytes alive at once during some work, and seconds by kind of operation.

    Args:
        work: what to run; tensors that were there before do not count.
        device: ``"cpu"`` or a CUDA device.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler talks on stderr
    on_card = device.startswith("cuda")
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_card else [])
    if on_card:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with profile(activities=activities, profile_memory=True, acc_events=True) as record:
        work()
        if on_card:
            torch.cuda.synchronize()
    kinds: dict[str, float] = {}
    for event in record.key_averages():
        micros = event.self_device_time_total if on_card else event.self_cpu_time_total
        kinds[_kind(event.key)] = kinds.get(_kind(event.key), 0.0) + micros / 1e6
    if on_card:
        return torch.cuda.max_memory_allocated() - before, kinds
    events = record.profiler.kineto_results.events()
    changes = sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns())
    return max(accumulate((event.nbytes() for event in changes), initial=0)), kinds


_KINDS = {  # the first that fits counts
    "attention": ("attention", "flash", "fmha", "::bmm", "::baddbmm", "::_softmax", "::masked_fill"),
    "norms": ("layer_norm", "layernorm"),
    "activation": ("silu", "gelu", "sigmoid"),
    "matrix products": ("mm", "linear", "convolution", "gemm", "cutlass", "matmul", "nvjet"),
    "copies": ("copy", "cat", "index", "fill", "zero", "gather", "repeat", "clone", "memset", "memcpy"),
}


def _kind(operation: str) -> str:
    name = operation.lower()
    return next((kind for kind, parts in _KINDS.items() if any(part in name for part in parts)), "rest")
