"""Every trainer of prompts, from PromptFL to FedCoPL: label, train locally, average some prompts, test."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.data import Federation
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.methods._label_reporting import label_report
from fedcopl_lab.methods._labels import make_labels
from fedcopl_lab.methods._predicting import ClientModels
from fedcopl_lab.methods._reporting import round_report
from fedcopl_lab.methods._setting import Setting
from fedcopl_lab.methods._state import FederationState
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import LocalUpdate, PromptState, aggregate, train_round


class PromptMethod:
    """Federated prompt tuning of a frozen CLIP with pseudo-labels (Sec. 3.3-3.4, supplement Alg. 1).

    What a client starts from: the server's prompt where the server averages it, its own otherwise. What it
    does: :func:`train_round` on its pseudo-labels. What it sends: the prompts named by
    ``config.shared``, and its filtered counts at a label phase. How it predicts: with the prompts it would
    start the next round from. The trainers differ in four places only: which prompts are sent (FedCoPL the
    visual one, the others both); how images are scored (:class:`fedcopl_lab.steps.Scorer`: FedOTP carries
    patches to a global and a local text prompt, pFedPrompt adds a local cache); PromptProx's proximal term
    in the local loss; and FedOTP's second text prompt, which a client keeps.

    pFedPrompt is a RECONSTRUCTION from its abstract; see :class:`fedcopl_lab.steps.ImageCache`.

    Args:
        setting: data, federation and model of the run.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.config: PromptConfig = setting.config
        self.shared = self.config.shared

    @property
    def federation(self) -> Federation:
        """Which client holds which images."""
        return self.setting.federation

    @property
    def stream_seed(self) -> int:
        """Seed of everything but the initial prompts; the released code keeps it fixed over its trials."""
        return self.config.seed if self.config.seed_scope == "everything" else 0

    def initial_prompts(self) -> dict[str, Tensor]:
        """The prompts that every client starts from, by part, N(0, 0.02²)."""
        prompted, seed = self.setting.prompted, self.config.seed
        text, visual = prompted.initial_prompts(torch_generator(seed, "initial prompts"))
        start = {"text": text, "visual": visual}
        if self.config.method == "FedOTP":
            start["text_local"] = prompted.initial_prompts(torch_generator(seed, "initial local text prompt"))[0]
        return start

    def initial_state(self) -> FederationState:
        """Every client starts from the same prompts."""
        start = self.initial_prompts()
        clients = {part: value.expand(self.config.n_clients, *value.shape).clone() for part, value in start.items()}
        return FederationState(
            round=0, server={part: start[part] for part in self.shared}, clients=clients, momentum={}
        )

    def restored_state(self, tensors: dict[str, Tensor]) -> FederationState:
        """The state that :meth:`FederationState.to_tensors` wrote."""
        return FederationState.from_tensors(tensors, self.config.device)

    def step(self, state: FederationState) -> tuple[FederationState, dict[str, Any]]:
        """One communication round: the next state, and the row that reports it."""
        phase = self._label(state) if self.labels_are_due(state.round) else None
        labelled = state if phase is None else replace(state, labels=phase.labels, quota=phase.quota)
        updates, momentum = self._train(labelled, self._participants(labelled))
        return self.close_round(labelled, phase, updates, momentum)

    def close_round(
        self,
        state: FederationState,
        phase: LabelPhase | None,
        updates: dict[int, LocalUpdate],
        momentum: dict[str, Tensor],
    ) -> tuple[FederationState, dict[str, Any]]:
        """The state after a round and its row, from what the clients did, wherever they did it.

        Args:
            state: what the clients trained from, this round's labels included.
            phase: the round's label phase; None where there was none.
            updates: client -> what its training ended with, in rising order of clients.
            momentum: SGD buffers after the round, see :meth:`kept_momentum`.
        """
        row: dict[str, Any] = {"round": state.round + 1}
        label_bytes = (0, 0)
        if phase is not None:
            row["labels"] = label_report(phase, self.setting)
            label_bytes = phase.bytes_up, phase.bytes_down
        after = self._merge(state, list(updates), updates, momentum)
        models, last = ClientModels(self.setting, after), after.round == self.config.rounds
        row |= round_report(state, updates, models.evaluate(everywhere=last), self.setting)
        row |= self._traffic(updates, *label_bytes)
        if last:
            row |= models.exchange(self._weights(after))
        return after, row

    def predict(self, state: FederationState, client: int, indices: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The classes that a client's model gives to images of the data set, [n]."""
        return ClientModels(self.setting, state).logits(client, indices).argmax(dim=1).cpu()

    def labels_are_due(self, round_index: int) -> bool:
        """Whether a label phase opens the round after so many."""
        every = self.config.refresh_every
        return round_index % every == 0 if every else round_index == 0

    def phase_number(self, round_index: int) -> int:
        """Which label phase's labels the round after so many trains on, counted from 0."""
        return round_index // self.config.refresh_every if self.config.refresh_every else 0

    def _label(self, state: FederationState) -> LabelPhase:
        return self.phase_of(self.client_scores(state, range(self.config.n_clients)), state.round)

    def client_scores(self, state: FederationState, clients: Iterable[int]) -> list[Tensor]:
        """What clients score their own training images with at a label phase, one [n_k, C] each."""
        if state.round == 0:
            return [self.setting.zero_shot_logits[self.setting.train_indices(k)] for k in clients]
        models = ClientModels(self.setting, state, local=self.config.relabel_with == "local")
        return [models.logits(k, self.setting.train_indices(k)).float().cpu() for k in clients]

    def phase_of(self, logits: Sequence[Tensor], round_index: int) -> LabelPhase:
        """The label phase that opens a round, from all clients' scores.

        Args:
            logits: of each client's training images, K of [n_k, C].
            round_index: rounds that lie behind.
        """
        return make_labels(
            logits,
            self.config,
            n_train=self.setting.n_train,
            phase=self.phase_number(round_index),
            seed=self.stream_seed,
            true_labels=self._true_labels() if self.config.labeller == "true" else None,
        )

    def _true_labels(self) -> list[Tensor]:
        """For the oracle alone."""
        labels = self.setting.dataset.labels
        return [labels[self.setting.train_indices(k)] for k in range(self.config.n_clients)]

    def drawn(self, round_index: int) -> list[int]:
        """The clients that are asked to take part in the round after so many, in rising order."""
        wanted = self.config.clients_per_round
        generator = torch_generator(self.stream_seed, "participation", round_index)
        return torch.randperm(self.config.n_clients, generator=generator)[:wanted].sort().values.tolist()

    def _participants(self, state: FederationState) -> list[int]:
        drawn = self.drawn(state.round)
        trained = [k for k in drawn if len(state.labels[k])]
        if not trained:
            raise FedCoPLError(
                f"round {state.round + 1}: clients {drawn} take part but hold 0 pseudo-labelled images; "
                "lower q_conf or q_ent, or raise participation"
            )
        return trained

    def _train(
        self, state: FederationState, participants: list[int]
    ) -> tuple[dict[int, LocalUpdate], dict[str, Tensor]]:
        """Each participant's update, and the SGD buffers that outlive the round."""
        kept = {part: buffers.clone() for part, buffers in state.momentum.items()}
        updates: dict[int, LocalUpdate] = {}
        together = self.config.clients_per_forward
        for first in range(0, len(participants), together):
            group = participants[first : first + together]
            updates |= zip(group, self.train_clients(state, group, kept), strict=True)
            for k in group:
                self._keep_momentum(kept, k, updates[k])
        return updates, kept

    def train_clients(self, state: FederationState, group: list[int], kept: dict[str, Tensor]) -> list[LocalUpdate]:
        """A round of some clients, whose batches share a forward pass; ``kept`` holds SGD buffers to start from."""
        starts = []
        for k in group:
            slot = self._momentum_slot(k)
            carried = {part: buffers[slot] for part, buffers in kept.items()} if slot is not None else {}
            starts.append(PromptState(**state.prompts(k), round=state.round, momentum=carried))
        with matmul_precision(self.config.precision):
            return train_round(
                self.setting.training,
                [self.setting.tokens[self.setting.train_indices(k)] for k in group],
                [state.labels[k] for k in group],
                starts,
                config=self.config,
                generator=[torch_generator(self.stream_seed, "batches", state.round, k) for k in group],
                template=self.setting.template,
            )

    def kept_momentum(self, state: FederationState, updates: dict[int, LocalUpdate]) -> dict[str, Tensor]:
        """The SGD buffers that outlive a round, from those before it and what the clients ended with."""
        kept = {part: buffers.clone() for part, buffers in state.momentum.items()}
        for k, update in updates.items():
            self._keep_momentum(kept, k, update)
        return kept

    def _momentum_slot(self, client: int) -> int | None:
        return {"shared": 0, "per_client": client, "reset": None}[self.config.momentum_state]

    def _keep_momentum(self, kept: dict[str, Tensor], client: int, update: LocalUpdate) -> None:
        slot = self._momentum_slot(client)
        if slot is None:
            return
        rows = 1 if self.config.momentum_state == "shared" else self.config.n_clients
        for part, buffer in update.momentum.items():
            # zeros stand for "no step yet": SGD's first step from them is its first step from nothing
            kept.setdefault(part, torch.zeros(rows, *buffer.shape, dtype=buffer.dtype, device=buffer.device))
            kept[part][slot] = buffer

    def _merge(
        self,
        state: FederationState,
        participants: list[int],
        updates: dict[int, LocalUpdate],
        momentum: dict[str, Tensor],
    ) -> FederationState:
        clients = {part: stack.clone() for part, stack in state.clients.items()}
        for k, update in updates.items():
            for part in clients:
                clients[part][k] = getattr(update, part)
        weights = self._weights(state)[participants]
        server = {part: aggregate(clients[part][participants], weights) for part in self.shared}
        return replace(state, round=state.round + 1, server=server, clients=clients, momentum=momentum)

    def _weights(self, state: FederationState) -> Tensor:
        if self.config.weight_by == "quota" and state.quota is not None:
            return state.quota.sum(dim=1)
        return torch.tensor([len(labels) for labels in state.labels])

    def _traffic(self, updates: dict[int, LocalUpdate], labels_up: int, labels_down: int) -> dict[str, int]:
        """Bytes that cross the network in the round, over all clients: what is sent, not what is kept."""
        prompts = sum(getattr(update, part).nbytes for update in updates.values() for part in self.shared)
        return {"bytes_up": prompts + labels_up, "bytes_down": prompts + labels_down}


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let CUDA matrix products use TF32 where the configuration says so, and put torch's switch back."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32 = before
