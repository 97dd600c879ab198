"""What a CUDA card needs and a CPU does not: copies that nobody waits for, and a say in where TF32 is used."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def onto(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device; a card gets it from pinned memory, while this program goes on."""
    if torch.device(device).type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def memory_of(device: torch.device | str) -> int:
    """Bytes of memory that a card has in all."""
    return torch.cuda.get_device_properties(device).total_memory


@contextmanager
def tf32_in(convolutions: bool = False, matrices: bool = False) -> Iterator[None]:
    """Allow TF32 in these products alone, then put torch's switches back; by default all compute in full float32."""
    cudnn: Any = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32, matmul.allow_tf32 = convolutions, matrices
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before
