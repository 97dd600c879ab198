"""What the clients' models say in a state: scores, tests, and tests with exchanged text prompts."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, check_registered
from fedcopl_lab.data import Shard, check_pixels
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._prompt_state import FederationState
from fedcopl_lab.methods._sage_local_task import own_statistics
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState
from fedcopl_lab.methods.sage_client import exact_convolutions
from fedcopl_lab.steps import (
    Evaluation,
    PseudoLabels,
    aggregate,
    check_logits,
    evaluate,
    model_scores,
    template_features,
)


@torch.no_grad()
@tf32_in()
def client_scores(
    setting: PromptSetting,
    client: int,
    prompts: dict[str, Tensor],
    labels: PseudoLabels | None,
    indices: Int[Tensor, "n"],
) -> Float[Tensor, "n c"]:
    """Scores of images of the data set by one client's model, [n, C]; pFedPrompt's cache is made of its ``labels``."""
    scorer = setting.scorer
    features = scorer.known_images(setting.rows(indices), prompts["visual"])
    cache = _cache(setting, client, prompts["visual"], labels)
    own = None if cache is None else _own_positions(setting.train_indices(client), indices).to(features.device)
    scores = scorer.logits(features, scorer.texts(prompts), cache, own)
    check_logits(scores)
    return scores


def _own_positions(train: Int[Tensor, "m"], indices: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Where images of the data set are among a client's training images; -1 for others."""
    same = indices[:, None] == train[None]
    return torch.where(same.any(dim=1), same.int().argmax(dim=1), -1)


def _cache(setting: PromptSetting, client: int, visual: Tensor, labels: PseudoLabels | None) -> Any:
    if setting.config.like != "pFedPrompt" or labels is None:
        return None
    return setting.scorer.cache(setting.rows(setting.train_indices(client)), visual, labels)


