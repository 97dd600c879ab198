"""Every trainer of prompts, from PromptFL to FedCoPL: label, train locally, average some prompts, test."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._card import tf32_in
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.data import Federation
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.methods._labels import filter_all
from fedcopl_lab.methods._method import Method, RoundResult
from fedcopl_lab.methods._predicting import ClientModels
from fedcopl_lab.methods._prompt_rows import evaluation_report, label_report, round_report, set_report
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._prompt_state import FederationState
from fedcopl_lab.methods.prompt_client import (
    PromptClient,
    initial_prompts,
    label_kind,
    label_tensors,
    labels_of,
    update_of,
)
from fedcopl_lab.methods.prompt_server import PromptRound, PromptServer, PromptServerState
from fedcopl_lab.methods.protocol import MOMENTUM, Exchange, InProcess, Kept, KeptInMemory, Tensors, named
from fedcopl_lab.steps import LocalUpdate, evaluate


class PromptMethod(Method):
    """Federated prompt tuning of a frozen CLIP with pseudo-labels (Sec. 3.3-3.4, supplement Alg. 1).

    What a client starts from: the server's prompt where the server averages it, its own otherwise. What it
    does: :func:`train_round` on its pseudo-labels. What it sends: the prompts named by
    ``config.shared``, and its filtered counts at a label phase. How it predicts: with the prompts it would
    start the next round from. The paper's trainers differ in which prompts are sent (FedCoPL the visual one, the
    others both), in how images are scored (:class:`fedcopl_lab.steps.Scorer`: FedOTP carries patches to a global
    text prompt and a local one, which a client keeps; pFedPrompt adds a local cache), and in PromptProx's proximal
    term. A :class:`PromptRecipe` may also start, train, penalise and merge in its own way.

    pFedPrompt is a RECONSTRUCTION from its abstract; see :class:`fedcopl_lab.steps.ImageCache`.

    Args:
        setting: data, federation and model of the run.
    """

    def __init__(self, setting: PromptSetting) -> None:
        self.setting = setting
        self.config: PromptConfig = setting.config
        self.server = PromptServer(setting)

    def initial_state(self) -> FederationState:
        """Every client starts from the same prompts."""
        start = initial_prompts(self.setting)
        clients = {part: value.expand(self.config.n_clients, *value.shape).clone() for part, value in start.items()}
        return FederationState(
            round=0, server={part: start[part] for part in self.config.shared}, clients=clients, momentum={}
        )

    def restored_state(self, tensors: dict[str, Tensor]) -> FederationState:
        """The state that :meth:`FederationState.to_tensors` wrote."""
        return FederationState.from_tensors(tensors, self.config.device)

    def client(self, client: int, kept: Kept) -> PromptClient:
        """See :meth:`Method.client`."""
        return PromptClient(self.setting, client, kept)

    @tf32_in()
    def round(self, state: FederationState, exchange: Exchange | None = None) -> RoundResult:
        """See :meth:`Method.round`."""
        exchange = exchange or self._in_process(state)
        served, seen = self.server.round(self._server_state(state), exchange)
        updates = {k: update_of(exchange.entries["train"][k]) for k in seen.row["answered"]}
        phase = self._label_phase(seen, exchange.entries) if "score" in exchange.entries else None
        before = state if phase is None else replace(state, labels=phase.labels, quota=phase.quota)
        after = self._after(before, updates, served.prompts)
        last = after.round == self.config.rounds
        models = ClientModels(self.setting, after, stride=1 if last else self.config.test_stride)
        evaluation = models.evaluate(everywhere=last)
        row: dict[str, Any] = {"round": after.round}
        if phase is not None:
            row["labels"] = label_report(phase, self.setting)
            row |= set_report(row["labels"])
        row |= round_report(before, updates, evaluation, self.setting)
        row |= self._traffic(updates, phase)
        if last:
            row |= models.exchange(self.server.weights(self._server_state(after)))
        return RoundResult(after, row, updates, phase, evaluation)

    def wrongly_labelled(self, phase: LabelPhase, round_index: int) -> list[int]:
        """Clients whose pseudo-labels are not what all clients' scores give, in the phase that opened a round."""
        again = self.server.label_phase(phase.logits, round_index)
        pairs = enumerate(zip(phase.labels, again.labels, strict=True))
        return [k for k, (a, b) in pairs if not (torch.equal(a.indices, b.indices) and torch.equal(a.labels, b.labels))]

    def _server_state(self, state: FederationState) -> PromptServerState:
        """The part of a state that the server knows."""
        selected = torch.tensor([len(one) for one in state.labels] or [0] * self.config.n_clients)
        wanted = torch.zeros_like(selected) if state.quota is None else state.quota.sum(dim=1)
        return PromptServerState(state.round, state.server, wanted, selected)

    def _in_process(self, state: FederationState) -> InProcess:
        """Clients in this process that kept what a state says of them."""
        clients = {}
        for k in range(self.config.n_clients):
            kept = {"train": {part: stack[k] for part, stack in state.clients.items()}}
            if self.config.momentum_state == "per_client":
                kept["train"] |= named(MOMENTUM, {part: buffers[k] for part, buffers in state.momentum.items()})
            if state.quota is not None:
                kept[label_kind(self.config)] = label_tensors(state.labels[k], state.quota[k])
            clients[k] = self.client(k, KeptInMemory(kept))
        passed = None
        if self.config.momentum_state == "shared":
            passed = named(MOMENTUM, {part: buffers[0] for part, buffers in state.momentum.items()})
        return InProcess(clients, self.config.clients_per_forward, passed)

    def _label_phase(self, seen: PromptRound, entries: Mapping[str, Mapping[int, Tensors]]) -> LabelPhase:
        """The label phase that clients and server went through."""
        if seen.pooled is not None:
            return seen.pooled
        logits = tuple(entry["logits"] for _, entry in sorted(entries["score"].items()))
        chosen = [entry for _, entry in sorted(entries[label_kind(self.config)].items())]
        quota = torch.stack([entry["quota"] for entry in chosen])
        labels = tuple(labels_of(entry) for entry in chosen)
        if seen.uploaded is None:
            return LabelPhase(labels=labels, quota=quota, logits=logits)
        return LabelPhase(
            labels=labels,
            quota=quota,
            logits=logits,
            filtered=filter_all(logits, self.config),
            uploaded=seen.uploaded,
            bytes_up=seen.uploaded.nbytes,
            bytes_down=quota.nbytes,
        )

    def _after(self, before: FederationState, updates: Mapping[int, LocalUpdate], server: Tensors) -> FederationState:
        """The state after a round, from what the participants ended with and the server's new prompts."""
        clients = {part: stack.clone() for part, stack in before.clients.items()}
        for k, update in updates.items():
            for part in clients:
                clients[part][k] = getattr(update, part)
        momentum = self._momentum_after(before, updates)
        return replace(before, round=before.round + 1, server=server, clients=clients, momentum=momentum)

    def _momentum_after(self, before: FederationState, updates: Mapping[int, LocalUpdate]) -> Tensors:
        """The SGD buffers that outlive a round."""
        kind = self.config.momentum_state
        kept = {part: buffers.clone() for part, buffers in before.momentum.items()}
        for k, update in updates.items():
            for part, buffer in update.momentum.items() if kind != "reset" else ():
                rows = 1 if kind == "shared" else self.config.n_clients
                # zeros stand for "no step yet": SGD's first step from them is its first step from nothing
                kept.setdefault(part, buffer.new_zeros(rows, *buffer.shape))
                kept[part][0 if kind == "shared" else k] = buffer
        return kept

    def _traffic(self, updates: Mapping[int, LocalUpdate], phase: LabelPhase | None) -> dict[str, int]:
        """Bytes sent in the round over all clients, without the prompts of a label phase to those that do not train."""
        prompts = sum(getattr(update, part).nbytes for update in updates.values() for part in self.config.shared)
        up, down = (0, 0) if phase is None else (phase.bytes_up, phase.bytes_down)
        return {"bytes_up": prompts + up, "bytes_down": prompts + down}


class ZeroShot:
    """Zero-shot CLIP (Sec. 3.1), the row of every table that trains nothing: one model for all, no rounds.

    Args:
        setting: data, federation and model of the run.
    """

    def __init__(self, setting: PromptSetting) -> None:
        self.setting = setting

    @property
    def federation(self) -> Federation:
        """Which client holds which images."""
        return self.setting.federation

    def report(self) -> dict[str, Any]:
        """The one row of the run: round 0."""
        shards, labels = self.setting.federation.shards, self.setting.dataset.labels
        return {"round": 0} | evaluation_report(evaluate(self.predict, shards, labels))

    def predict(self, client: int, indices: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The template's classes for images of the data set, the same for every client, [n]."""
        return self.setting.zero_shot_logits[indices].argmax(dim=1)
