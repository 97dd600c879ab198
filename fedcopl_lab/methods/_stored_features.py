"""The label steps on stored features of a real CLIP: its true confidences, but labels only, no training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, configure
from fedcopl_lab.data import dirichlet_partition
from fedcopl_lab.methods._labels import make_labels
from fedcopl_lab.steps import PseudoLabels

LOGIT_SCALE = 100.0
"""By which OpenAI's models multiply cosines."""

SETTING: Mapping[str, Any] = {"n_clients": 5, "shots": 3, "q_conf": 0.5, "q_ent": 0.5}
"""Of the committed numbers: 3 shots x 10 classes x 5 clients are about a third of 500 images, as in the profiles."""

_FIELDS = ("image_features", "text_features", "labels")


@dataclass(frozen=True, repr=False)
class StoredFeatures:
    """Features of images and of a template for each class, from a frozen model that is not available here.

    Attributes:
        images: as the model gave them, [n, D].
        texts: of the template with each class's name, [C, D].
        labels: true labels, for reporting and for drawing the clients, [n].
    """

    images: Float[Tensor, "n d"]
    texts: Float[Tensor, "c d"]
    labels: Int[Tensor, "n"]

    @property
    def logits(self) -> Float[Tensor, "n c"]:
        """Cosines times 100, as the model scores images (Sec. 3.1)."""
        return LOGIT_SCALE * F.normalize(self.images, dim=1) @ F.normalize(self.texts, dim=1).T

    def __repr__(self) -> str:
        return f"StoredFeatures({len(self.images)} images, {len(self.texts)} classes)"


def read_features(path: Path | str) -> StoredFeatures:
    """Read features from an ``.npz`` file with image_features [n, D], text_features [C, D] and labels [n].

    Raises:
        FedCoPLError: the file is missing, is no such file, or its parts do not fit each other.

    >>> parts = {"image_features": np.ones((5, 8)), "text_features": np.ones((2, 8)), "labels": np.arange(5) % 2}
    >>> np.savez("features.npz", **parts)
    >>> read_features("features.npz")
    StoredFeatures(5 images, 2 classes)

    Shown in notebook ``data_check``.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            images, texts, labels = (torch.from_numpy(np.array(stored[name])) for name in _FIELDS)
    except (OSError, ValueError, KeyError) as error:
        raise FedCoPLError(f"{path} holds no features ({error}); expected an .npz with {', '.join(_FIELDS)}") from error
    fits = images.ndim == texts.ndim == 2 and images.shape[1] == texts.shape[1] and labels.shape == images.shape[:1]
    if not fits or not len(labels) or not 0 <= int(labels.min()) <= int(labels.max()) < len(texts):
        shapes = ", ".join(str(tuple(part.shape)) for part in (images, texts, labels))
        raise FedCoPLError(f"the parts of {path} do not fit: {shapes}; expected [n, D], [C, D] and [n] labels below C")
    return StoredFeatures(images.float(), texts.float(), labels.long())


def label_quality(
    features: StoredFeatures, betas: Sequence[float] = (0.1, 0.05), seeds: Sequence[int] = (0, 1, 2)
) -> list[dict[str, Any]]:
    """How many of FPL's, CPL's and CoPL's first labels are right on real CLIP scores under Dirichlet label skew.

    Clients are drawn as in the runs, the same for every labeller. Nothing is trained: this is the first label
    phase of supplement Table 3, on the images of the stored features.

    Args:
        features: from :func:`read_features`.
        betas: Dirichlet concentrations.
        seeds: of the partitions.

    Returns:
        One line per labeller, beta and seed: labeller, beta, seed, n_selected, n_right, label_accuracy; ``"argmax"``
        is every image with its most probable class.

    >>> features = StoredFeatures(torch.randn(60, 8), torch.randn(4, 8), torch.arange(60) % 4)
    >>> label_quality(features, betas=[0.5], seeds=[0])[0]["labeller"]
    'argmax'

    Shown in notebook ``data_check``.
    """
    rows = []
    for beta, seed in product(betas, seeds):
        for name, chosen, true in _labelled(features, beta, seed):
            right = sum(int((t[one.indices] == one.labels).sum()) for one, t in zip(chosen, true, strict=True))
            n = sum(map(len, chosen))
            rows.append({"labeller": name, "beta": beta, "seed": seed, "n_selected": n, "n_right": right})
            rows[-1]["label_accuracy"] = right / n
    return rows


def saturation(logits: Float[Tensor, "n c"]) -> dict[str, int]:
    """How many confidences of scores [n, C] are exactly 1 in float32, where no threshold separates images.

    Returns:
        ``n_images``, ``n_ones`` (confidences that are exactly 1) and ``n_levels`` (distinct confidences).

    >>> saturation(torch.tensor([[40.0, 0.0], [1.0, 0.0]]))
    {'n_images': 2, 'n_ones': 1, 'n_levels': 2}
    """
    confidences = logits.float().softmax(dim=1).amax(dim=1)
    return {
        "n_images": len(confidences),
        "n_ones": int((confidences == 1).sum()),
        "n_levels": len(confidences.unique()),
    }


def _labelled(
    features: StoredFeatures, beta: float, seed: int
) -> Iterator[tuple[str, Sequence[PseudoLabels], Sequence[Tensor]]]:
    """Each labeller's choice on every client, and the true labels of the clients' images."""
    classes = features.labels.numpy()
    shards = dirichlet_partition(classes, classes, int(SETTING["n_clients"]), beta, seed)
    logits = features.logits
    owned = [torch.tensor(shard.train) for shard in shards]
    scores, true = [logits[own] for own in owned], [features.labels[own] for own in owned]
    yield "argmax", [PseudoLabels(torch.arange(len(z)), z.argmax(dim=1)) for z in scores], true
    for name in ("FPL", "CPL", "CoPL"):
        config: PromptConfig = configure("paper", method="PromptFL", labeller=name, **SETTING)
        yield name, make_labels(scores, config, n_train=len(classes), phase=0).labels, true
