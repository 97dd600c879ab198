"""A method that works in rounds: what engines and notebooks call, and what one round gives."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from torch import Tensor

from fedcopl_lab._html import table
from fedcopl_lab.config import RunConfig
from fedcopl_lab.data import Federation
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.methods.protocol import ClientHalf, Exchange, Kept
from fedcopl_lab.steps import Evaluation


@runtime_checkable
class State(Protocol):
    """What a method knows between two rounds."""

    @property
    def round(self) -> int:
        """Completed rounds."""

    def to_tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, for a safetensors file."""


@dataclass(frozen=True, repr=False)
class RoundResult:
    """One communication round with the results of its steps.

    Attributes:
        state: to start the next round from.
        row: the numbers that a run stores of the round.
        updates: what each participant's training ended with, by client.
        labels: the label phase that opened the round; None without one, and for SAGE, which labels in every step.
        evaluation: test accuracies of all clients' models; None for SAGE, which tests one model.
    """

    state: Any
    row: dict[str, Any]
    updates: Mapping[int, Any]
    labels: LabelPhase | None = None
    evaluation: Evaluation | None = None

    @property
    def accuracy(self) -> float:
        """Test accuracy after the round."""
        return float(self.row["accuracy"])

    def __repr__(self) -> str:
        return f"RoundResult(round {self.row['round']}, accuracy {self.accuracy:.1%}, clients {list(self.updates)})"

    def _repr_html_(self) -> str:
        shown = {
            "round": self.row["round"],
            "accuracy": f"{self.accuracy:.1%}",
            "participants": ", ".join(map(str, self.updates)),
            "local steps": self.row["n_steps"],
            "bytes up": self.row["bytes_up"],
            "bytes down": self.row["bytes_down"],
        }
        if self.labels is not None:
            shown["label phase"] = repr(self.labels)
        return table(list(shown.items()))


class Method(ABC):
    """A method: a server half, client halves, and the report that compares them with the truth."""

    config: RunConfig
    setting: Any
    server: Any

    @property
    def federation(self) -> Federation:
        """Which client holds which images."""
        return cast("Federation", self.setting.federation)

    def initial_state(self) -> Any:
        """Before the first round: a :class:`State`."""
        return self.server.initial_state()

    def restored_state(self, tensors: dict[str, Tensor]) -> Any:
        """The state that its ``to_tensors`` wrote."""
        return self.server.restored_state(tensors)

    @abstractmethod
    def client(self, client: int, kept: Kept) -> ClientHalf:
        """A client half that reads and replies with the images of this run."""

    @abstractmethod
    def round(self, state: Any, exchange: Exchange | None = None) -> RoundResult:
        """One communication round.

        Args:
            state: after the round before.
            exchange: what carries the letters; None takes clients in this process, as the state knows them.
        """

    def step(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """One communication round: the next state, and the row that reports it."""
        result = self.round(state)
        return result.state, result.row
