"""The fixed surroundings of a run: data, federation and frozen model, with what can be computed once."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from fedcopl_lab._card import memory_of, tf32_in
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.data import SEEN_SETS, Dataset, Federation, load_dataset, partition, restore_federation, split_name
from fedcopl_lab.models import CLIPBundle, PromptedCLIP, load_clip
from fedcopl_lab.models.clip import PHOTO_MODELS
from fedcopl_lab.models.prompted_clip import image_tokens
from fedcopl_lab.steps import SCORERS, ImageRows, Scorer, scorer_of, template_features, zero_shot

IMAGES_PER_FORWARD = 256


class _Frozen:
    """What depends on data and weights only: computed once per process, shared by its runs."""

    def __init__(self, dataset: Dataset, clip: CLIPBundle) -> None:
        self.dataset, self.clip = dataset, clip

    @cached_property
    def tokens(self) -> Float[Tensor, "n_all tokens width"]:
        first, *others = self.dataset.images.split(IMAGES_PER_FORWARD)
        tokens = self._tokens_of(first)
        everything = _block_for(len(self.dataset.images), tokens)
        everything[: len(tokens)] = tokens
        for place, part in enumerate(others, start=1):
            everything[place * IMAGES_PER_FORWARD :][: len(part)] = self._tokens_of(part)
        return everything

    @tf32_in()
    def _tokens_of(self, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n tokens width"]:
        return image_tokens(self.clip.model, self.clip.to_input(images))

    @cached_property
    def template(self) -> Float[Tensor, "c d"]:
        with torch.no_grad():
            return template_features(self.clip, self.dataset.class_names, self.dataset.template)

    @cached_property
    def zero_shot_logits(self) -> Float[Tensor, "n_all c"]:
        return zero_shot(self.clip, self.dataset).logits


def _block_for(n: int, first: Tensor) -> Tensor:
    """Room for n tensors like the first in one block: parts and their sum would be two.

    On the card, or where that would take more than half of it, in pinned memory; batches are then copied when taken.
    """
    too_large = first.device.type == "cuda" and n * first[0].nbytes > memory_of(first.device) // 2
    return torch.empty(
        n, *first.shape[1:], dtype=first.dtype, device="cpu" if too_large else first.device, pin_memory=too_large
    )


@dataclass(frozen=True, repr=False)
class PromptSetting:
    """What stays the same over the rounds of a run.

    Attributes:
        config: the run.
        dataset: images, labels (for reporting only on the training part) and class names.
        federation: which client holds which images.
        clip: the frozen model.
        prompted: the same with the run's prompts, in float32; scores labels and tests.
        training: the form that training runs; the same object unless ``config.precision`` is bf16.
        own: what was computed of ``dataset`` where that is not the data set of this name, such as one client's part.
    """

    config: PromptConfig
    dataset: Dataset
    federation: Federation
    clip: CLIPBundle
    prompted: PromptedCLIP
    training: PromptedCLIP
    own: _Frozen | None = None

    @classmethod
    def of(cls, config: PromptConfig, split: dict[str, Any] | None = None) -> "PromptSetting":
        """Load the data and weights that a configuration names, and split the data or take a stored split."""
        _check_unseen(config)
        clip = load_clip(config.clip, device=config.device, weights=_weights_argument(config.weights))
        dataset = load_dataset(config.dataset, image_size=clip.image_size)
        federation = restore_federation(dataset, split) if split else partition(dataset, **config.partition_settings)
        return cls(config, dataset, federation, clip, *_prompted_pair(config, clip, dataset))

    @classmethod
    def of_part(cls, config: PromptConfig, dataset: Dataset, federation: Federation) -> "PromptSetting":
        """The setting of a machine with these images and no others: a client's, or a server's without any.

        Args:
            config: the run.
            dataset: its images, at their positions in the whole data set.
            federation: its own shard; the others empty.
        """
        clip = load_clip(config.clip, device=config.device, weights=_weights_argument(config.weights))
        pair = _prompted_pair(config, clip, dataset)
        return cls(config, dataset, federation, clip, *pair, own=_Frozen(dataset, clip))

    def holding(self, dataset: Dataset, federation: Federation) -> "PromptSetting":
        """The same run on other images, with the models that are open here."""
        return replace(self, dataset=dataset, federation=federation, own=_Frozen(dataset, self.clip))

    @property
    def tokens(self) -> Float[Tensor, "n_all tokens width"]:
        """What enters the first image layer for every image; nothing augments, so it never changes."""
        return self._known.tokens

    def rows(self, indices: Int[Tensor, "n"]) -> ImageRows:
        """The tokens of some images, which nobody copies before they are used."""
        return ImageRows.of(self.tokens, indices, self.config.device)

    @property
    def zero_shot_logits(self) -> Float[Tensor, "n_all c"]:
        """Scores of the plain CLIP for every image."""
        return self._known.zero_shot_logits

    def train_indices(self, client: int) -> Int[Tensor, "n"]:
        """A client's training images, as indices of the data set."""
        return self.federation.indices(client, "train")

    @property
    def n_train(self) -> int:
        """Training images of all clients."""
        return sum(len(shard.train) for shard in self.federation.shards)

    @property
    def template(self) -> Float[Tensor, "c d"] | None:
        """Unit text features of the template, where the run trains no text prompt or its method reads them."""
        reads = SCORERS.get(self.config.method, Scorer).reads_template or "text" not in self.config.trained
        return self._known.template if reads else None

    @property
    def scorer(self) -> Scorer:
        """What labels and tests are scored with."""
        return scorer_of(self.prompted, self.config, self.template)

    @property
    def _known(self) -> _Frozen:
        config = self.config
        if self.own is not None:
            return self.own
        return _frozen_for(
            config.dataset, self.dataset.sha256, config.clip, config.weights, config.device, config.threads
        )

    def __repr__(self) -> str:
        return f"PromptSetting({self.config.label})"


def _check_unseen(config: PromptConfig) -> None:
    """Refuse to give clients the images that their frozen model was trained on."""
    part = split_name(config.dataset, SEEN_SETS)
    if config.clip in PHOTO_MODELS and config.weights == "pretrained" and part.whole in SEEN_SETS and not part.unseen:
        raise FedCoPLError(
            f"dataset={config.dataset!r} holds images that {config.clip!r} was trained on; use "
            f"{replace(part, unseen=True).text!r}"
        )


def _weights_argument(weights: str) -> Literal["random"] | None:
    return "random" if weights == "random" else None


def _prompted_pair(config: PromptConfig, clip: CLIPBundle, dataset: Dataset) -> tuple[PromptedCLIP, PromptedCLIP]:
    """The model that scores, in float32, and the one that trains."""

    def prompted(precision: Literal["fp32", "bf16"]) -> PromptedCLIP:
        return PromptedCLIP(
            clip.model,
            clip.tokenizer,
            dataset.class_names,
            n_text=config.n_text,
            visual_depth=config.visual_depth,
            n_visual=config.n_visual if "visual" in config.trained else 0,  # no vectors: plain CLIP
            precision=precision,
        )

    scoring = prompted("fp32")
    return scoring, prompted("bf16") if config.precision == "bf16" else scoring


@lru_cache(maxsize=1)  # tokens are large: those of one data set at a time
def _frozen_for(dataset: str, _sha256: str, clip: str, weights: str, device: str, threads: int) -> _Frozen:
    """Kept per content, since a user's folder may change, and per thread count, since sums may round differently."""
    frozen = load_clip(clip, device=device, weights=_weights_argument(weights))
    return _Frozen(load_dataset(dataset, image_size=frozen.image_size), frozen)
