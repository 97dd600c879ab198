"""The server on a machine of its own: its rounds through a carrier, whose answers are checked and counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.engine import run_rounds, starting_state
from fedcopl_lab.extras.federation._federation_files import Terms
from fedcopl_lab.extras.federation._member import Member
from fedcopl_lab.methods import PromptServer, SageServer
from fedcopl_lab.methods.protocol import Answer, Exchange, Expected, Letter, Mean, payload
from fedcopl_lab.store import Run

CLOSING = "closing.json"
"""What the clients report when the rounds are over: accuracies on their own test images, bytes, faults."""


@runtime_checkable
class Carrier(Protocol):
    """What brings letters to clients and answers back."""

    def exchange(self, letters: Mapping[int, Letter]) -> Iterable[Answer]:
        """Deliver letters by client; the answers that come in time, in any order, perhaps not all of them."""

    def measured(self) -> dict[str, int]:
        """Bytes on the wire since the last call, where there is one: ``wire_up`` and ``wire_down``."""


@runtime_checkable
class Summing(Protocol):
    """A carrier that brings back the mean and keeps what each client sent from the server."""

    def mean(self, letters: Mapping[int, Letter], like: Mapping[str, Tensor], weights: Mapping[int, int]) -> Mean:
        """The weighted mean of what some clients would send."""


class Post(Exchange):
    """One round's exchange with clients that may be silent, late or wrong.

    An answer counts when it is of this round, has what was asked for in the right shapes, and holds numbers
    only; of two from one client the first one counts. A client that gives none has dropped out of what was asked.
    """

    def __init__(self, carrier: Carrier) -> None:
        super().__init__()
        self.carrier = carrier
        self.up: Counter[int] = Counter()
        self.down: Counter[int] = Counter()
        self.faults: list[tuple[int, str, str]] = []

    def report(self) -> dict[str, Any]:
        """Bytes of tensors by client, sent and taken, and what went wrong, as plain values for a row."""
        return {
            "bytes_up": sum(self.up.values()),
            "bytes_down": sum(self.down.values()),
            "bytes_up_by_client": {str(k): self.up[k] for k in sorted(self.up)},
            "bytes_down_by_client": {str(k): self.down[k] for k in sorted(self.down)},
            "faults": [{"client": k, "kind": kind, "what": what} for k, kind, what in self.faults],
            **self.carrier.measured(),
        }

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
                self.faults.append((answer.client, kind, fault))
            else:
                found[answer.client] = answer
                self.up[answer.client] += answer.nbytes
        for client in set(letters) - undelivered:
            self.down[client] += letters[client].nbytes
        blamed = {client for client, asked, _ in self.faults if asked == kind}
        silent = sorted(set(letters) - set(found) - blamed)
        self.faults += [(client, kind, "did not answer in time") for client in silent]
        if not found:
            what = "; ".join(f"client {client} {text}" for client, one, text in self.faults if one == kind)
            raise FedCoPLError(
                f"none of the clients {sorted(letters)} gave a usable answer to {kind!r} ({what}); "
                "start their nodes again, or allow more time, and resume"
            )
        return dict(sorted(found.items()))

    def mean(self, letters: Mapping[int, Letter], like: Mapping[str, Tensor], weights: Mapping[int, int]) -> Mean:
        """See :meth:`Exchange.mean`; a :class:`Summing` carrier makes the mean itself."""
        if isinstance(self.carrier, Summing):
            for client, letter in letters.items():
                self.down[client] += letter.nbytes
            mean = self.carrier.mean(letters, like, weights)
            for client in mean.clients:
                self.up[client] += payload(like)
            silent = sorted(set(letters) - set(mean.clients))
            self.faults += [(client, "train", "is not in the secure mean") for client in silent]
            return mean
        return super().mean(letters, like, weights)


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


def serve(folder: Path | str, carrier: Carrier, progress: bool = True) -> Run:
    """Lead a federation through its rounds; a server that was killed goes on after its last stored round.

    Each round's row holds who took part, who answered with which weight, bytes by client as measured on what
    was sent, and what went wrong. What clients report at the end is in :data:`CLOSING`.

    Args:
        folder: the server's, from :func:`split`; the rounds are stored in ``log/`` inside it.
        carrier: what brings letters to the clients.
        progress: show a bar over the rounds.

    Returns:
        The server's record, in the form of a run.

    Raises:
        FedCoPLError: a round in which no client answers, or another server that leads the same federation.

    Shown in notebook ``federation``.
    """
    folder = Path(folder)
    terms = Terms.read(folder)
    config, log = terms.config, Run(folder / "log")
    if log.complete:
        return log
    with _alone(folder), torch_threads(config.threads):
        server = terms.server()

        def step(state: Any) -> tuple[Any, dict[str, Any]]:
            post = Post(carrier)
            after, seen = server.round(state, post)
            return after, seen.row | post.report() | {"secure": isinstance(carrier, Summing)}

        state = run_rounds(step, starting_state(server, log, config.label), log, config, progress)
        write_atomic(folder / CLOSING, to_json(_closing(server, state, carrier)))
        log.finish()
    return log


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two servers would each throw away the other's states."""
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise FedCoPLError(f"another server leads the federation of {folder}; stop it, or wait for its end") from error


def _closing(server: PromptServer | SageServer, state: Any, carrier: Carrier) -> dict[str, Any]:
    """What clients report at the end; if none does, the rounds still stand."""
    post = Post(carrier)
    try:
        told = server.closing_report(state, post)
    except FedCoPLError as error:
        told = {"error": str(error)}
    return told | post.report()


class Loopback:
    """A carrier without a network: every client in this process, one after the other, each with its own files.

    Args:
        members: the clients.
        meddle: changes each answer into those that arrive, for tests of what goes wrong; None delivers it.
    """

    def __init__(
        self, members: Iterable[Member], meddle: Callable[[Letter, Answer], Iterable[Answer]] | None = None
    ) -> None:
        self.members = {member.client: member for member in members}
        self.meddle = meddle

    def exchange(self, letters: Mapping[int, Letter]) -> Iterator[Answer]:
        """See :class:`Carrier`; the last client answers first, so that nothing leans on the order."""
        for client, letter in sorted(letters.items(), reverse=True):
            if client not in self.members:
                raise FedCoPLError(f"client {client} is not here; open its folder with open_member")
            answer = self.members[client].answer(letter)
            yield from [answer] if self.meddle is None else self.meddle(letter, answer)

    def measured(self) -> dict[str, int]:
        """Nothing: there is no wire."""
        return {}
