"""The server's post office: sends letters, waits, checks what comes back, and counts the bytes of both ways."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods.protocol import Answer, Exchange, Expected, Letter, Mean, payload


@runtime_checkable
class Carrier(Protocol):
    """Whatever brings letters to clients and answers back; nothing else of an engine differs."""

    def exchange(self, letters: Mapping[int, Letter]) -> Iterable[Answer]:
        """Deliver letters by client; the answers that come in time, in any order, perhaps not all of them."""

    def measured(self) -> dict[str, int]:
        """Bytes on the wire since the last call, where there is one: ``wire_up`` and ``wire_down``."""


@runtime_checkable
class Summing(Protocol):
    """A carrier that brings back the mean and keeps what each client sent from the server."""

    def mean(self, letters: Mapping[int, Letter], like: Mapping[str, Tensor], weights: Mapping[int, int]) -> Mean:
        """The weighted mean of what some clients would send."""


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


class Post(Exchange):
    """One round's exchange with clients that may be silent, late or wrong.

    An answer counts when it is of this round, has what was asked for in the right shapes, and holds numbers
    only; of two from one client the first one counts. A client that gives none has dropped out of what was asked.

    Args:
        carrier: what brings the letters.
    """

    def __init__(self, carrier: Carrier) -> None:
        super().__init__()
        self.carrier = carrier
        self.traffic = Traffic()

    def ask(self, letters: Mapping[int, Letter], expected: Expected) -> dict[int, Answer]:
        """See :meth:`Exchange.ask`.

        Raises:
            FedCoPLError: no client answers.
        """
        if not letters:
            return {}
        kind = next(iter(letters.values())).kind
        found: dict[int, Answer] = {}
        undelivered: set[int] = set()
        for answer in self.carrier.exchange(letters):
            if not answer.delivered:
                undelivered.add(answer.client)
            fault = _fault(answer, letters, found, expected)
            if fault:
                self.traffic.faults.append((answer.client, kind, fault))
            else:
                found[answer.client] = answer
                self._count(self.traffic.up, answer.client, answer.nbytes)
        for client in set(letters) - undelivered:
            self._count(self.traffic.down, client, letters[client].nbytes)
        blamed = {client for client, asked, _ in self.traffic.faults if asked == kind}
        silent = sorted(set(letters) - set(found) - blamed)
        self.traffic.faults += [(client, kind, "did not answer in time") for client in silent]
        if not found:
            raise FedCoPLError(_no_answer(kind, sorted(letters), self.traffic.faults))
        return dict(sorted(found.items()))

    def mean(self, letters: Mapping[int, Letter], like: Mapping[str, Tensor], weights: Mapping[int, int]) -> Mean:
        """See :meth:`Exchange.mean`; a :class:`Summing` carrier makes the mean itself."""
        if isinstance(self.carrier, Summing):
            for client, letter in letters.items():
                self._count(self.traffic.down, client, payload(letter.tensors))
            mean = self.carrier.mean(letters, like, weights)
            for client in mean.clients:
                self._count(self.traffic.up, client, payload(like))
            silent = sorted(set(letters) - set(mean.clients))
            self.traffic.faults += [(client, "train", "is not in the secure mean") for client in silent]
            return mean
        return super().mean(letters, like, weights)

    def _count(self, book: dict[int, int], client: int, nbytes: int) -> None:
        book[client] = book.get(client, 0) + nbytes


def _fault(answer: Answer, letters: Mapping[int, Letter], found: Mapping[int, Answer], expected: Expected) -> str:
    letter = letters.get(answer.client)
    if letter is None:
        return "answered without having been asked"
    if not answer.delivered:
        return answer.refusal
    if answer.refusal:
        return f"refused: {answer.refusal}"
    if (answer.kind, answer.round) != (letter.kind, letter.round):
        return f"answered {answer.kind} of round {answer.round} instead of {letter.kind} of round {letter.round}"
    if answer.client in found:
        return "answered twice; the first answer counts"
    for name, most in expected.numbers.items():
        if not 0 <= answer.numbers.get(name, -1) <= most:
            return f"sent {name}={answer.numbers.get(name)} instead of a number from 0 to {most:,}"
    return _fault_of_tensors(answer.tensors, expected)


def _fault_of_tensors(tensors: Mapping[str, Tensor], expected: Expected) -> str:
    like = expected.like
    if set(like) - set(tensors) or (set(tensors) - set(like) and not expected.more):
        return f"sent {sorted(tensors)} instead of {sorted(like)}"
    for name, value in tensors.items():
        wanted = like.get(name)
        if wanted is not None and (value.shape, value.dtype) != (wanted.shape, wanted.dtype):
            return f"sent {name} as {value.dtype} {tuple(value.shape)} instead of {wanted.dtype} {tuple(wanted.shape)}"
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            return f"sent {name} with values that are no numbers"
        if wanted is not None and not value.is_floating_point() and bool((value < 0).any()):
            return f"sent {name} with counts below 0"
    return ""


def _no_answer(kind: str, asked: Sequence[int], faults: Sequence[tuple[int, str, str]]) -> str:
    what = "; ".join(f"client {client} {text}" for client, one, text in faults if one == kind)
    return (
        f"none of the clients {list(asked)} gave a usable answer to {kind!r} ({what}); "
        "start their nodes again, or allow more time, and resume"
    )
