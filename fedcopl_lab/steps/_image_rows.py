"""Some images of a large set, gathered only when a batch of them is taken."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab._card import onto


@dataclass(frozen=True, repr=False)
class ImageRows:
    """Rows of a tensor of images that nobody copies as a whole.

    Attributes:
        whole: pixels or image tokens of all images, on the device or in (pinned) memory, [n_all, …].
        rows: which of them, where ``whole`` is, [n].
        device: where batches are wanted.

    >>> rows = ImageRows(torch.arange(5.0)[:, None], torch.tensor([4, 2]), torch.device("cpu"))
    >>> rows[torch.tensor([1])]
    tensor([[2.]])
    """

    whole: Float[Tensor, "n_all *image"]
    rows: Int[Tensor, "n"]
    device: torch.device

    @classmethod
    def of(cls, whole: Tensor, rows: Tensor, device: torch.device | str) -> "ImageRows":
        """Rows that are counted from 0 in ``whole``."""
        return cls(whole, rows.to(whole.device), torch.device(device))

    @property
    def waits_in_memory(self) -> bool:
        """Whether batches come from the machine's memory, so that their places should be there too."""
        return self.whole.device.type == "cpu"

    def part(self, places: Int[Tensor, "m"]) -> "ImageRows":
        """Some of these rows."""
        return ImageRows(self.whole, self.rows[places.to(self.rows.device)], self.device)

    def split(self, size: int) -> Iterator[Tensor]:
        """All rows in batches of that size."""
        return (onto(self.whole[rows], self.device) for rows in self.rows.split(size))

    def __getitem__(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b *image"]:
        return onto(self.whole[self.rows[places.to(self.rows.device)]], self.device)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"ImageRows({len(self)} of {len(self.whole)} images)"
