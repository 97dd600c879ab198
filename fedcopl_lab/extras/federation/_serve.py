"""The server on a machine of its own: its rounds through a carrier, each stored as it ends."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.engine import run_rounds, starting_state
from fedcopl_lab.extras.federation._federation_files import Terms
from fedcopl_lab.extras.federation._member import Member
from fedcopl_lab.extras.federation._post import Carrier, Post, Summing
from fedcopl_lab.methods import PromptServer, SageServer
from fedcopl_lab.methods.protocol import Answer, Letter
from fedcopl_lab.store import Run

CLOSING = "closing.json"
"""What the clients report when the rounds are over: accuracies on their own test images, bytes, faults."""


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
    server = terms.server()

    def step(state: Any) -> tuple[Any, dict[str, Any]]:
        post = Post(carrier)
        after, seen = server.round(state, post)
        traffic = post.traffic.report() | carrier.measured()
        return after, seen.row | traffic | {"secure": isinstance(carrier, Summing)}

    with _alone(folder), torch_threads(config.threads):
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
    return told | post.traffic.report() | carrier.measured()


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
