"""How a trainer turns images and prompts into logits: the one place where the trainers' models differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._card import onto
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.models import PromptedCLIP
from fedcopl_lab.steps._optimal_transport import transport_logits
from fedcopl_lab.steps._select import PseudoLabels

_IMAGES_PER_FORWARD = 256
_REMEMBERED: WeakKeyDictionary[PromptedCLIP, dict[tuple[bytes, ...], tuple[Tensor, Tensor]]] = WeakKeyDictionary()

SHOTS_OF_CACHE = 16
"""Images as which every class counts in pFedPrompt's cache."""


@dataclass(frozen=True, repr=False)
class ImageRows:
    """Rows of a tensor of images that nobody copies as a whole.

    Attributes:
        whole: pixels or image tokens of all images, on the device or in (pinned) memory, [n_all, …].
        rows: which of them, where ``whole`` is, [n].
        device: where batches are wanted.

    >>> rows = ImageRows(torch.arange(5.0)[:, None], torch.tensor([4, 2]), torch.device("cpu"))
    >>> rows[torch.tensor([1])]
    tensor([[2.]])
    """

    whole: Float[Tensor, "n_all *image"]
    rows: Int[Tensor, "n"]
    device: torch.device

    @classmethod
    def of(cls, whole: Tensor, rows: Tensor, device: torch.device | str) -> "ImageRows":
        """Rows that are counted from 0 in ``whole``."""
        return cls(whole, rows.to(whole.device), torch.device(device))

    @property
    def waits_in_memory(self) -> bool:
        """Whether batches come from the machine's memory, so that their places should be there too."""
        return self.whole.device.type == "cpu"

    def part(self, places: Int[Tensor, "m"]) -> "ImageRows":
        """Some of these rows."""
        return ImageRows(self.whole, self.rows[places.to(self.rows.device)], self.device)

    def split(self, size: int) -> Iterator[Tensor]:
        """All rows in batches of that size."""
        return (onto(self.whole[rows], self.device) for rows in self.rows.split(size))

    def __getitem__(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b *image"]:
        return onto(self.whole[self.rows[places.to(self.rows.device)]], self.device)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"ImageRows({len(self)} of {len(self.whole)} images)"


@dataclass(frozen=True, repr=False)
class ImageCache:
    """Unit features of a client's pseudo-labelled images and their labels; never leaves the client.

    RECONSTRUCTION: no code of pFedPrompt (WWW 2023) is public. Its abstract says that the visual side adapts
    to the user without parameters; this is our reading, in the form of a key-value cache.

    Attributes:
        keys: unit features, as they were when the round started, [m, d].
        values: one-hot pseudo-labels, or equal weights on the candidates of each, [m, C].
        images: positions of the images among the client's training images, [m].
        weight: a, how much the cache counts beside the prompts.
        sharpness: b, how fast an image loses influence with distance.
        summed: add the votes of a class's images up, whatever their number, an image's own among them.
    """

    keys: Float[Tensor, "m d"]
    values: Float[Tensor, "m c"]
    images: Int[Tensor, "m"]
    weight: float
    sharpness: float
    summed: bool = False

    @classmethod
    def of(
        cls, features: Float[Tensor, "m d"], labels: PseudoLabels, n_classes: int, config: PromptConfig
    ) -> "ImageCache":
        """The cache of images whose features are in the order of their pseudo-labels."""
        if labels.candidates is None:
            values = F.one_hot(labels.labels, n_classes)
        else:
            values = labels.candidates / labels.candidates.sum(dim=1, keepdim=True)
        return cls(
            keys=features.detach(),
            values=values.to(features),
            images=labels.indices.to(features.device),
            weight=config.cache_weight,
            sharpness=config.cache_sharpness,
            summed=config.cache_votes == "sum",
        )

    def votes(self, features: Float[Tensor, "b d"], own: Int[Tensor, "b"] | None = None) -> Float[Tensor, "b c"]:
        """What is added to the prompts' logits: a · 16 times the mean of exp(-b (1 - f Kᵀ)) over a class's images.

        So a class counts as 16 images, Tip-Adapter's number, however many the client holds; one without images has
        no vote. With ``summed`` it is a times the sum.

        Args:
            features: unit features, [B, d].
            own: positions of the images among the client's training images, -1 for others, [B]; an image in the
                cache does not vote for itself.
        """
        near = (-self.sharpness * (1 - features @ self.keys.T)).exp()
        if self.summed:
            return self.weight * near @ self.values
        if own is None:
            counts = self.values.sum(dim=0)
        else:
            others = (own[:, None] != self.images[None]).to(near)
            near, counts = near * others, others @ self.values
        return self.weight * SHOTS_OF_CACHE * (near @ self.values) / torch.where(counts > 0, counts, 1)

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
        template: the template's unit text features, [C, d]; for text that is not trained or :attr:`reads_template`.
    """

    prompted: PromptedCLIP
    config: PromptConfig
    template: Float[Tensor, "c d"] | None = None

    reads_template: ClassVar[bool] = False
    """Whether it wants the template's text even where the text prompt is trained."""

    def __post_init__(self) -> None:
        if self.template is None and (self.reads_template or "text" not in self.config.trained):
            who = f"{self.config.method} with modalities={self.config.modalities!r}"
            raise FedCoPLError(f"{who} reads the template; pass the template's text features")

    def start(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """What every client starts from, by part, given prompts drawn from N(0, 0.02²)."""
        return dict(drawn)

    def penalty(self, texts: Tensor) -> Float[Tensor, ""] | None:
        """A term that one client's loss adds, from its text half; None adds nothing."""
        return None

    @property
    def reads_patches(self) -> bool:
        """Whether images are compared patch by patch."""
        return self.config.like == "FedOTP"

    def images(self, images: Tensor | Sequence[Tensor], visual_prompt: Tensor) -> Any:
        """The image half: unit features, [B, d], or of every patch, [B, M, d]; or a list for K stacked prompts."""
        encode = self.prompted.patch_features if self.reads_patches else self.prompted.image_features
        return encode(images, visual_prompt)

    @torch.no_grad()
    def known_images(self, images: Tensor | ImageRows, visual_prompt: Tensor) -> Tensor:
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
        own: Int[Tensor, "b"] | None = None,
    ) -> Float[Tensor, "b c"]:
        """Put the halves of one client together, with its cache's votes where it has one, [B, C].

        ``own`` are the images' positions among the client's training images, as :meth:`ImageCache.votes` has them.
        """
        if self.reads_patches:
            config, scale = self.config, self.prompted.model.logit_scale.exp()
            levels = (config.ot_mass, config.ot_epsilon, config.ot_threshold, config.ot_iterations)
            parts = images.split(_IMAGES_PER_FORWARD)
            return torch.cat([transport_logits(part, texts, scale, *levels) for part in parts])
        logits = self.prompted.logits_from_features(images, texts)
        return logits if cache is None else logits + cache.votes(images, own)

    def cache(self, images: ImageRows, visual_prompt: Tensor, labels: PseudoLabels) -> ImageCache | None:
        """pFedPrompt's cache of the labelled ones among a client's images; None for the other methods."""
        if self.config.like != "pFedPrompt":
            return None
        features = self._remembered(images.part(labels.indices), visual_prompt)
        return ImageCache.of(features, labels, len(self.prompted.class_names), self.config)

    def _remembered(self, images: ImageRows, visual_prompt: Tensor) -> Tensor:
        """Features of a client's images: a round starts with the prompt that the last one was tested with."""
        arrays = [values.detach().cpu().numpy().tobytes() for values in (images.rows, visual_prompt)]
        key = (*arrays, bytes([torch.backends.cuda.matmul.allow_tf32]))  # training may use TF32, a test does not
        memory = _REMEMBERED.setdefault(self.prompted, {})
        whole, features = memory.pop(key, (None, None))
        if whole is not images.whole or features is None:
            features = self.known_images(images, visual_prompt)
        memory[key] = images.whole, features  # the newest is the last one
        if len(memory) > self.config.n_clients:
            del memory[next(iter(memory))]
        return features

    def __repr__(self) -> str:
        return f"Scorer({self.config.method}, {self.config.modalities})"


SCORERS: dict[str, type[Scorer]] = {}
"""Method -> its own kind of scorer; the others have :class:`Scorer` itself."""


def scorer_of(prompted: PromptedCLIP, config: PromptConfig, template: Tensor | None = None) -> Scorer:
    """The scorer of a run's method."""
    return SCORERS.get(config.method, Scorer)(prompted, config, template)
