"""What the training of every embedded model shares: weight decay on matrices only, and the files at the end."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from fedcopl_lab.extras.embedded.cards import card_files
from fedcopl_lab.models.checkpoint import clip_from_bytes, write_checkpoint
from fedcopl_lab.models.clip import CLIPBundle, bundle


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A trained embedded model and where it was written."""

    bundle: CLIPBundle  # the model as it will be loaded
    folder: Path  # holds NAME.safetensors, NAME.card.json, NAME.md and NAME.toml; of `mini` also state/
    card: dict[str, Any]  # recipe, provenance, checksum and measured numbers

    def __repr__(self) -> str:
        return f"TrainedModel({self.bundle!r}, folder={str(self.folder)!r})"


def decay_groups(weights: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """An optimiser's two groups: matrices, which decay, and the rest, which does not."""
    weights = list(weights)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]


def loaded(name: str, content: bytes) -> CLIPBundle:
    """The model as it will be loaded from a checkpoint."""
    return bundle(name, clip_from_bytes(name, content), hashlib.sha256(content).hexdigest())


def write_model(folder: Path, trained: CLIPBundle, content: bytes, card: dict[str, Any]) -> TrainedModel:
    """Write weights, card, page and manifest."""
    write_checkpoint(folder, {f"{trained.name}.safetensors": content, **card_files(card)})
    return TrainedModel(trained, folder, card)
