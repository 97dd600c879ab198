"""The label steps on stored features of a real CLIP: its true confidences, but labels only, no training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

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

SETTING: Mapping[str, Any] = {"n_clients": 5, "q_conf": 0.5, "q_ent": 0.5}
"""Of the committed numbers; everything else is the profiles' default, which was chosen on these features so that FPL
and CPL come near the label accuracies of supplement Table 3."""

BUDGET: Mapping[str, Any] = {"shots": 3, "candidate_scope": "client", "cpl_gamma": 2.0}
"""Another reading: 3 images per class and client, about a third of all, and CPL's sets from each client's scores."""

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
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            images, texts, labels = (torch.from_numpy(np.array(stored[name])) for name in _FIELDS)
    except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
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
        One line per labeller, beta and seed: labeller, beta, seed, n_selected, n_right, label_accuracy, and for CPL's
        sets of classes set_accuracy, the share that holds the true class, and set_size; ``"argmax"`` is every image
        with its most probable class, ``"FPL, few"`` and ``"CPL, few"`` are the labellers under :data:`BUDGET`.

    >>> features = StoredFeatures(torch.randn(60, 8), torch.randn(4, 8), torch.arange(60) % 4)
    >>> label_quality(features, betas=[0.5], seeds=[0])[0]["labeller"]
    'argmax'

    Shown in notebook ``data_check``.
    """
    rows: list[dict[str, Any]] = []
    classes = features.labels.numpy()
    config, few = (configure("paper", method="PromptFL", **SETTING, **budget) for budget in ({}, BUDGET))
    for beta, seed in product(betas, seeds):
        shards = dirichlet_partition(classes, classes, int(SETTING["n_clients"]), beta, seed)
        owned = [torch.tensor(shard.train) for shard in shards]
        parts = [features.logits[own] for own in owned], [features.labels[own] for own in owned]
        lines = count_right(*parts, config) + count_right(*parts, few, ("FPL", "CPL"), suffix=", few")[1:]
        rows += [{"labeller": line.pop("labeller"), "beta": beta, "seed": seed, **line} for line in lines]
    return rows


def count_right(
    scores: Sequence[Tensor],
    true: Sequence[Tensor],
    config: PromptConfig,
    labellers: Sequence[str] = ("FPL", "CPL", "CoPL"),
    suffix: str = "",
) -> list[dict[str, Any]]:
    """How many first labels of each labeller are right on clients' scores; ``"argmax"`` takes every image.

    Args:
        scores: each client's scores of its training images, K of [n_k, C].
        true: true labels of the same images, K of [n_k].
        config: settings of the labellers; its own labeller is not read.
        labellers: their names.
        suffix: what their lines' names end with.

    Returns:
        One line per labeller: labeller, n_selected, n_right, label_accuracy, and for CPL's sets of classes
        set_accuracy, the share that holds the true class, and set_size.

    >>> scores, true = [torch.eye(3)], [torch.tensor([0, 1, 0])]
    >>> count_right(scores, true, configure("smoke", n_clients=1), ["CoPL"])[0]["n_right"]
    2
    """
    chosen = {"argmax": tuple(PseudoLabels(torch.arange(len(z)), z.argmax(dim=1)) for z in scores)}
    n_train = sum(map(len, scores))
    for name in labellers:
        changed: Any = {"labeller": name}
        labelled = make_labels(
            scores, replace(config, **changed), n_train=n_train, phase=0, seed=config.seed, true_labels=true
        )
        chosen[name + suffix] = labelled.labels
    lines = []
    for name, labels in chosen.items():
        right = sum(int((t[one.indices] == one.labels).sum()) for one, t in zip(labels, true, strict=True))
        n = sum(map(len, labels))
        accuracy = right / n if n else None
        line = {"labeller": name, "n_selected": n, "n_right": right, "label_accuracy": accuracy}
        lines.append(line | _set_quality(labels, true, n))
    return lines


def _set_quality(labels: Sequence[PseudoLabels], true: Sequence[Tensor], n: int) -> dict[str, float | None]:
    """How good the sets of classes are that the labels were chosen from; None where a labeller has none."""
    sets = [(one.candidates, t[one.indices]) for one, t in zip(labels, true, strict=True) if one.candidates is not None]
    if not n or len(sets) < len(labels):
        return {"set_accuracy": None, "set_size": None}
    held = sum(int(mask[torch.arange(len(t)), t].sum()) for mask, t in sets)
    return {"set_accuracy": held / n, "set_size": sum(int(mask.sum()) for mask, _ in sets) / n}


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
