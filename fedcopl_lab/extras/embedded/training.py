"""What the training of every embedded model shares: its optimiser, and the files at the end."""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedcopl_lab._files import write_atomic
from fedcopl_lab.extras.embedded.captions import Captions
from fedcopl_lab.extras.embedded.cards import card_files
from fedcopl_lab.models.checkpoint import checkpoint_bytes, clip_from_bytes
from fedcopl_lab.models.clip import MINI, CLIPBundle, bundle
from fedcopl_lab.models.resnet8 import ResNet8

MAX_LOG_SCALE = math.log(100)
"""CLIP's own ceiling: a logit scale of 100."""


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A trained embedded model and where it was written."""

    bundle: CLIPBundle | ResNet8  # the model as it will be loaded
    folder: Path  # holds NAME.safetensors, NAME.card.json, NAME.md and NAME.toml; of `mini` also state/
    card: dict[str, Any]  # recipe, provenance, checksum and measured numbers

    def __repr__(self) -> str:
        shown = repr(self.bundle) if isinstance(self.bundle, CLIPBundle) else self.card["name"]
        return f"TrainedModel({shown}, folder={str(self.folder)!r})"


def decay_groups(weights: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """An optimiser's two groups: matrices, which decay, and the rest, which does not."""
    weights = list(weights)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]


class OneCycle:
    """AdamW on the weights that need gradients, and a logit scale that stays below CLIP's ceiling.

    The rate reaches ``lr`` after a share ``warmup`` of the steps, then falls to zero as a cosine.
    """

    def __init__(self, model: open_clip.CLIP, lr: float, weight_decay: float, steps: int, warmup: float) -> None:
        self.model = model
        groups = decay_groups((weight for weight in model.parameters() if weight.requires_grad), weight_decay)
        self.optimiser = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, lr, total_steps=steps + 1, pct_start=warmup, cycle_momentum=False
        )

    def descend(self, loss: Float[Tensor, ""]) -> None:
        """One step."""
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        with torch.no_grad():
            self.model.logit_scale.clamp_(max=MAX_LOG_SCALE)


def finished(model: open_clip.CLIP, captions: Captions, name: str = MINI) -> tuple[CLIPBundle, bytes]:
    """A model for photographs as it will be loaded, and its checkpoint in half precision."""
    content = checkpoint_bytes(model, captions.token_ids, torch.float16)
    return loaded(name, content), content


def loaded(name: str, content: bytes) -> CLIPBundle:
    """The model as it will be loaded from a checkpoint."""
    return bundle(name, clip_from_bytes(name, content), hashlib.sha256(content).hexdigest())


def write_model(folder: Path, trained: CLIPBundle | ResNet8, content: bytes, card: dict[str, Any]) -> TrainedModel:
    """Write weights, card, page and manifest."""
    write_atomic(folder / str(card["file"]), content)
    for name, text in card_files(card).items():
        write_atomic(folder / name, text)
    return TrainedModel(trained, folder, card)
