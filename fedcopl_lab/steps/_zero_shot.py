"""Step 1: what the frozen CLIP predicts before anything is learned."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import folded, table
from fedcopl_lab.data import Dataset
from fedcopl_lab.models import CLIPBundle
from fedcopl_lab.steps._confidence import class_counts


@dataclass(frozen=True, repr=False)
class Predictions:
    """Scores of images for every class.

    Attributes:
        logits: cosine similarities times the model's logit scale, [n, C].
    """

    logits: Float[Tensor, "n c"]

    @property
    def labels(self) -> Int[Tensor, "n"]:
        """The most probable class of each image, [n]."""
        return self.logits.argmax(dim=1)

    @property
    def probabilities(self) -> Float[Tensor, "n c"]:
        """softmax of the logits in float64, [n, C] (Eq. 1)."""
        return self.logits.double().softmax(dim=1)

    def accuracy(self, labels: Int[Tensor, "n"]) -> float:
        """Share of images whose most probable class is their label, in [0, 1]."""
        if labels.shape != self.logits.shape[:1]:
            raise FedCoPLError(
                f"labels have shape {tuple(labels.shape)}; expected one for each of {len(self.logits)} images"
            )
        return float((self.labels == labels).double().mean())

    def __repr__(self) -> str:
        return f"Predictions({len(self.logits)} images × {self.logits.shape[1]} classes)"

    def _repr_html_(self) -> str:
        n, n_classes = self.logits.shape
        rows = [["images", n], ["classes", n_classes]]
        rows += [["mean confidence", float(self.probabilities.amax(dim=1).mean())]] if n else []
        counts = table(list(enumerate(class_counts(self.labels, n_classes).tolist())), ["class", "images"])
        return table(rows, caption="Predictions") + folded("predicted images per class", counts)


@torch.no_grad()
@tf32_in()
def zero_shot(
    clip: CLIPBundle, dataset: Dataset, indices: Int[Tensor, "n"] | Sequence[int] | None = None
) -> Predictions:
    """Score images with the plain CLIP and the data set's prompt template (Eq. 1, Sec. 3.1).

    Args:
        clip: a frozen model from ``load_clip``.
        dataset: images, class names and template.
        indices: which images of the data set, [n]; None takes all.

    Raises:
        FedCoPLError: no image is asked for, one that the data set does not have, no list of positions, or a class
            name too long for the context.

    >>> clip, digits = lab.load_clip("tiny"), lab.load_dataset("digits")
    >>> lab.zero_shot(clip, digits, range(100)).logits.shape
    torch.Size([100, 10])

    Shown in notebook ``00_quickstart``.
    """
    chosen = torch.arange(len(dataset)) if indices is None else torch.as_tensor(indices)
    if not chosen.numel():
        raise FedCoPLError("zero_shot was asked for 0 images; expected at least one index")
    if chosen.ndim != 1 or chosen.is_floating_point() or chosen.dtype == torch.bool:
        given = f"{str(chosen.dtype).removeprefix('torch.')} {list(chosen.shape)}"
        raise FedCoPLError(f"indices are {given}; expected a list of whole numbers, of a mask its .nonzero()[:, 0]")
    n = len(dataset)
    if not -n <= int(chosen.min()) <= int(chosen.max()) < n:
        asked = f"indices go from {int(chosen.min())} to {int(chosen.max())}"
        raise FedCoPLError(f"{asked}, but {dataset.name} has {n} images; choose from 0 to {n - 1}")
    texts = template_features(clip, dataset.class_names, dataset.template)
    weight = next(clip.model.parameters())
    images = [
        clip.model.encode_image(clip.to_input(dataset.images[part]).to(weight), normalize=True)
        for part in chosen.long().split(256)
    ]
    logits = clip.model.logit_scale.exp() * torch.cat(images) @ texts.T
    return Predictions(logits.float().cpu())


def template_features(clip: CLIPBundle, class_names: Sequence[str], template: str) -> Float[Tensor, "c d"]:
    """Unit text features of ``template.format(class name)`` for every class, [C, d]."""
    tokens = clip.tokenizer([template.format(name) for name in class_names])
    for name, row in zip(class_names, tokens, strict=True):
        if int(row.argmax()) == clip.context_length - 1:  # the end token has the highest id; the last place may be cut
            raise FedCoPLError(f"class name {name!r} fills the context of {clip.context_length} tokens; shorten it")
    device = clip.model.logit_scale.device
    return F.normalize(clip.model.encode_text(tokens.to(device)), dim=-1)
