"""A client's own disk: what it did in each round, so that a restart loses nothing and no letter is obeyed twice."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import read_tensors, write_atomic

_DIGEST = "letter digest"


class Journal:
    """Entries by kind and round, each a file that is there whole or not at all.

    What a client keeps, its text prompt above all, is read from here at the start of every letter: a client
    that was killed and started again goes on as if nothing had happened.

    Args:
        folder: the client's own.
        keep: rounds whose entries stay, two or more, so that the last one can be done again; None keeps all, which
            :func:`collect` needs to make a stored run.
    """

    def __init__(self, folder: Path, keep: int | None = None) -> None:
        if keep is not None and keep < 2:
            raise FedCoPLError(f"keep={keep} leaves nothing to do a round again from; keep 2 or more, or None")
        self.folder, self.keep = folder, keep

    def write(self, kind: str, round_index: int, digest: str, tensors: Mapping[str, Tensor]) -> None:
        """Enter what was done for a letter."""
        from safetensors.torch import save

        entry = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        entry[_DIGEST] = torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8)
        write_atomic(self._path(kind, round_index), save(entry))
        if self.keep is not None:
            for old in self.rounds(kind)[: -self.keep]:
                self._path(kind, old).unlink()

    def read(self, kind: str, round_index: int) -> dict[str, Tensor]:
        """The entry of a round; empty when there is none."""
        return self._entry(kind, round_index)[0]

    def done(self, kind: str, round_index: int, digest: str) -> dict[str, Tensor]:
        """The entry that was made for this very letter; empty when it is new."""
        entry, made_for = self._entry(kind, round_index)
        return entry if made_for == digest else {}

    def forget(self, kind: str, round_index: int) -> None:
        """Remove the entry of a round, where there is one."""
        self._path(kind, round_index).unlink(missing_ok=True)

    def latest(self, kind: str, before: int) -> dict[str, Tensor]:
        """The last entry of a kind from a round below ``before``; empty when there is none."""
        earlier = [number for number in self.rounds(kind) if number < before]
        return self.read(kind, earlier[-1]) if earlier else {}

    def rounds(self, kind: str) -> list[int]:
        """The rounds that have an entry of a kind, rising."""
        return sorted(int(path.stem.rsplit("-", 1)[1]) for path in self.folder.glob(f"{kind}-[0-9]*.safetensors"))

    def newest(self) -> int:
        """The highest round of any entry, -1 before the first."""
        return max(self.rounds("*"), default=-1)

    def _entry(self, kind: str, round_index: int) -> tuple[dict[str, Tensor], str]:
        """The entry of a round and the digest of its letter, both empty when there is none."""
        path = self._path(kind, round_index)
        entry = read_tensors(path) if path.is_file() else {}
        digest = entry.pop(_DIGEST, None)
        return entry, "" if digest is None else bytes(digest.tolist()).hex()

    def _path(self, kind: str, round_index: int) -> Path:
        return self.folder / f"{kind}-{round_index:04d}.safetensors"
