"""Secure aggregation by Flower's own SecAgg+: the server learns the clients' weighted mean, and no client's prompt."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.federation.flower import need
from fedcopl_lab.extras.federation.flower._carrier import FlowerCarrier, to_records, wire_bytes
from fedcopl_lab.methods.protocol import Answer, Letter, Mean

CLIPPING = 8.0
"""Largest size of a number that is sent; larger ones would be cut off, so that a client refuses to send them."""

LEVELS = 2**22
"""Steps into which the range from -CLIPPING to CLIPPING is divided: 3.8e-6 each."""


class SecureCarrier(FlowerCarrier):
    """Trains as :class:`FlowerCarrier` does, but brings back the weighted mean only.

    Beside the rounds' letters SecAgg+ exchanges keys and shares of keys among the clients, in four messages a
    client. Prompts are rounded to :data:`LEVELS` levels at random, so that the numbers are not those of the run
    key. Needs three clients or more in every round; the mean comes out as long as two thirds answer.

    Weights stay visible: FedCoPL's server set the quotas itself.
    """

    def mean(self, letters: Mapping[int, Letter], like: Mapping[str, Tensor], weights: Mapping[int, int]) -> Mean:
        """The weighted mean of what some clients would send; ``like`` has the names and shapes of that.

        Raises:
            FedCoPLError: fewer than three clients at the start or in the mean, or too few that answer.
        """
        self._find(set(letters))
        nodes = {client: self._nodes[client] for client in letters if client in self._nodes}
        _enough(len(nodes), "take part")
        done = _Protocol(_CountingGrid(self.grid, self._wire), self.patience, max(weights.values())).run(
            {nodes[client]: to_records(letters[client], self.key) for client in nodes}
        )
        if done is None:
            raise FedCoPLError("secure aggregation broke off: too few clients answered; start their nodes and resume")
        vectors, active = done
        answered = sorted(client for client, node in nodes.items() if node in active)
        _enough(len(answered), "are in the mean")
        means = {
            name: torch.from_numpy(np.asarray(vector)).to(one.dtype)
            for (name, one), vector in zip(like.items(), vectors, strict=True)
        }
        return Mean(means, answered)


def _enough(n_clients: int, what: str) -> None:
    """Of a mean of two each could work out the other's prompt."""
    if n_clients < 3:
        raise FedCoPLError(
            f"{n_clients} clients {what}; secure aggregation needs 3 or more; start all nodes and resume"
        )


def secure_answer(answer: Answer, message: Any) -> Any:
    """A client's answer in the form that Flower's SecAgg+ mod masks.

    Raises:
        FedCoPLError: the client refuses, or sends what would be cut off.
    """
    if answer.refusal:
        raise FedCoPLError(answer.refusal)
    largest = max(float(value.abs().max()) for value in answer.tensors.values())
    if largest > CLIPPING:
        raise FedCoPLError(f"a prompt holds {largest:.1f}; secure aggregation sends numbers up to {CLIPPING}")
    common, compat = need("flwr.common"), need("flwr.compat.common.recorddict_compat")
    arrays = [value.detach().cpu().double().numpy() for value in answer.tensors.values()]
    result = common.FitRes(
        status=common.Status(common.Code.OK, ""),
        parameters=common.ndarrays_to_parameters(arrays),
        num_examples=answer.numbers["weight"],
        metrics={},
    )
    return need("flwr.app").Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)


class _Protocol:
    """Flower's workflow, its stages called one by one, with our messages and without its strategy."""

    def __init__(self, grid: Any, patience: float, max_weight: int) -> None:
        workflow = need("flwr.server.workflow.secure_aggregation.secaggplus_workflow")
        self.state = workflow.WorkflowState()
        self.grid, self.vectors = grid, None
        self.workflow = workflow.SecAggPlusWorkflow(
            num_shares=1.0, reconstruction_threshold=0.67, max_weight=float(max_weight), clipping_range=CLIPPING,
            quantization_range=LEVELS, timeout=patience,
        )  # fmt: skip

    def run(self, letters: Mapping[int, Any]) -> tuple[list[Any], set[int]] | None:
        """The mean's arrays and the nodes in it; None when the protocol breaks off."""
        self.nodes = list(letters)
        context = self._context()
        stages = self.workflow
        if not stages.setup_stage(self.grid, context, self.state):
            return None
        self.state.nid_to_fitins = dict(letters)
        for stage in (stages.share_keys_stage, stages.collect_masked_vectors_stage):
            if not stage(self.grid, context, self.state):
                return None
        active = set(self.state.active_node_ids)
        return (self.vectors, active) if stages.unmask_stage(self.grid, context, self.state) and self.vectors else None

    # what the workflow asks of a strategy and of a client manager

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[tuple[Any, Any]]:
        """The nodes that take part, without instructions: the letters take their place."""
        common = need("flwr.common")
        nothing = common.FitIns(common.Parameters([], ""), {})
        return [(SimpleNamespace(node_id=node), nothing) for node in self.nodes]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        """Takes the mean out, which the workflow puts in place of every client's result."""
        self.vectors = need("flwr.common").parameters_to_ndarrays(results[0][1].parameters)
        return None, {}

    def num_available(self) -> int:
        """Nodes that take part."""
        return len(self.nodes)

    def _context(self) -> Any:
        app, legacy = need("flwr.app"), need("flwr.server.compat.legacy_context")
        constants = need("flwr.server.workflow.constant")
        state = app.RecordDict(
            {
                constants.MAIN_CONFIGS_RECORD: app.ConfigRecord({constants.Key.CURRENT_ROUND: 1}),
                constants.MAIN_PARAMS_RECORD: app.ArrayRecord(),
            }
        )
        context = app.Context(run_id=0, node_id=0, node_config={}, state=state, run_config={})
        return legacy.LegacyContext(context, strategy=self, client_manager=self)


class _CountingGrid:
    def __init__(self, grid: Any, wire: dict[str, int]) -> None:
        self.grid, self.wire = grid, wire

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        messages = list(messages)
        self.wire["wire_down"] += sum(map(wire_bytes, messages))
        replies = list(self.grid.send_and_receive(messages, timeout=timeout))
        self.wire["wire_up"] += sum(map(wire_bytes, replies))
        return replies
