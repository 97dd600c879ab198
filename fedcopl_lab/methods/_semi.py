"""Federated semi-supervised learning: send the model, train on every participant, merge, test (SAGE Alg. 1)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import Federation
from fedcopl_lab.methods._local_task import ClientUpdate, LocalTask
from fedcopl_lab.methods._recipe import Recipe, RoundEnd
from fedcopl_lab.methods._recipes import recipe_of
from fedcopl_lab.methods._semi_rows import round_row
from fedcopl_lab.methods._semi_setting import SemiSetting
from fedcopl_lab.methods._semi_state import SemiState, Tensors
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import average_models, model_scores, recalibrate

_AUTHORS_COPIES = 2000  # the released code counts a labelled image as often as its sampler repeats it


class SemiMethod:
    """A method of SAGE's tables: one local task with the method's hooks, on each of a round's clients.

    What a client starts from: the server's model, and what it kept itself. What it does: its recipe's steps.
    What it sends: its model and what its recipe adds. How it predicts: with the server's model.

    Args:
        setting: data and federation of the run.
        recipe: hooks; None takes those of ``setting.config.method``.
    """

    def __init__(self, setting: SemiSetting, recipe: Recipe | None = None) -> None:
        self.setting = setting
        self.config: SageConfig = setting.config
        self.recipe = recipe_of(self.config.method) if recipe is None else recipe

    @property
    def federation(self) -> Federation:
        """Which client holds which images."""
        return self.setting.federation

    def initial_state(self) -> SemiState:
        """A freshly drawn model."""
        return SemiState(round=0, model=dict(self.setting.new_model().state_dict()))

    def restored_state(self, tensors: Tensors) -> SemiState:
        """The state that :meth:`SemiState.to_tensors` wrote."""
        return SemiState.from_tensors(tensors, self.config.device)

    def step(self, state: SemiState) -> tuple[SemiState, dict[str, Any]]:
        """One communication round: the next state, and the row that reports it."""
        with exact_convolutions(self.config.precision):
            participants = self.participants(state.round)
            messages = self.recipe.message(self.setting, state, participants)
            updates, momentum = self._train(state, messages)
            return self.close_round(state, messages, updates, momentum)

    def close_round(
        self, state: SemiState, messages: dict[int, Tensors], updates: dict[int, ClientUpdate], momentum: Tensors
    ) -> tuple[SemiState, dict[str, Any]]:
        """The state after a round and its row, from what the clients did, wherever they did it.

        Args:
            state: what the clients trained from.
            messages: what each received beside the model.
            updates: client -> what its training ended with, in rising order of clients.
            momentum: SGD buffers that the next round starts from.
        """
        end = RoundEnd(self.setting, state, updates, self.weights(list(updates)))
        merged = self._with_statistics(self.recipe.merge(end), end)
        memories = state.memories | {k: one.memory for k, one in updates.items() if one.memory}
        after = replace(merged, round=state.round + 1, momentum=momentum, memories=memories)
        return after, round_row(self.setting, after, updates, messages)

    def participants(self, round_index: int) -> list[int]:
        """The round's clients, in rising order."""
        wanted = self.config.clients_per_round
        generator = torch_generator(self.config.seed, "participation", round_index)
        return torch.randperm(self.config.n_clients, generator=generator)[:wanted].sort().values.tolist()

    def weights(self, participants: Sequence[int]) -> Int[Tensor, "m"]:
        """Aggregation weight of each participant."""
        return torch.tensor(
            [self.weight(len(self.setting.labelled(k)), len(self.setting.pool(k))) for k in participants]
        )

    def weight(self, n_labelled: int, n_pool: int) -> int:
        """Aggregation weight of a client with so many labelled images and so large a pool."""
        if self.config.weight_by == "uniform":
            return 1
        return (_AUTHORS_COPIES if self.config.weight_by == "authors" else 1) * n_labelled + n_pool

    def predict(self, state: SemiState, indices: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The classes that the server's model gives to images of the data set, [n]."""
        model = self.setting.placed_model(state.model)
        images = self.setting.images[indices.to(self.config.device)]
        return model_scores(model, images, self.setting.testing).argmax(dim=1).cpu()

    def _train(self, state: SemiState, messages: dict[int, Tensors]) -> tuple[dict[int, ClientUpdate], Tensors]:
        """Each participant's update, and the SGD buffers that the next one would start from."""
        momentum, updates = state.momentum, {}
        for client, message in messages.items():
            memory = state.memories.get(client, {})
            task = LocalTask(self.setting, self.recipe, client, state.round, state.model, message, memory, momentum)
            updates[client] = task.run()
            momentum = updates[client].momentum
        return updates, momentum

    def _with_statistics(self, merged: SemiState, end: RoundEnd) -> SemiState:
        """Under ``bn="recalibrate"`` participants measure the merged model's running statistics on their pools."""
        if self.config.bn != "recalibrate":
            return merged
        model = self.setting.placed_model(merged.model)
        buffers = []
        for client in end.updates:
            images = self.setting.images[self.setting.pool(client)]
            buffers.append(recalibrate(model, images, self.setting.training))
        return replace(merged, model=merged.model | average_models(buffers, end.weights))


@contextmanager
def exact_convolutions(precision: str) -> Iterator[None]:
    """The same kernels in every run; full float32 products unless the run is in bf16."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32
    cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32 = True, False, precision != "fp32"
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32 = before
