"""Federated semi-supervised learning: send the model, train on every participant, merge, test (SAGE Alg. 1)."""

from dataclasses import replace

from fedcopl_lab.config import SageConfig
from fedcopl_lab.methods._method import Method, RoundResult
from fedcopl_lab.methods._recipes import recipe_of
from fedcopl_lab.methods._sage_rows import round_row
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState
from fedcopl_lab.methods.protocol import MOMENTUM, Exchange, InProcess, Kept, KeptInMemory, named
from fedcopl_lab.methods.sage_client import MEMORY, SageClient, exact_convolutions, update_of
from fedcopl_lab.methods.sage_server import SageServer


class SemiMethod(Method):
    """A method of SAGE's tables: one local task with the method's hooks, on each of a round's clients.

    What a client starts from: the server's model, and what it kept itself. What it does: its recipe's steps.
    What it sends: its model and what its recipe adds. How it predicts: with the server's model.

    Args:
        setting: data and federation of the run.
    """

    def __init__(self, setting: SemiSetting) -> None:
        self.setting = setting
        self.config: SageConfig = setting.config
        self.recipe = recipe_of(self.config.method)
        self.server = SageServer(setting)

    def client(self, client: int, kept: Kept) -> SageClient:
        """See :meth:`Method.client`."""
        return SageClient(self.setting, client, kept)

    def round(self, state: SemiState, exchange: Exchange | None = None) -> RoundResult:
        """See :meth:`Method.round`."""
        with exact_convolutions():
            exchange = exchange or self._in_process(state)
            served, seen = self.server.round(state, exchange)
            updates = {k: update_of(exchange.entries["train"][k], self.setting) for k in seen.row["answered"]}
            memories = state.memories | {k: one.memory for k, one in updates.items() if one.memory}
            last = next(k for k in reversed(exchange.entries["train"]) if k in updates)
            after = replace(served, momentum=updates[last].momentum, memories=memories)
            return RoundResult(after, round_row(self.setting, after, updates, seen.messages), updates)

    def _in_process(self, state: SemiState) -> InProcess:
        """Clients in this process that kept what a state says of them."""
        kept = {k: {"train": named(MEMORY, state.memories.get(k, {}))} for k in range(self.config.n_clients)}
        passed = None if self.config.momentum_state == "reset" else named(MOMENTUM, state.momentum)
        clients = {k: self.client(k, KeptInMemory(one)) for k, one in kept.items()}
        return InProcess(clients, self.config.clients_per_forward, passed)
