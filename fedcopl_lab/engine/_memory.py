"""Memory of the process: keep what was freed, and how much tensors took at most."""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

_LIBRARIES = 800_000_000  # what torch, torchvision and open_clip take where the system does not tell
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # glibc's malloc.h
_DEFAULT_TRIM_THRESHOLD, _DEFAULT_MMAP_MAX = 128 * 1024, 65536


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
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.startswith("cuda") else [])
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with profile(activities=activities, profile_memory=True, acc_events=True) as record:
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
    kinds: dict[str, float] = {}
    for event in record.key_averages():
        micros = event.self_device_time_total if device.startswith("cuda") else event.self_cpu_time_total
        kinds[_kind(event.key)] = kinds.get(_kind(event.key), 0.0) + micros / 1e6
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() - before, kinds
    changes = [
        (event.start_ns(), event.nbytes())
        for event in record.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    alive = peak = 0
    for _, size in sorted(changes, key=lambda change: change[0]):
        alive += size
        peak = max(peak, alive)
    return peak, kinds


_KINDS = {
    "matrix products": ("mm", "linear", "convolution", "gemm", "cutlass", "matmul", "nvjet"),
    "attention": ("attention", "flash", "fmha", "::bmm", "::baddbmm", "::_softmax", "::masked_fill"),
    "norms": ("layer_norm", "layernorm"),
    "activation": ("silu", "gelu", "sigmoid"),
    "copies": ("copy", "cat", "index", "fill", "zero", "gather", "repeat", "clone", "memset", "memcpy"),
}


def _kind(operation: str) -> str:
    name = operation.lower()
    order = ("attention", "norms", "activation", "matrix products", "copies")
    return next((kind for kind in order if any(part in name for part in _KINDS[kind])), "rest")
