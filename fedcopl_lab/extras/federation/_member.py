"""One client of a federation on a machine of its own: answers letters from its own files alone."""

import hashlib
from functools import cached_property
from pathlib import Path

import torch

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.extras.federation._federation_files import ClientImages, Terms
from fedcopl_lab.extras.federation._journal import Journal
from fedcopl_lab.methods import ClientHalf, PromptClient, SageClient, Setting
from fedcopl_lab.methods.protocol import Answer, Letter


class Member:
    """The client half of a method with its own images and a journal on its disk.

    A letter that was obeyed already gets the same answer again from the journal, and nothing is done twice. A
    letter of a round before the journal's newest is refused: it comes late, or from a server that lost rounds.

    Args:
        terms: of the federation.
        images: its own.
        journal: its own.
        open_setting: a setting of the same run in this process, whose frozen model is used again.
    """

    def __init__(
        self, terms: Terms, images: ClientImages, journal: Journal, open_setting: Setting | None = None
    ) -> None:
        self.terms, self.images, self.journal = terms, images, journal
        self.client = images.client
        self._open_setting = open_setting

    @cached_property
    def half(self) -> ClientHalf:
        """What does the work."""
        setting = self.terms.setting(self.images, self._open_setting)
        if isinstance(setting, Setting):
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


def open_member(folder: Path | str, keep: int | None = None) -> Member:
    """The client whose files are in a folder.

    Args:
        folder: from :func:`fedcopl_lab.extras.federation.split`.
        keep: rounds of the journal that stay, two or more; None keeps all.
    """
    folder = Path(folder)
    return Member(Terms.read(folder), ClientImages.read(folder), Journal(folder / "journal", keep))
