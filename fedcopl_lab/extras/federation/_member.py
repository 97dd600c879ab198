"""One client of a federation on a machine of its own: answers letters from its own files, and notes what it did."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import read_tensors, tensor_bytes, write_atomic
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.extras.federation._federation_files import ClientImages, Terms
from fedcopl_lab.methods import ClientHalf, PromptClient, PromptSetting, SageClient
from fedcopl_lab.methods.protocol import Answer, Letter

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
        entry = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        entry[_DIGEST] = torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8)
        write_atomic(self._path(kind, round_index), tensor_bytes(entry))
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


class Member:
    """The client half of a method with its own images and a journal on its disk.

    A letter that was obeyed already gets the same answer again from the journal, and nothing is done twice. A
    letter of a round before the journal's newest is refused: it comes late, or from a server that lost rounds.

    ``open_setting`` is one of the same run in this process, whose frozen model is used again.
    """

    def __init__(
        self, terms: Terms, images: ClientImages, journal: Journal, open_setting: PromptSetting | None = None
    ) -> None:
        self.terms, self.images, self.journal = terms, images, journal
        self.client = images.client
        self._open_setting = open_setting

    @cached_property
    def half(self) -> ClientHalf:
        """What does the work."""
        setting = self.terms.setting(self.images, self._open_setting)
        if isinstance(setting, PromptSetting):
            return PromptClient(setting, self.client, self.journal, self.terms.secret_noise)
        return SageClient(setting, self.client, self.journal)

    def answer(self, letter: Letter) -> Answer:
        """Do what a letter asks, or say why not; a mistake of one client never ends the federation."""
        try:
            self._check(letter)
            with torch_threads(self.terms.config.threads):
                digest = digest_of(letter, self.terms.key)
                entry = self.journal.done(letter.kind, letter.round, digest)
                if not entry:
                    entry = self.half.work(letter)
                    for later in self.half.kinds[self.half.kinds.index(letter.kind) + 1 :]:
                        self.journal.forget(later, letter.round)  # it came from what is done again
                    self.journal.write(letter.kind, letter.round, digest, entry)
                return self.half.reply(letter, entry)
        except FedCoPLError as error:
            return Answer(self.client, letter.kind, letter.round, refusal=str(error))

    def _check(self, letter: Letter) -> None:
        if letter.kind not in self.half.kinds:
            raise FedCoPLError(f"{letter.kind!r} means nothing to {self.terms.config.method}")
        newest = self.journal.newest()
        if letter.round < newest:
            raise FedCoPLError(f"the letter is of round {letter.round}, this client is at {newest} already")
        for name, value in letter.tensors.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise FedCoPLError(f"the letter brings {name} with values that are no numbers")

    def __repr__(self) -> str:
        return f"Member({self.images}, {self.terms.config.label})"


def digest_of(letter: Letter, key: str) -> str:
    """Checksum of a letter of the run with this key."""
    return hashlib.sha256(f"{key}/{letter.digest}".encode()).hexdigest()


def open_member(folder: Path | str) -> Member:
    """The client whose files are in a folder.

    Args:
        folder: from :func:`fedcopl_lab.extras.federation.split`.
    """
    folder = Path(folder)
    return Member(Terms.read(folder), ClientImages.read(folder), Journal(folder / "journal"))
