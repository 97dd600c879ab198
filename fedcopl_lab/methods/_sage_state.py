"""What a federation of ResNets knows between two rounds, and what a client's round ends with."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from fedcopl_lab.methods._batches import ViewLabels
from fedcopl_lab.methods.protocol import Tensors, grouped, named


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
        tensors = named("model/", self.model) | named("extras/", self.extras) | named("momentum/", self.momentum)
        for client, memory in self.memories.items():
            tensors |= named(f"memories/{client:04d}/", memory)
        tensors["round"] = torch.tensor(self.round)
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    @classmethod
    def from_tensors(cls, tensors: Tensors, device: str) -> "SemiState":
        """The inverse of :meth:`to_tensors`."""
        here = {name: tensors[name].to(device) for name in sorted(tensors)}
        memories: dict[int, Tensors] = {}
        for name, value in grouped(here, "memories/").items():
            client, _, own = name.partition("/")
            memories.setdefault(int(client), {})[own] = value
        groups = {group: grouped(here, f"{group}/") for group in ("model", "extras", "momentum")}
        return cls(round=int(tensors["round"]), memories=memories, **groups)


@dataclass(frozen=True, repr=False)
class Sent:
    """What one client sends at the end of a round."""

    model: Tensors  # state dict
    sent: Tensors  # what else its method sends


@dataclass(frozen=True, repr=False)
class ClientUpdate(Sent):
    """What one client's round ended with, beside what it sends."""

    memory: Tensors  # what it keeps for itself
    momentum: Tensors  # SGD buffers after the last step, by parameter
    losses: dict[str, float]  # mean over the steps of each named loss
    n_steps: int  # optimiser steps taken
    start_scores: Float[Tensor, "n_scored c"]  # scores of its pool's reported images by the model it started from
    end_scores: Float[Tensor, "n_scored c"]  # the same by its trained model
    start_batch_scores: Float[Tensor, "n_scored c"]  # as ``start_scores``, normalised with these images' own statistics
    end_batch_scores: Float[Tensor, "n_scored c"]  # the same by its trained model
    probe_scores: Float[Tensor, "n_probe c"]  # scores of the fixed test images by its trained model
    noted: ViewLabels | None  # pseudo-labels of all steps; None where there were none

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in self.losses.items())
        return f"ClientUpdate({self.n_steps} steps, {shown})"


def copied(tensors: Tensors) -> Tensors:
    """The same values in tensors of their own."""
    return {name: value.detach().clone() for name, value in tensors.items()}
