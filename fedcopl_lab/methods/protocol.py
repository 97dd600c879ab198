"""The round protocol: letters from a method's server half to its client halves, their answers, and one process of both.

A server half plans a round, asks its clients through an :class:`Exchange` and merges what comes back. A client half
answers from its own images and from the entries that it kept. :class:`InProcess` hands the letters over;
``fedcopl_lab.extras.federation`` sends them between machines.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedcopl_lab.config import RunConfig
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import aggregate

Kind = Literal["score", "select", "train", "recalibrate", "evaluate"]
"""``score``: score your images for a label phase; ``select``: choose pseudo-labels by a quota; ``train``: one round;
``recalibrate``: measure running statistics; ``evaluate``: test."""

Tensors = dict[str, Tensor]
MOMENTUM = "momentum."
"""Prefix of SGD buffers in the entry of a training."""


@dataclass(frozen=True, repr=False)
class Letter:
    """From the server to one client.

    Attributes:
        kind: what the client is asked to do.
        round: completed rounds.
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
        client: its number.
        kind: what it was asked.
        round: the letter's round.
        tensors: what it sends.
        numbers: counts that the server needs beside them, such as the selected images.
        refusal: why it did not do what it was asked; empty when it did.
        delivered: False where the carrier knew no node to bring the letter to.
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


@dataclass(frozen=True)
class Expected:
    """What an answer must hold."""

    # tensors of the right names, shapes and types; whole numbers among them are counts, 0 or more
    like: Mapping[str, Tensor] = field(default_factory=dict)
    more: bool = False  # whether others may come with them
    numbers: Mapping[str, int] = field(default_factory=dict)  # the largest that each number may be; none may be below 0


@dataclass(frozen=True)
class Mean:
    """The weighted mean of what some clients sent, and those clients, rising."""

    tensors: Mapping[str, Tensor]
    clients: Sequence[int]


class Exchange(ABC):
    """What a server half asks its clients through.

    Attributes:
        entries: kind of letter -> client -> what the client entered, where the exchange gets to see it.
    """

    def __init__(self) -> None:
        self.entries: dict[str, dict[int, Tensors]] = {}

    @abstractmethod
    def ask(self, letters: Mapping[int, Letter], expected: Expected) -> dict[int, Answer]:
        """Send letters by client, all of one kind and round; the answers that count, in rising order of clients."""

    def mean(self, letters: Mapping[int, Letter], like: Mapping[str, Tensor], weights: Mapping[int, int]) -> Mean:
        """Send letters; the mean of the answers, which hold tensors ``like`` these, weights divided by their sum."""
        answers = self.ask(letters, Expected(like))
        share = torch.tensor([weights[client] for client in answers])
        stacks = {n: torch.stack([a.tensors[n] for a in answers.values()]).to(one.device) for n, one in like.items()}
        return Mean({name: aggregate(stack, share) for name, stack in stacks.items()}, list(answers))


@runtime_checkable
class Kept(Protocol):
    """What one client kept: entries by kind of letter and round."""

    def read(self, kind: str, round_index: int) -> Tensors:
        """The entry of a round; empty when there is none."""

    def latest(self, kind: str, before: int) -> Tensors:
        """The last entry of a kind from a round below ``before``; empty when there is none."""


class KeptInMemory:
    """What one client kept, for the length of one round in this process: the last entry of each kind."""

    def __init__(self, entries: Mapping[str, Tensors]) -> None:
        self.entries = dict(entries)

    def read(self, kind: str, round_index: int) -> Tensors:
        """See :meth:`Kept.read`."""
        return self.entries.get(kind, {})

    def latest(self, kind: str, before: int) -> Tensors:
        """See :meth:`Kept.latest`."""
        return self.entries.get(kind, {})


class ClientHalf(ABC):
    """One client of a method: does what letters ask, with its own images and what it kept.

    Args:
        setting: data and model; only this client's images are read.
        client: its number.
        kept: entries of earlier letters.
    """

    kinds: ClassVar[tuple[str, ...]]
    """Letters that it understands, in the order of a round: each needs the entries of those before it."""

    def __init__(self, setting: Any, client: int, kept: Kept) -> None:
        self.setting, self.client, self.kept = setting, client, kept

    @abstractmethod
    def work(self, letter: Letter) -> Tensors:
        """Do what a letter asks: the entry to be kept, never empty."""

    @classmethod
    def work_together(cls, clients: Sequence[Any], letters: Sequence[Letter]) -> list[Tensors]:
        """The entries of several clients; a method may compute them in one pass, with the same numbers."""
        return [client.work(letter) for client, letter in zip(clients, letters, strict=True)]

    @abstractmethod
    def reply(self, letter: Letter, entry: Mapping[str, Tensor]) -> Answer:
        """The part of an entry that is sent."""


class InProcess(Exchange):
    """Clients in this process, whose answers are trusted.

    Args:
        clients: client halves that keep their entries in memory, by number.
        together: clients whose work may share a pass.
        momentum: SGD buffers that go from client to client, under :data:`MOMENTUM`; None where each has its own.
    """

    def __init__(self, clients: Mapping[int, ClientHalf], together: int = 1, momentum: Tensors | None = None) -> None:
        super().__init__()
        self.clients, self.together, self.momentum = clients, together, momentum

    def ask(self, letters: Mapping[int, Letter], expected: Expected) -> dict[int, Answer]:
        """See :meth:`Exchange.ask`."""
        answers, order = {}, list(letters)
        for first in range(0, len(order), self.together):
            group = [self.clients[k] for k in order[first : first + self.together]]
            asked = [letters[one.client] for one in group]
            if self.momentum is not None:
                _memory_of(group[0])["momentum"] = self.momentum
            for one, letter, entry in zip(group, asked, type(group[0]).work_together(group, asked), strict=True):
                _memory_of(one)[letter.kind] = self.entries.setdefault(letter.kind, {})[one.client] = entry
                answers[one.client] = one.reply(letter, entry)
                if self.momentum is not None and letter.kind == "train":
                    self.momentum = {name: value for name, value in entry.items() if name.startswith(MOMENTUM)}
        return dict(sorted(answers.items()))


def _memory_of(client: ClientHalf) -> dict[str, Tensors]:
    assert isinstance(client.kept, KeptInMemory)
    return client.kept.entries


def draw_participants(config: RunConfig, seed: int, round_index: int) -> list[int]:
    """The clients that are asked to take part in the round after so many, in rising order."""
    generator = torch_generator(seed, "participation", round_index)
    return torch.randperm(config.n_clients, generator=generator)[: config.clients_per_round].sort().values.tolist()


def payload(tensors: Mapping[str, Tensor]) -> int:
    """Bytes of some tensors, without names, shapes and envelopes."""
    return sum(value.nbytes for value in tensors.values())


def grouped(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors whose names start with a prefix, without it.

    >>> grouped({"model/w": torch.ones(1), "loss/x": torch.ones(1)}, "model/")
    {'w': tensor([1.])}
    """
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def named(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The inverse of :func:`grouped`."""
    return {f"{prefix}{name}": value for name, value in tensors.items()}
