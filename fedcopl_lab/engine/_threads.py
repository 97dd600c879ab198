"""The thread count of a run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def thread_count(wanted: int) -> Iterator[None]:
    """Run with the thread count that the run key names: another count may round sums differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
