"""What the runs of both papers have in common: data, clients, rounds, optimiser, machine."""

import dataclasses
import math
import numbers
from dataclasses import dataclass
from typing import Any

from fedcopl_lab.config._checks import check, check_choice, check_counts


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides the numbers of one federated run; the papers' own settings are in its two kinds.

    Build one with :func:`configure`, which fills it from a profile and a method's preset; change one with
    :func:`dataclasses.replace`. The letters in brackets are the papers' symbols.
    """

    profile: str
    method: str
    seed: int = 0
    dataset: str
    n_clients: int  # [K]
    participation: float = 1.0  # [R] share of the clients that train in a round
    rounds: int  # [T]
    local_epochs: int  # [E]
    batch_size: int  # [B]
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float
    device: str = "cpu"
    threads: int = 1

    @property
    def clients_per_round(self) -> int:
        """Clients that train in a round: their share, rounded down, and at least one."""
        return max(int(self.participation * self.n_clients), 1)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            check_choice(field.name, value, field.type)
            if field.type is str:
                check(field.name, value, lambda v: isinstance(v, str) and v, "a name in quotes")
            if field.type in (float, float | None) and isinstance(value, numbers.Real):
                object.__setattr__(self, field.name, float(value))  # beta=1 and beta=1.0 are one run, one key
        self._check_ranges()

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return dataclasses.asdict(self)

    @property
    def label(self) -> str:
        """A short name for progress bars and lists."""
        return f"{self.method} {self.dataset} seed={self.seed}"

    def _check_ranges(self) -> None:
        check_counts(self, ("n_clients", "local_epochs", "batch_size", "threads"), least=1)
        check_counts(self, ("rounds", "seed"), least=0)
        check("participation", self.participation, lambda v: 0 < v <= 1, "a share of the clients in (0, 1]")
        check("lr", self.lr, lambda v: 0 < v < math.inf, "a positive learning rate")
        check("momentum", self.momentum, lambda v: 0 <= v < 1, "in [0, 1)")
        check("weight_decay", self.weight_decay, lambda v: 0 <= v < math.inf, "0 or more")
