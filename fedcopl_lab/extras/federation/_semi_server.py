"""The server of semi-supervised learning: sends the model, merges what comes back (SAGE Alg. 1)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab.config import SageConfig
from fedcopl_lab.extras.federation._letters import Answer, Letter
from fedcopl_lab.extras.federation._post import Expected, Post
from fedcopl_lab.extras.federation._semi_member import EXTRA, MODEL, grouped
from fedcopl_lab.extras.federation._shards import Terms
from fedcopl_lab.methods import RECIPES, SemiMethod, SemiSetting, SemiState
from fedcopl_lab.methods._local_task import ClientUpdate
from fedcopl_lab.methods._recipe import RoundEnd
from fedcopl_lab.steps import average_models


class SemiServer:
    """One round: the model and the method's message down, models and extras up, the method's merge.

    Who does not answer is left out: the weights are those of the clients that did.

    Args:
        terms: of the federation.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        setting = terms.setting()
        assert isinstance(setting, SemiSetting)
        self.setting = setting
        self.config: SageConfig = setting.config
        self.method = SemiMethod(setting)
        self.recipe = RECIPES[self.config.method]

    def initial_state(self) -> SemiState:
        """A freshly drawn model."""
        return self.method.initial_state()

    def restored_state(self, tensors: dict[str, Tensor]) -> SemiState:
        """The state that :meth:`SemiState.to_tensors` wrote."""
        return self.method.restored_state(tensors)

    def step(self, state: SemiState, post: Post) -> tuple[SemiState, dict[str, Any]]:
        """One communication round: the next state, and what to note of it."""
        participants = self.method.participants(state.round)
        messages = self.recipe.message(self.setting, state, participants)
        model = _named(MODEL, state.model)
        letters = {k: Letter("train", state.round, model | _named(EXTRA, messages[k])) for k in participants}
        sizes = dict.fromkeys(("n_labelled", "n_pool"), self.terms.n_images)
        answers = post.ask(letters, Expected(model, more=True, numbers=sizes))
        weights = torch.tensor(
            [self.method.weight(a.numbers["n_labelled"], a.numbers["n_pool"]) for a in answers.values()]
        )
        updates = {k: self._update(answer) for k, answer in answers.items()}
        merged = self.recipe.merge(RoundEnd(self.setting, state, updates, weights))
        if self.config.bn == "recalibrate":
            merged = self._recalibrated(merged, state.round, dict(zip(answers, weights, strict=True)), post)
        row = {
            "round": state.round + 1,
            "participants": participants,
            "answered": list(answers),
            "weights": weights.tolist(),
        }
        return replace(merged, round=state.round + 1), row

    def last_words(self, state: SemiState, post: Post) -> dict[str, Any]:
        """Nothing: no client holds test images."""
        return {}

    def _update(self, answer: Answer) -> ClientUpdate:
        """What of a client's update crosses the wire; the rest stays with it and is empty here."""
        device = self.config.device
        nothing = torch.zeros(0, self.setting.dataset.n_classes)
        return ClientUpdate(
            model={name: value.to(device) for name, value in grouped(answer.tensors, MODEL).items()},
            sent={name: value.to(device) for name, value in grouped(answer.tensors, EXTRA).items()},
            memory={},
            momentum={},
            losses={},
            n_steps=0,
            start_scores=nothing,
            end_scores=nothing,
            probe_scores=nothing,
            noted=None,
        )

    def _recalibrated(self, merged: SemiState, round_index: int, weights: dict[int, Tensor], post: Post) -> SemiState:
        """The merged model with running statistics that its clients measured on their pools."""
        model = _named(MODEL, merged.model)
        buffers = {f"{MODEL}{name}" for name, _ in self.setting.new_model().named_buffers()}
        wanted = Expected({name: value for name, value in model.items() if name in buffers})
        answers = post.ask({k: Letter("recalibrate", round_index, model) for k in weights}, wanted)
        measured = [grouped(answer.tensors, MODEL) for answer in answers.values()]
        mean = average_models(measured, torch.stack([weights[k] for k in answers]))
        return replace(merged, model=merged.model | mean)


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}{name}": value for name, value in tensors.items()}
