"""Letters by Flower: as its records, to the nodes that hold the clients' files, no longer waited for than agreed."""

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.federation.flower import HELLO, need
from fedcopl_lab.methods.protocol import Answer, Letter

ATTEMPTS = 3
"""How often a letter is sent to a node that fails at it; a client does what one letter asks only once."""

_TENSORS, _HEAD, _NUMBERS = "tensors", "head", "numbers"
_KINDS = {"score": "query", "select": "query", "evaluate": "evaluate"}  # Flower's kind of message; "train" otherwise


class FlowerCarrier:
    """Carries letters through a Flower ``Grid``.

    Flower numbers nodes at random and returns replies as they arrive; here a letter goes to whichever node
    says that it holds the client's files, and the server sorts the answers.

    Args:
        grid: Flower's.
        key: of the run.
        patience: seconds to wait for nodes to appear, and for the answers to a batch of letters.
        poll: seconds between two looks.
    """

    def __init__(self, grid: Any, key: str, patience: float = 600.0, poll: float = 0.1) -> None:
        self.grid, self.key = grid, key
        self.patience, self.poll = patience, poll
        self._nodes: dict[int, int] = {}
        self._asked: set[int] = set()  # nodes
        self._hellos: set[str] = set()  # messages to them that were not answered yet
        self._missing: set[int] = set()  # waited for in vain once: looked for, but waited for no more
        self._wire = {"wire_up": 0, "wire_down": 0}

    def exchange(self, letters: Mapping[int, Letter]) -> Iterator[Answer]:
        """See :class:`fedcopl_lab.extras.federation.Carrier`."""
        self._find(set(letters))
        for client in set(letters) - set(self._nodes):
            yield _not_done(client, letters[client], "no node holds its files", delivered=False)
        waiting, attempts = self._send(letters), dict.fromkeys(letters, 1)
        for message_id, reply in self._replies(waiting, self.patience):
            client = waiting.pop(message_id)
            letter = letters[client]
            if not reply.has_error():
                self._wire["wire_up"] += wire_bytes(reply)
                yield _read(reply.content, client, letter)
            elif attempts[client] < ATTEMPTS:
                attempts[client] += 1
                waiting |= self._send({client: letter})
            else:
                self._asked.discard(self._nodes.pop(client, -1))  # to be asked again: it may come back
                yield _not_done(client, letter, f"its node failed ({reply.error.reason})")

    def measured(self) -> dict[str, int]:
        """Bytes of the serialised messages since the last call."""
        measured, self._wire = self._wire, {"wire_up": 0, "wire_down": 0}
        return measured

    def _send(self, letters: Mapping[int, Letter]) -> dict[str, int]:
        """Push the letters of clients that have a node; message id -> client."""
        app = need("flwr.app")
        messages, clients = [], []
        for client, letter in letters.items():
            if client in self._nodes:
                kind = _KINDS.get(letter.kind, "train")
                messages.append(app.Message(to_records(letter, self.key), self._nodes[client], kind))
                clients.append(client)
        self._wire["wire_down"] += sum(map(wire_bytes, messages))
        return dict(zip(self.grid.push_messages(messages), clients, strict=True))

    def _find(self, wanted: set[int]) -> None:
        """Look for nodes until every wanted client has one, or patience ends."""
        app, deadline = need("flwr.app"), time.monotonic() + self.patience
        looked = False
        while True:
            there = set(self.grid.get_node_ids())
            self._nodes = {client: node for client, node in self._nodes.items() if node in there}
            self._asked &= there
            if wanted <= set(self._nodes) | (self._missing if looked else set()) or time.monotonic() > deadline:
                self._missing = (self._missing | wanted) - set(self._nodes)
                return
            looked = True
            new = there - self._asked - set(self._nodes.values())
            hello = [app.Message(app.RecordDict({HELLO: app.ConfigRecord({"key": self.key})}), n, "query") for n in new]
            if hello:
                self._hellos |= set(self.grid.push_messages(hello))
                self._asked |= new
            for message_id, reply in self._replies(self._hellos, 0.0):
                self._hellos.discard(message_id)
                if not reply.has_error() and int(reply.content[HELLO]["client"]) >= 0:
                    self._nodes[int(reply.content[HELLO]["client"])] = reply.metadata.src_node_id
                elif reply.has_error():
                    self._asked.discard(reply.metadata.src_node_id)
            time.sleep(self.poll)

    def _replies(self, waiting: Collection[str], patience: float) -> Iterator[tuple[str, Any]]:
        """Replies as they come while the caller leaves any in ``waiting``; at least one look."""
        deadline = time.monotonic() + patience
        while waiting:
            for reply in self.grid.pull_messages(set(waiting)):
                yield reply.metadata.reply_to_message_id, reply
            if not waiting or time.monotonic() >= deadline:
                return
            time.sleep(self.poll)


def _read(content: Any, client: int, letter: Letter) -> Answer:
    """The answer of the node that holds a client's files, which can speak for no other client."""
    try:
        answer = answer_of(content)
    except (KeyError, TypeError, ValueError) as error:
        return _not_done(client, letter, f"its answer cannot be read ({type(error).__name__}: {error})")
    if answer.client != client:
        return _not_done(client, letter, f"its node answered for client {answer.client}")
    return answer


def _not_done(client: int, letter: Letter, why: str, delivered: bool = True) -> Answer:
    return Answer(client, letter.kind, letter.round, refusal=why, delivered=delivered)


def to_records(letter: Letter, key: str) -> Any:
    """A letter of the run with this key, as a Flower ``RecordDict``."""
    return _records(letter.tensors, {"kind": letter.kind, "round": letter.round, "key": key}, {})


def letter_of(records: Any, key: str) -> Letter:
    """The inverse of :func:`to_records`.

    Raises:
        FedCoPLError: a letter of another run.
    """
    head = records[_HEAD]
    if head["key"] != key:
        raise FedCoPLError(f"the letter is of run {head['key']}, this client's files are of run {key}")
    return Letter(head["kind"], int(head["round"]), _tensors(records))


def answer_records(answer: Answer) -> Any:
    """An answer as a Flower ``RecordDict``."""
    head = {"client": answer.client, "kind": answer.kind, "round": answer.round, "refusal": answer.refusal}
    return _records(answer.tensors, head, answer.numbers)


def answer_of(records: Any) -> Answer:
    """The inverse of :func:`answer_records`."""
    head = records[_HEAD]
    numbers = {name: int(value) for name, value in records[_NUMBERS].items()} if _NUMBERS in records else {}
    return Answer(
        int(head["client"]), str(head["kind"]), int(head["round"]), _tensors(records), numbers, str(head["refusal"])
    )


def wire_bytes(message: Any) -> int:
    """Bytes of a message's content as Flower serialises it, names and shapes included."""
    serde = need("flwr.common.serde")
    return int(serde.recorddict_to_proto(message.content).ByteSize()) if message.has_content() else 0


def _records(tensors: Mapping[str, Tensor], head: Mapping[str, Any], numbers: Mapping[str, int]) -> Any:
    app = need("flwr.app")
    arrays = {name: app.Array(value.detach().cpu().contiguous().numpy()) for name, value in tensors.items()}
    content = {_HEAD: app.ConfigRecord(dict(head))}
    if arrays:
        content[_TENSORS] = app.ArrayRecord(arrays)
    if numbers:
        content[_NUMBERS] = app.MetricRecord(dict(numbers))
    return app.RecordDict(content)


def _tensors(records: Any) -> dict[str, Tensor]:
    if _TENSORS not in records:
        return {}
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in records[_TENSORS].items()}
