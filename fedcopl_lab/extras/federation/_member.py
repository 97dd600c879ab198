"""One client of a federation: answers letters from its own files alone."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.extras.federation._journal import Journal
from fedcopl_lab.extras.federation._letters import Answer, Letter
from fedcopl_lab.extras.federation._shards import OwnImages, Terms


class Member(ABC):
    """A client with its own images and journal.

    A letter that was obeyed already gets the same answer again from the journal, and nothing is done twice. A
    letter of a round that lies behind the journal is refused: it comes late, or from a server that lost rounds.

    Args:
        terms: of the federation.
        images: its own.
        journal: its own.
    """

    kinds: ClassVar[tuple[str, ...]]
    """Letters that it understands, in the order of a round: each leans on those before it."""

    def __init__(self, terms: Terms, images: OwnImages, journal: Journal) -> None:
        self.terms, self.images, self.journal = terms, images, journal
        self.client = images.client

    def answer(self, letter: Letter) -> Answer:
        """Do what a letter asks, or say why not; a mistake of one client never ends the federation."""
        try:
            self._check(letter)
            with torch_threads(self.terms.config.threads):
                digest = hashlib.sha256(f"{self.terms.key}/{letter.digest}".encode()).hexdigest()
                entry = self.journal.done(letter.kind, letter.round, digest)
                if not entry:
                    entry = self.work(letter)
                    for later in self.kinds[self.kinds.index(letter.kind) + 1 :]:
                        self.journal.forget(later, letter.round)  # it came from what is done anew
                    self.journal.write(letter.kind, letter.round, digest, entry)
                return self.reply(letter, entry)
        except FedCoPLError as error:
            return Answer(self.client, letter.kind, letter.round, refusal=str(error))

    def _check(self, letter: Letter) -> None:
        if letter.kind not in self.kinds:
            raise FedCoPLError(f"{letter.kind!r} means nothing to {self.terms.config.method}")
        newest = self.journal.newest()
        if letter.round < newest:
            raise FedCoPLError(f"the letter is of round {letter.round}, this client is at {newest} already")
        for name, value in letter.tensors.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise FedCoPLError(f"the letter brings {name} with values that are no numbers")

    @abstractmethod
    def work(self, letter: Letter) -> dict[str, Tensor]:
        """What a letter makes the client do, as the entry of its journal; never empty."""

    @abstractmethod
    def reply(self, letter: Letter, entry: Mapping[str, Tensor]) -> Answer:
        """The part of an entry that is sent."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.images}, {self.terms.config.label})"


def open_member(folder: Path | str, keep: int | None = None) -> Member:
    """The client whose files are in a folder.

    Args:
        folder: from :func:`fedcopl_lab.extras.federation.split`.
        keep: rounds of the journal that stay, two or more; None keeps all.
    """
    from fedcopl_lab.extras.federation._prompt_member import PromptMember
    from fedcopl_lab.extras.federation._semi_member import SemiMember

    folder = Path(folder)
    terms = Terms.read(folder)
    kind = PromptMember if isinstance(terms.config, PromptConfig) else SemiMember
    return kind(terms, OwnImages.read(folder), Journal(folder / "journal", keep))
