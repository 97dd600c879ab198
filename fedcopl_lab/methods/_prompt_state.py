"""What a federation of prompted CLIPs knows between two rounds, and how it goes into a file."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab.methods.protocol import grouped, named
from fedcopl_lab.steps import PseudoLabels

PARTS = ("text", "visual", "text_local")
"""The prompts, in the order in which they are stored and sent; FedOTP and FedPGP have the last and never send it."""


@dataclass(frozen=True, repr=False)
class FederationState:
    """Prompts, optimiser buffers and pseudo-labels after a number of rounds.

    Attributes:
        round: completed rounds.
        server: the prompts that the server averages, by part.
        clients: every client's latest own prompts, by part, [K, …].
        momentum: SGD buffers by part, [K, …] or, shared by all clients, [1, …]; empty when reset each round.
        labels: pseudo-labels of each client, since the last label phase.
        quota: images wanted per client and class in that phase, [K, C].
    """

    round: int
    server: dict[str, Tensor]
    clients: dict[str, Float[Tensor, "k *prompt"]]
    momentum: dict[str, Tensor]
    labels: tuple[PseudoLabels, ...] = ()
    quota: Int[Tensor, "k c"] | None = None

    def prompts(self, client: int) -> dict[str, Tensor]:
        """The prompts that a client uses, by part: the server's where there is one, its own otherwise."""
        return {part: stack[client] for part, stack in self.clients.items()} | self.server

    def labels_of(self, client: int) -> PseudoLabels | None:
        """A client's pseudo-labels; None before the first label phase."""
        return self.labels[client] if self.labels else None

    def __repr__(self) -> str:
        return f"FederationState(after round {self.round}, {len(self.clients['text'])} clients)"

    def to_tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, for a safetensors file."""
        tensors = named("server.", self.server) | named("clients.", self.clients) | named("momentum.", self.momentum)
        tensors["round"] = torch.tensor(self.round)
        if self.quota is not None:
            tensors["quota"] = self.quota
        for k, chosen in enumerate(self.labels):
            own = {name: value for name, value in vars(chosen).items() if value is not None}
            tensors |= named(f"labels.{k:04d}.", own)
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: str) -> "FederationState":
        """The inverse of :meth:`to_tensors`; prompts go to the device, labels stay on the CPU."""

        def parts(prefix: str) -> dict[str, Tensor]:
            return {part: tensors[f"{prefix}.{part}"].to(device) for part in PARTS if f"{prefix}.{part}" in tensors}

        clients = sorted(name.split(".")[1] for name in tensors if name.endswith(".indices"))
        return cls(
            round=int(tensors["round"]),
            labels=tuple(PseudoLabels(**grouped(tensors, f"labels.{k}.")) for k in clients),
            quota=tensors.get("quota"),
            **{group: parts(group) for group in ("server", "clients", "momentum")},
        )
