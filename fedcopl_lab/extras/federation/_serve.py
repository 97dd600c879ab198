"""The server's loop: round by round through a carrier, each stored as it ends."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.extras.federation._letters import Answer, Letter
from fedcopl_lab.extras.federation._member import Member
from fedcopl_lab.extras.federation._post import Carrier, Post, Summing
from fedcopl_lab.extras.federation._prompt_server import PromptServer
from fedcopl_lab.extras.federation._semi_server import SemiServer
from fedcopl_lab.extras.federation._shards import Terms
from fedcopl_lab.methods._open import State
from fedcopl_lab.store import Run

CLOSING = "closing.json"
"""What the clients report when the rounds are over: accuracies on their own test images, bytes, faults."""


@runtime_checkable
class Server(Protocol):
    """What the loop needs of a paper's server."""

    def initial_state(self) -> State:
        """Before the first round."""

    def restored_state(self, tensors: dict[str, Any]) -> State:
        """The state that ``to_tensors`` wrote."""

    def step(self, state: Any, post: Post) -> tuple[State, dict[str, Any]]:
        """One round: the next state, and what to note of it."""

    def last_words(self, state: Any, post: Post) -> dict[str, Any]:
        """What the clients report when the last round is over."""


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
        FedCoPLError: a round in which nobody answers, or another server that leads the same federation.

    >>> serve("federation/server", Loopback(members), progress=False).rows["bytes_up"].tolist()

    Shown in notebook ``federation``.
    """
    folder = Path(folder)
    terms = Terms.read(folder)
    config, log = terms.config, Run(folder / "log")
    if log.complete:
        return log
    with _alone(folder), torch_threads(config.threads):
        server: Server = PromptServer(terms) if isinstance(config, PromptConfig) else SemiServer(terms)
        done = log.rounds_done()
        state = server.restored_state(log.load_state()) if done else server.initial_state()
        with tqdm(total=config.rounds, initial=done, desc=config.label, unit="round", disable=not progress) as bar:
            while state.round < config.rounds:
                start, post = time.perf_counter(), Post(carrier)
                state, row = server.step(state, post)
                row |= post.traffic.report() | carrier.measured() | {"secure": isinstance(carrier, Summing)}
                log.commit(row, state.to_tensors(), time.perf_counter() - start)
                bar.update()
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


def _closing(server: Server, state: State, carrier: Carrier) -> dict[str, Any]:
    """What clients report at the end; if none does, the rounds still stand."""
    post = Post(carrier)
    try:
        words = server.last_words(state, post)
    except FedCoPLError as error:
        words = {"error": str(error)}
    return words | post.traffic.report() | carrier.measured()


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