class ClientModels:
    """The models of all clients in one state, as they would start the next round.

    Args:
        setting: data, federation and model of the run.
        state: prompts and, for a method that remembers images, pseudo-labels.
        stride: each such image of a client's test shard is tested.
    """

    def __init__(self, setting: PromptSetting, state: FederationState, stride: int = 1) -> None:
        self.setting, self.state = setting, state
        self.scorer = setting.scorer
        self._stride = stride
        self._tests: tuple[Tensor, Tensor] | None = None  # encoded once where clients share the visual prompt

    @cached_property
    def _shards(self) -> list[Shard]:
        """The clients' shards with the test images that are tested."""
        return [replace(shard, test=shard.test[:: self._stride]) for shard in self.setting.federation.shards]

    def logits(self, client: int, indices: Int[Tensor, "n"]) -> Float[Tensor, "n c"]:
        """A client's scores of images of the data set, [n, C]."""
        return client_scores(self.setting, client, self.state.prompts(client), self.state.labels_of(client), indices)

    @torch.no_grad()
    @tf32_in()
    def of_pixels(self, client: int, pixels: Float[Tensor, "n 3 h w"]) -> Int[Tensor, "n"]:
        """The classes that a client's model gives to prepared images, [n]."""
        return self._classes(client, self.scorer.known_images(pixels, self.state.prompts(client)["visual"]))

    @torch.no_grad()
    @tf32_in()
    def tested(self, client: int, indices: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The classes that a client's model gives to test images of the data set, [n]."""
        return self._classes(client, self._of_tests(client, indices))

    def evaluate(self, everywhere: bool) -> Evaluation:
        """Test all clients; where they share the visual prompt, the images are encoded once for all."""
        return evaluate(self.tested, self._shards, self.setting.dataset.labels, everywhere)

    @torch.no_grad()
    @tf32_in()
    def exchange(self, weights: Tensor) -> dict[str, Any]:
        """Accuracy on each client's test shard with every client's text prompt, and with their mean (Sec. 3.4).

        ``exchange[i][j]`` is client i's shard with the text of client j, everything else its own; None for an
        empty shard. Empty where clients have no text prompt of their own.

        Args:
            weights: of the mean, as the server weighs clients, [K].
        """
        config, clients = self.setting.config, range(self.setting.config.n_clients)
        own_texts = [part for part in self.state.clients if part != "visual" and part not in config.shared]
        if "text" not in config.trained or not own_texts:
            return {}
        mean = {part: aggregate(self.state.clients[part], weights) for part in own_texts}
        texts = [self.scorer.texts(self.state.prompts(j)) for j in clients]
        texts.append(self.scorer.texts(self.state.prompts(0) | mean))
        table = []
        for i in clients:
            indices = torch.as_tensor(self.setting.federation.indices(i, "test"))
            true = self.setting.dataset.labels[indices]
            features, cache = self._of_tests(i, indices), self._cache(i)
            found = [self.scorer.logits(features, text, cache).argmax(dim=1).cpu() for text in texts]
            table.append([float((one == true).double().mean()) if len(true) else None for one in found])
        return {"exchange": [line[:-1] for line in table], "exchange_mean": [line[-1] for line in table]}

    def __repr__(self) -> str:
        return f"ClientModels({self.setting.config.label}, {self.state})"

    def _classes(self, client: int, features: Tensor) -> Tensor:
        texts = self.scorer.texts(self.state.prompts(client))
        scores = self.scorer.logits(features, texts, self._cache(client))
        check_logits(scores)
        return scores.argmax(dim=1).cpu()

    def _cache(self, client: int) -> Any:
        return _cache(self.setting, client, self.state.prompts(client)["visual"], self.state.labels_of(client))

    def _of_tests(self, client: int, indices: Int[Tensor, "n"]) -> Tensor:
        """Image halves of test images."""
        setting = self.setting
        visual = self.state.prompts(client)["visual"]
        if "visual" in setting.config.trained and "visual" not in setting.config.shared:
            return self.scorer.known_images(setting.rows(indices), visual)
        if self._tests is None:
            tests = torch.as_tensor(np.concatenate([shard.test for shard in self._shards])).unique()
            place = torch.full((len(setting.dataset),), -1)
            place[tests] = torch.arange(len(tests))
            self._tests = self.scorer.known_images(setting.rows(tests), visual), place
        features, place = self._tests
        return features[place[indices]]


@torch.no_grad()
@tf32_in()
def predict_images(
    config: RunConfig,
    tensors: dict[str, Tensor],
    images: UInt8[Tensor, "n 3 h w"],
    client: int,
    split: dict[str, Any] | None = None,
) -> Int[Tensor, "n"]:
    """Classes that a client's stored prompts or model give to new images; ``Run.predict`` is the way in.

    Args:
        config: the run's configuration.
        tensors: its stored state; empty for a zero-shot run.
        images: uint8 pixels at the size of the model or, for SAGE, of the run's data, [n, 3, H, W].
        client: whose model, 0 to K - 1.
        split: its stored split; None draws it again. Only pFedPrompt's cache reads the client's images.

    Raises:
        FedCoPLError: no such client, images of another size or type, or a method that is not registered here.
    """
    check_registered(config.method)
    if not 0 <= client < config.n_clients:
        raise FedCoPLError(f"client={client} does not exist; expected 0 to {config.n_clients - 1}")
    if isinstance(config, SageConfig):
        return _predict_with_model(config, tensors, images, client, split)
    if not isinstance(config, PromptConfig):
        raise FedCoPLError(f"no method predicts for a {type(config).__name__}; build it with lab.configure(...)")
    setting = PromptSetting.of(config, split)
    pixels = setting.clip.to_input(images.to(config.device))
    if not len(pixels):  # towers cannot take no image
        return torch.zeros(0, dtype=torch.long)
    if not tensors:
        texts = template_features(setting.clip, setting.dataset.class_names, setting.dataset.template)
        return (setting.clip.model.encode_image(pixels, normalize=True) @ texts.T).argmax(dim=1).cpu()
    return ClientModels(setting, FederationState.from_tensors(tensors, config.device)).of_pixels(client, pixels)


def _predict_with_model(
    config: SageConfig, tensors: dict[str, Tensor], images: Tensor, client: int, split: dict[str, Any] | None
) -> Tensor:
    """Classes that the server's model gives; under ``bn="local"`` with the client's own running statistics."""
    setting = SemiSetting.of(config, split)
    check_pixels(images, tuple(setting.images.shape[1:]), config.label)
    state = SemiState.from_tensors(tensors, config.device)
    model = setting.placed_model(state.model | own_statistics(state.memories.get(client, {})))
    with exact_convolutions():
        return model_scores(model, images.to(config.device), setting.testing).argmax(dim=1).cpu()
