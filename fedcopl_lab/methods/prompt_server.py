"""The server half of prompt tuning: quotas from counts, means of the shared prompts (FedCoPL Sec. 3.3-3.4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._label_phase import LabelPhase
from fedcopl_lab.methods._labels import allocate_counts, make_labels, stream_seed
from fedcopl_lab.methods._prompt_recipes import prompt_recipe_of
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods.prompt_client import (
    PROMPTS,
    initial_prompts,
    label_tensors,
    labels_are_due,
    phase_number,
    pools_scores,
    prompt_weight,
)
from fedcopl_lab.methods.protocol import Exchange, Expected, Letter, Mean, Tensors, draw_participants, named


@dataclass(frozen=True, repr=False)
class PromptServerState:
    """What the server knows after a number of rounds: no text prompt where clients keep it, no pseudo-label."""

    round: int  # completed rounds
    prompts: Tensors  # those that it averages, by part
    wanted: Int[Tensor, "k"]  # images that each client was to select
    selected: Int[Tensor, "k"]  # images that each client says it selected; 0 for one that missed the label phase

    def to_tensors(self) -> Tensors:
        """The state as named tensors."""
        prompts = named(PROMPTS, {part: value.cpu().contiguous() for part, value in self.prompts.items()})
        return prompts | {"round": torch.tensor(self.round), "wanted": self.wanted, "selected": self.selected}

    def __repr__(self) -> str:
        return f"PromptServerState(after round {self.round}, {int((self.selected > 0).sum())} clients with labels)"


@dataclass(frozen=True)
class PromptRound:
    """A round as the server saw it."""

    row: dict[str, Any]  # round, participants, those that answered and their weights, each client's selected images
    uploaded: Int[Tensor, "k c"] | None = None  # the counts that clients sent in a label phase; None without one
    pooled: LabelPhase | None = None  # the label phase, where the server made it from all clients' scores


class PromptServer:
    """One round: a label phase where one is due, then training by the clients that have labels, then the mean.

    A client that misses a label phase has no labels until the next one. One that misses a round is left out of its
    mean: the weights are those of the clients that answered, and :func:`fedcopl_lab.aggregate` divides by their sum.

    Args:
        setting: of the run; a server on a machine of its own holds no image.
        n_train: training images of all clients; None counts those of the setting.
        n_images: the most test images that a client may report; None counts those of the setting.
    """

    def __init__(self, setting: PromptSetting, n_train: int | None = None, n_images: int | None = None) -> None:
        self.setting, self.config = setting, setting.config
        self.n_train = setting.n_train if n_train is None else n_train
        self.n_images = len(setting.dataset) if n_images is None else n_images

    def initial_state(self) -> PromptServerState:
        """The drawn prompts; no client has labels."""
        none = torch.zeros(self.config.n_clients, dtype=torch.long)
        start = initial_prompts(self.setting)
        return PromptServerState(0, {part: start[part] for part in self.config.shared}, none, none)

    def restored_state(self, tensors: Tensors) -> PromptServerState:
        """The state that :meth:`PromptServerState.to_tensors` wrote."""
        prompts = {part: tensors[f"{PROMPTS}{part}"].to(self.config.device) for part in self.config.shared}
        return PromptServerState(int(tensors["round"]), prompts, tensors["wanted"], tensors["selected"])

    def round(self, state: PromptServerState, exchange: Exchange) -> tuple[PromptServerState, PromptRound]:
        """One communication round: the next state, and the round as it went.

        Raises:
            FedCoPLError: no client that takes part has a pseudo-label.
        """
        informed: set[int] = set()
        seen = PromptRound({})
        if labels_are_due(self.config, state.round):
            state, informed, seen = self._label(state, exchange)
        drawn = draw_participants(self.config, stream_seed(self.config), state.round)
        participants = [k for k in drawn if int(state.selected[k])]
        if not participants:
            raise FedCoPLError(
                f"round {state.round + 1}: clients {drawn} take part but hold 0 pseudo-labelled images; "
                "lower q_conf or q_ent, or raise participation"
            )
        prompts, weights = named(PROMPTS, state.prompts), self.weights(state)
        letters = {k: Letter("train", state.round, {} if k in informed else prompts) for k in participants}
        merge = prompt_recipe_of(self.config.method).merge
        if merge is None:
            mean = exchange.mean(letters, state.prompts, {k: int(weights[k]) for k in participants})
        else:
            sent = {k: one.tensors for k, one in exchange.ask(letters, Expected(state.prompts)).items()}
            mean = Mean(merge(sent), list(sent))
        row = {
            "round": state.round + 1,
            "participants": participants,
            "answered": list(mean.clients),
            "weights": weights[list(mean.clients)].tolist(),
            "n_selected": state.selected.tolist(),
        }
        merged = {part: mean.tensors[part].to(self.config.device) for part in self.config.shared}
        return replace(state, round=state.round + 1, prompts=merged), replace(seen, row=row)

    def weights(self, state: PromptServerState) -> Int[Tensor, "k"]:
        """Weight of every client in a mean."""
        return prompt_weight(self.config, state.wanted, state.selected)

    def closing_report(self, state: PromptServerState, exchange: Exchange) -> dict[str, Any]:
        """Every client's accuracy on its own test images with the final prompts, as it reports it."""
        prompts = named(PROMPTS, state.prompts)
        letters = {k: Letter("evaluate", state.round, prompts) for k in range(self.config.n_clients)}
        answers = exchange.ask(letters, Expected(numbers={"correct": self.n_images, "n_test": self.n_images}))
        tested = [one.numbers for one in answers.values() if one.numbers.get("n_test")]
        if not tested:
            return {"accuracy": None, "accuracy_sample_mean": None}
        shares = [one["correct"] / one["n_test"] for one in tested]
        return {
            "accuracy": sum(shares) / len(shares),
            "accuracy_sample_mean": sum(one["correct"] for one in tested) / sum(one["n_test"] for one in tested),
        }

    def _label(self, state: PromptServerState, exchange: Exchange) -> tuple[PromptServerState, set[int], PromptRound]:
        """A label phase: the state with its numbers of labels, the clients that were sent the prompts, what came."""
        config, n_classes = self.config, self.setting.dataset.n_classes
        send = state.round > 0 and config.relabel_with == "aggregated"
        prompts = named(PROMPTS, state.prompts) if send else {}
        letters = {k: Letter("score", state.round, prompts) for k in range(config.n_clients)}
        wanted, selected = (torch.zeros(config.n_clients, dtype=torch.long) for _ in range(2))
        most, seen, orders = {"selected": self.n_train}, PromptRound({}), {}
        if pools_scores(config):
            scored = exchange.ask(letters, Expected(more=True))
            phase = self.label_phase([answer.tensors["logits"] for answer in scored.values()], state.round)
            seen = PromptRound({}, pooled=phase)
            orders = {k: label_tensors(phase.labels[k], phase.quota[k]) for k in scored}
        elif config.labeller == "CoPL":
            scored = exchange.ask(letters, Expected({"counts": torch.zeros(n_classes, dtype=torch.long)}))
            uploaded = torch.stack([one.tensors["counts"] for one in scored.values()])
            quota = allocate_counts(uploaded, config, n_train=self.n_train, phase=phase_number(config, state.round))
            seen = PromptRound({}, uploaded=uploaded)
            orders = {k: {"quota": row} for k, row in zip(scored, quota, strict=True)}
        else:
            room = (config.shots or self.n_train) * n_classes  # a client may want more than it has
            scored = exchange.ask(letters, Expected(numbers=most | {"wanted": room}))
            for k, answer in scored.items():
                wanted[k], selected[k] = answer.numbers["wanted"], answer.numbers["selected"]
        if orders:
            letters = {k: Letter("select", state.round, order) for k, order in orders.items()}
            for k, answer in exchange.ask(letters, Expected(numbers=most)).items():
                wanted[k], selected[k] = int(orders[k]["quota"].sum()), answer.numbers["selected"]
        informed = set(scored) if send and config.shared else set()
        return replace(state, wanted=wanted, selected=selected), informed, seen

    def label_phase(self, logits: Sequence[Tensor], round_index: int) -> LabelPhase:
        """The label phase that opens a round, from all clients' scores, K of [n_k, C]; the oracle reads true labels."""
        config, labels, true = self.config, self.setting.dataset.labels, None
        if config.labeller == "true":
            true = [labels[self.setting.train_indices(k)] for k in range(config.n_clients)]
        number = phase_number(config, round_index)
        return make_labels(
            logits, config, n_train=self.n_train, phase=number, seed=stream_seed(config), true_labels=true
        )
