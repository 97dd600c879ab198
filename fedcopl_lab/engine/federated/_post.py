"""The server's post office: sends letters, waits, checks what comes back, and counts the bytes of both ways."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.engine.federated._letters import Answer, Letter


@runtime_checkable
class Carrier(Protocol):
    """Whatever brings letters to clients and answers back; nothing else of an engine differs."""

    def exchange(self, letters: Mapping[int, Letter]) -> Iterable[Answer]:
        """Deliver letters by client; the answers that come in time, in any order, perhaps not all of them."""

    def measured(self) -> dict[str, int]:
        """Bytes on the wire since the last call, where there is one: ``wire_up`` and ``wire_down``."""


@dataclass(frozen=True)
class Expected:
    """What the tensors of an answer must be.

    Attributes:
        like: tensors of the right names, shapes and types.
        more: whether others may come with them.
    """

    like: Mapping[str, Tensor] = field(default_factory=dict)
    more: bool = False

    def fault(self, tensors: Mapping[str, Tensor]) -> str:
        """What is wrong with some tensors; empty when nothing is."""
        missing = sorted(set(self.like) - set(tensors))
        surplus = sorted(set(tensors) - set(self.like))
        if missing or (surplus and not self.more):
            return f"sent {sorted(tensors)} instead of {sorted(self.like)}"
        for name, value in tensors.items():
            wanted = self.like.get(name)
            if wanted is not None and (value.shape, value.dtype) != (wanted.shape, wanted.dtype):
                return (
                    f"sent {name} as {value.dtype} {tuple(value.shape)} instead of {wanted.dtype} {tuple(wanted.shape)}"
                )
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                return f"sent {name} with values that are no numbers"
        return ""


@dataclass
class Traffic:
    """Bytes of tensors by client, and what went wrong, over one round.

    Attributes:
        up: client -> bytes that it sent and the server took.
        down: client -> bytes that it was sent.
        faults: (client, kind of letter, what happened) in the order noticed.
    """

    up: dict[int, int] = field(default_factory=dict)
    down: dict[int, int] = field(default_factory=dict)
    faults: list[tuple[int, str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """The same as plain values for a row."""
        return {
            "bytes_up": sum(self.up.values()),
            "bytes_down": sum(self.down.values()),
            "bytes_up_by_client": {str(k): self.up[k] for k in sorted(self.up)},
            "bytes_down_by_client": {str(k): self.down[k] for k in sorted(self.down)},
            "faults": [{"client": k, "kind": kind, "what": what} for k, kind, what in self.faults],
        }


class Post:
    """One round's correspondence.

    An answer counts when it is of this round, has what was asked for in the right shapes, and holds numbers
    only; of two from one client the first one counts. Whoever gives none has dropped out of what was asked.

    Args:
        carrier: what brings the letters.
    """

    def __init__(self, carrier: Carrier) -> None:
        self.carrier = carrier
        self.traffic = Traffic()

    def ask(self, letters: Mapping[int, Letter], expected: Expected) -> dict[int, Answer]:
        """Send letters; the answers that count, in rising order of clients.

        Args:
            letters: by client, all of one kind and round.
            expected: what the tensors of each answer must be.

        Raises:
            FedCoPLError: nobody answers.
        """
        if not letters:
            return {}
        for client, letter in letters.items():
            self._count(self.traffic.down, client, letter.nbytes)
        kind = next(iter(letters.values())).kind
        found: dict[int, Answer] = {}
        for answer in self.carrier.exchange(letters):
            fault = _fault(answer, letters, found, expected)
            if fault:
                self.traffic.faults.append((answer.client, kind, fault))
            else:
                found[answer.client] = answer
                self._count(self.traffic.up, answer.client, answer.nbytes)
        blamed = {client for client, asked, _ in self.traffic.faults if asked == kind}
        silent = sorted(set(letters) - set(found) - blamed)
        self.traffic.faults += [(client, kind, "did not answer in time") for client in silent]
        if not found:
            raise FedCoPLError(_nobody(kind, sorted(letters), self.traffic.faults))
        return dict(sorted(found.items()))

    def _count(self, book: dict[int, int], client: int, nbytes: int) -> None:
        book[client] = book.get(client, 0) + nbytes


def _fault(answer: Answer, letters: Mapping[int, Letter], found: Mapping[int, Answer], expected: Expected) -> str:
    letter = letters.get(answer.client)
    if letter is None:
        return "answered without having been asked"
    if answer.refusal:
        return f"refused: {answer.refusal}"
    if (answer.kind, answer.round) != (letter.kind, letter.round):
        return f"answered {answer.kind} of round {answer.round} instead of {letter.kind} of round {letter.round}"
    if answer.client in found:
        return "answered twice; the first answer counts"
    return expected.fault(answer.tensors)


def _nobody(kind: str, asked: Sequence[int], faults: Sequence[tuple[int, str, str]]) -> str:
    what = "; ".join(f"client {client} {text}" for client, one, text in faults if one == kind)
    return (
        f"none of the clients {list(asked)} gave a usable answer to {kind!r} ({what}); "
        "start their nodes again, or allow more time, and resume"
    )
