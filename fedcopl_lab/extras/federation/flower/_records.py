"""Letters and answers as Flower's records, and how many bytes they are on the wire."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.federation.flower import need
from fedcopl_lab.methods.protocol import Answer, Letter

_TENSORS, _HEAD, _NUMBERS = "tensors", "head", "numbers"

HELLO = "hello"
"""What a node is asked first: which client's files it holds."""


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
