"""The server half of semi-supervised learning: sends the model, merges what comes back (SAGE Alg. 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab.config import SageConfig
from fedcopl_lab.methods._recipe import RoundEnd
from fedcopl_lab.methods._recipes import recipe_of
from fedcopl_lab.methods._sage_setting import SemiSetting, sage_participants, sage_weight
from fedcopl_lab.methods._sage_state import SemiState, Sent
from fedcopl_lab.methods.protocol import Answer, Exchange, Expected, Letter, Tensors, grouped, named
from fedcopl_lab.methods.sage_client import EXTRA, MODEL
from fedcopl_lab.steps import average_models


@dataclass(frozen=True)
class SageRound:
    """A round as the server saw it."""

    row: dict[str, Any]  # round, participants, and those that answered with their weights
    messages: Mapping[int, Tensors]  # what each participant received beside the model


class SageServer:
    """One round: the model and the method's message down, models and extras up, the method's merge.

    A client that does not answer is left out: the weights are those of the clients that did.

    Args:
        setting: of the run; a server on a machine of its own holds no image.
        n_images: the most images that a client may hold; None counts those of the setting.
    """

    def __init__(self, setting: SemiSetting, n_images: int | None = None) -> None:
        self.setting, self.recipe = setting, recipe_of(setting.config.method)
        self.config: SageConfig = setting.config
        self.n_images = len(setting.dataset) if n_images is None else n_images

    def initial_state(self) -> SemiState:
        """A freshly drawn model."""
        return SemiState(round=0, model=dict(self.setting.new_model().state_dict()))

    def restored_state(self, tensors: Tensors) -> SemiState:
        """The state that :meth:`SemiState.to_tensors` wrote."""
        return SemiState.from_tensors(tensors, self.config.device)

    def round(self, state: SemiState, exchange: Exchange) -> tuple[SemiState, SageRound]:
        """One communication round: the next state, and the round as it went."""
        participants = sage_participants(self.config, state.round)
        messages = self.recipe.message(self.setting, state, participants)
        model = named(MODEL, state.model)
        letters = {k: Letter("train", state.round, model | named(EXTRA, messages[k])) for k in participants}
        sizes = dict.fromkeys(("n_labelled", "n_pool"), self.n_images)
        answers = exchange.ask(letters, Expected(model, more=True, numbers=sizes))
        weights = torch.tensor([sage_weight(self.config, **answer.numbers) for answer in answers.values()])
        updates = {k: self._received(answer) for k, answer in answers.items()}
        merged = self.recipe.merge(RoundEnd(self.setting, state, updates, weights))
        if self.config.bn == "recalibrate":
            merged = self._recalibrated(merged, state.round, dict(zip(answers, weights, strict=True)), exchange)
        row = {
            "round": state.round + 1,
            "participants": participants,
            "answered": list(answers),
            "weights": weights.tolist(),
        }
        return replace(merged, round=state.round + 1), SageRound(row, messages)

    def closing_report(self, state: SemiState, exchange: Exchange) -> dict[str, Any]:
        """Nothing: no client holds test images."""
        return {}

    def _received(self, answer: Answer) -> Sent:
        here = {name: value.to(self.config.device) for name, value in answer.tensors.items()}
        return Sent(grouped(here, MODEL), grouped(here, EXTRA))

    def _recalibrated(
        self, merged: SemiState, round_index: int, weights: dict[int, Tensor], exchange: Exchange
    ) -> SemiState:
        """The new global model with running statistics that its clients measured on their pools."""
        model = named(MODEL, merged.model)
        buffers = {f"{MODEL}{name}" for name, _ in self.setting.new_model().named_buffers()}
        wanted = Expected({name: value for name, value in model.items() if name in buffers})
        answers = exchange.ask({k: Letter("recalibrate", round_index, model) for k in weights}, wanted)
        measured = [grouped(answer.tensors, MODEL) for answer in answers.values()]
        mean = average_models(measured, torch.stack([weights[k] for k in answers]))
        return replace(merged, model=merged.model | mean)
