"""What a federation of ResNets knows between two rounds, and how it goes into a file."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


@dataclass(frozen=True, repr=False)
class SemiState:
    """The global model, and what methods keep beside it, after a number of rounds.

    Attributes:
        round: completed rounds.
        model: the global model's state dict.
        extras: what else the server keeps, by the method's own names.
        memories: client -> what it keeps for itself, by the method's own names; only clients that keep something.
        momentum: SGD buffers that go from client to client, by parameter; empty when reset.
    """

    round: int
    model: Tensors
    extras: Tensors = field(default_factory=dict)
    memories: dict[int, Tensors] = field(default_factory=dict)
    momentum: Tensors = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"SemiState(after round {self.round}, {len(self.memories)} clients keep something)"

    def to_tensors(self) -> Tensors:
        """The state as named tensors, for a safetensors file."""
        tensors = {f"model/{name}": value for name, value in self.model.items()}
        tensors |= {f"extras/{name}": value for name, value in self.extras.items()}
        tensors |= {f"momentum/{name}": value for name, value in self.momentum.items()}
        for client, memory in self.memories.items():
            tensors |= {f"memories/{client:04d}/{name}": value for name, value in memory.items()}
        tensors["round"] = torch.tensor(self.round)
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    @classmethod
    def from_tensors(cls, tensors: Tensors, device: str) -> "SemiState":
        """The inverse of :meth:`to_tensors`."""
        groups: dict[str, Tensors] = {"model": {}, "extras": {}, "momentum": {}}
        memories: dict[int, Tensors] = {}
        for name in sorted(tensors):
            group, _, rest = name.partition("/")
            if group in groups:
                groups[group][rest] = tensors[name].to(device)
            elif group == "memories":
                client, _, own = rest.partition("/")
                memories.setdefault(int(client), {})[own] = tensors[name].to(device)
        return cls(round=int(tensors["round"]), memories=memories, **groups)


def copied(tensors: Tensors) -> Tensors:
    """The same values in tensors of their own."""
    return {name: value.detach().clone() for name, value in tensors.items()}
