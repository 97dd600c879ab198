"""What crosses the wire between the server and one client: named tensors and a few numbers, nothing else."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

Kind = Literal["score", "select", "train", "recalibrate", "evaluate"]
"""``score``: score your images for a label phase; ``select``: choose pseudo-labels by a quota; ``train``: one round;
``recalibrate``: measure running statistics; ``evaluate``: test."""


@dataclass(frozen=True, repr=False)
class Letter:
    """From the server to one client.

    Attributes:
        kind: what the client is asked to do.
        round: rounds that lie behind.
        tensors: what it needs for that.
    """

    kind: Kind
    round: int
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors."""
        return payload(self.tensors)

    @property
    def digest(self) -> str:
        """Checksum of everything in it: two letters with one digest ask for the same."""
        digest = hashlib.sha256(f"{self.kind}/{self.round}".encode())
        for name in sorted(self.tensors):
            value = self.tensors[name].detach().cpu().contiguous()
            digest.update(f"/{name}/{value.dtype}/{tuple(value.shape)}/".encode())
            digest.update(value.numpy().tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"Letter({self.kind}, after round {self.round}, {self.nbytes:,} bytes)"


@dataclass(frozen=True, repr=False)
class Answer:
    """From one client to the server.

    Attributes:
        client: who answers.
        kind: what it was asked.
        round: the letter's round.
        tensors: what it sends.
        numbers: counts that the server needs beside them, such as the selected images.
        refusal: why it did not do what it was asked; empty when it did.
        delivered: False where the carrier knew nobody to bring the letter to.
    """

    client: int
    kind: str
    round: int
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    refusal: str = ""
    delivered: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors."""
        return payload(self.tensors)

    def __repr__(self) -> str:
        what = f"refuses: {self.refusal}" if self.refusal else f"{self.nbytes:,} bytes"
        return f"Answer(client {self.client}, {self.kind}, after round {self.round}, {what})"


def payload(tensors: Mapping[str, Tensor]) -> int:
    """Bytes of some tensors, without names, shapes and envelopes."""
    return sum(value.nbytes for value in tensors.values())
