"""How a trainer turns images and prompts into logits: the one place where the trainers' models differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.models import PromptedCLIP
from fedcopl_lab.steps._optimal_transport import transport_logits
from fedcopl_lab.steps._select import PseudoLabels

_IMAGES_PER_FORWARD = 256


@dataclass(frozen=True, repr=False)
class ImageCache:
    """Unit features of a client's pseudo-labelled images and their labels; never leaves the client.

    RECONSTRUCTION: no code of pFedPrompt (WWW 2023) is public. Its abstract says that the visual side adapts
    to the user without parameters; this is our reading, in the form of a key-value cache.

    Attributes:
        keys: unit features, as they were when the round started, [m, d].
        values: one-hot pseudo-labels, or equal weights on the candidates of each, [m, C].
        weight: a, how much the cache counts beside the prompts.
        sharpness: b, how fast an image loses influence with distance.
    """

    keys: Float[Tensor, "m d"]
    values: Float[Tensor, "m c"]
    weight: float
    sharpness: float

    @classmethod
    def of(
        cls, features: Float[Tensor, "m d"], labels: PseudoLabels, n_classes: int, weight: float, sharpness: float
    ) -> "ImageCache":
        """The cache of images whose features are in the order of their pseudo-labels."""
        if labels.candidates is None:
            values = F.one_hot(labels.labels, n_classes)
        else:
            values = labels.candidates / labels.candidates.sum(dim=1, keepdim=True)
        return cls(keys=features.detach(), values=values.to(features), weight=weight, sharpness=sharpness)

    def votes(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        """a · exp(-b (1 - f Kᵀ)) L, added to the prompts' logits, [B, C]."""
        return self.weight * (-self.sharpness * (1 - features @ self.keys.T)).exp() @ self.values

    def __repr__(self) -> str:
        return f"ImageCache({len(self.keys)} images)"


@dataclass(frozen=True, repr=False)
class Scorer:
    """The logits of a run's method, in two halves that may be computed apart and kept.

    Most methods compare one feature of the image with one text per class. FedOTP compares every patch with
    two texts per class, its global and its local one. A text prompt that is not trained is the template's
    text; a visual prompt that is not trained has no vectors, which is plain CLIP.

    Attributes:
        prompted: the frozen model with its classes.
        config: the run.
        template: unit text features of the data set's template, [C, d]; read where the text is not trained.
    """

    prompted: PromptedCLIP
    config: PromptConfig
    template: Float[Tensor, "c d"] | None = None

    def __post_init__(self) -> None:
        if "text" not in self.config.trained and self.template is None:
            raise FedCoPLError(
                f"modalities={self.config.modalities!r} trains no text prompt; pass the template's text features"
            )

    @property
    def reads_patches(self) -> bool:
        """Whether images are compared patch by patch."""
        return self.config.method == "FedOTP"

    @overload
    def images(self, images: Tensor, visual_prompt: Tensor) -> Tensor: ...

    @overload
    def images(self, images: Sequence[Tensor], visual_prompt: Tensor) -> list[Tensor]: ...

    def images(self, images: Tensor | Sequence[Tensor], visual_prompt: Tensor) -> Tensor | list[Tensor]:
        """The image half: unit features, [B, d], or of every patch, [B, M, d]; or a list for K stacked prompts."""
        encode = self.prompted.patch_features if self.reads_patches else self.prompted.image_features
        return encode(images, visual_prompt)

    @torch.no_grad()
    def known_images(self, images: Tensor, visual_prompt: Tensor) -> Tensor:
        """The same without gradient and in batches of 256, for any number of images."""
        return torch.cat([self.images(part, visual_prompt) for part in images.split(_IMAGES_PER_FORWARD)])

    def texts(self, prompts: Mapping[str, Tensor]) -> Tensor:
        """The text half: unit features [C, d], or [2, C, d] for FedOTP; with K stacked prompts [K, …]."""
        if self.template is not None and "text" not in self.config.trained:
            shape = (*prompts["text"].shape[:-2], *([2] if self.reads_patches else []), *self.template.shape)
            return self.template.expand(shape)
        if not self.reads_patches:
            return self.prompted.text_features(prompts["text"])
        both = torch.stack([prompts["text"], prompts["text_local"]], dim=-3)
        return self.prompted.text_features(both.flatten(0, -3)).unflatten(0, both.shape[:-2])

    def logits(
        self,
        images: Float[Tensor, "b *patches d"],
        texts: Float[Tensor, "*contexts c d"],
        cache: ImageCache | None = None,
    ) -> Float[Tensor, "b c"]:
        """Put the halves of one client together, with its cache's votes where it has one, [B, C]."""
        if self.reads_patches:
            config, scale = self.config, self.prompted.model.logit_scale.exp()
            levels = (config.ot_mass, config.ot_epsilon, config.ot_threshold, config.ot_iterations)
            parts = images.split(_IMAGES_PER_FORWARD)
            return torch.cat([transport_logits(part, texts, scale, *levels) for part in parts])
        logits = self.prompted.logits_from_features(images, texts)
        return logits if cache is None else logits + cache.votes(images)

    def cache(self, images: Tensor, visual_prompt: Tensor, labels: PseudoLabels) -> ImageCache | None:
        """pFedPrompt's cache of the labelled ones among a client's images; None for the other methods."""
        if self.config.method != "pFedPrompt":
            return None
        features = self.known_images(images[labels.indices.to(images.device)], visual_prompt)
        n_classes, config = len(self.prompted.class_names), self.config
        return ImageCache.of(features, labels, n_classes, config.cache_weight, config.cache_sharpness)

    def __repr__(self) -> str:
        return f"Scorer({self.config.method}, {self.config.modalities})"
