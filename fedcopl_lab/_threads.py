"""A fixed number of torch threads: another number may round sums differently, and a run key promises its bytes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with so many threads, as a recipe or a run key names them: another count may round sums differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
