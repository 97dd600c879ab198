"""The recipe of the embedded CLIPs: contrastive training on printed digits and their captions, nothing else."""

import hashlib
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import open_clip
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import resized
from fedcopl_lab.extras.embedded.captions import FILLER_TEMPLATES, TEMPLATES, caption_table, filler_templates
from fedcopl_lab.extras.embedded.card import card_files, make_card
from fedcopl_lab.extras.embedded.glyphs import Distortion, GlyphBatch, draw_glyphs
from fedcopl_lab.extras.embedded.training import decay_groups
from fedcopl_lab.models.checkpoint import (
    build_clip,
    check_writable,
    checkpoint_bytes,
    clip_from_bytes,
    model_config,
    write_checkpoint,
)
from fedcopl_lab.models.clip import CLIPBundle, bundle
from fedcopl_lab.seeding import derived_seed, torch_generator

_MAX_LOG_SCALE = 4.6052  # a logit scale of 100, CLIP's own ceiling
_CHUNK = 2000  # glyphs drawn at a time; bounds the memory of the distortion


@dataclass(frozen=True)
class TinyRecipe:
    """Everything that decides an embedded model's weights; equal recipes on one machine give equal bytes.

    Attributes:
        steps: optimiser steps.
        batch_size: images per step.
        captions: captions per step, spread evenly over the ten digits (a multiple of 10).
        pool: distinct distorted glyphs drawn before training.
        numerals: share of captions that spell the digit as a numeral.
        fillers: share of captions with random words before the digit instead of a written template.
        lr: peak learning rate of AdamW, reached after ``warmup`` of the steps, then a cosine to zero.
        warmup: share of the steps.
        weight_decay: on matrices only.
        distortion: how far the glyphs are bent.
        seed: of the initial weights, the glyphs and the batches.
        threads: torch threads while training; the sums, and so the bytes, depend on it.
    """

    steps: int = 1200
    batch_size: int = 128
    captions: int = 40
    pool: int = 40_000
    numerals: float = 0.25
    fillers: float = 0.5
    lr: float = 2e-3
    warmup: float = 0.1
    weight_decay: float = 0.05
    distortion: Distortion = field(default_factory=Distortion)
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for count in ("steps", "batch_size", "captions", "pool", "threads"):
            value = getattr(self, count)
            if value < 1:
                raise FedCoPLError(f"{count}={value} trains nothing; use 1 or more")
        if self.captions % 10:
            raise FedCoPLError(f"captions={self.captions} cannot be spread over ten digits; use a multiple of 10")
        if not 0 < self.lr < math.inf:
            raise FedCoPLError(f"lr={self.lr} is no learning rate; use a positive number such as 0.002")
        if not 0 < self.warmup < 1:
            raise FedCoPLError(f"warmup={self.warmup} is outside (0, 1); use a share such as 0.1")
        if not 0 <= self.numerals <= 1:
            raise FedCoPLError(f"numerals={self.numerals} is outside [0, 1]; use a share such as 0.25")


@dataclass(frozen=True, repr=False)
class TrainedTiny:
    """A trained embedded model and where it was written.

    Attributes:
        bundle: the model as it will be loaded.
        folder: holds ``NAME.safetensors``, ``NAME.card.json``, ``NAME.md`` and ``NAME.toml``.
        card: recipe, provenance, checksum and measured numbers.
    """

    bundle: CLIPBundle
    folder: Path
    card: dict[str, Any]

    def __repr__(self) -> str:
        return f"TrainedTiny({self.bundle!r}, folder={str(self.folder)!r})"


def contrastive_loss(
    image_features: Float[Tensor, "images width"],
    text_features: Float[Tensor, "captions width"],
    image_labels: Int[Tensor, "images"],
    caption_labels: Int[Tensor, "captions"],
    logit_scale: Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """CLIP's symmetric contrastive loss where several captions fit an image and several images a caption.

    With ten digits, most pairs of a batch that are not "the" pair still belong together. The target of each
    row is therefore spread evenly over all entries of its digit instead of being on the diagonal; with one
    image and one caption per digit it is CLIP's loss. A caption whose digit no image shows has no target
    and adds nothing.

    Args:
        image_features: unit rows.
        text_features: unit rows.
        image_labels: the digit each image shows.
        caption_labels: the digit each caption names.
        logit_scale: the factor on the cosines.
    """
    logits = logit_scale * image_features @ text_features.T
    same = (image_labels[:, None] == caption_labels[None, :]).to(logits.dtype)
    to_caption = same / same.sum(dim=1, keepdim=True).clamp(min=1)
    to_image = same.T / same.T.sum(dim=1, keepdim=True).clamp(min=1)
    return (F.cross_entropy(logits, to_caption) + F.cross_entropy(logits.T, to_image)) / 2


def _draw_pool(recipe: TinyRecipe) -> GlyphBatch:
    generator = torch_generator(recipe.seed, "tiny-glyphs")
    sizes = [min(_CHUNK, recipe.pool - start) for start in range(0, recipe.pool, _CHUNK)]
    parts = [draw_glyphs(size, generator, distortion=recipe.distortion) for size in sizes]
    return GlyphBatch(
        torch.cat([part.images for part in parts]),
        torch.cat([part.labels for part in parts]),
        torch.cat([part.faces for part in parts]),
    )


def _optimiser(model: open_clip.CLIP, recipe: TinyRecipe) -> torch.optim.AdamW:
    return torch.optim.AdamW(decay_groups(model.parameters(), recipe.weight_decay), lr=recipe.lr, betas=(0.9, 0.98))


def _draw_templates(recipe: TinyRecipe, generator: torch.Generator) -> Int[Tensor, "captions"]:
    """A written template or, for a share of the captions, one of random words."""
    written = torch.randint(len(TEMPLATES), (recipe.captions,), generator=generator)
    filler = len(TEMPLATES) + torch.randint(FILLER_TEMPLATES, (recipe.captions,), generator=generator)
    return torch.where(torch.rand(recipe.captions, generator=generator) < recipe.fillers, filler, written)


def _train(name: str, recipe: TinyRecipe, progress: bool) -> bytes:
    """Train the model with only the vocabulary rows that captions use, and return the checkpoint."""
    fillers = filler_templates(FILLER_TEMPLATES, torch_generator(recipe.seed, "tiny-fillers"))
    table = caption_table(int(model_config(name)["text_cfg"]["context_length"]), (*TEMPLATES, *fillers))
    # Ranks keep the order of ids, so the end token stays the largest one, where CLIP reads the caption.
    captions = torch.searchsorted(table.token_ids, table.tokens) * (table.tokens > 0)
    model = build_clip(name, derived_seed(recipe.seed, f"{name}-weights"), vocab_size=len(table.token_ids)).train()
    pool = _draw_pool(recipe)
    clip = bundle(name, model, sha256="")
    pixels = resized(pool.pixels, clip.image_size)
    optimiser = _optimiser(model, recipe)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.lr, total_steps=recipe.steps + 1, pct_start=recipe.warmup, cycle_momentum=False
    )
    generator = torch_generator(recipe.seed, "tiny-batches")
    digits = torch.arange(recipe.captions) % 10
    for _ in tqdm(range(recipe.steps), desc=f"train {name}", disable=not progress):
        chosen = torch.randint(len(pixels), (recipe.batch_size,), generator=generator)
        template = _draw_templates(recipe, generator)
        spelling = (torch.rand(recipe.captions, generator=generator) < recipe.numerals).long()
        loss = contrastive_loss(
            model.encode_image(clip.to_input(pixels[chosen]), normalize=True),
            model.encode_text(captions[template, digits, spelling], normalize=True),
            pool.labels[chosen],
            digits,
            model.logit_scale.exp(),
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=_MAX_LOG_SCALE)
    return checkpoint_bytes(model, table.token_ids)


def train_tiny(recipe: TinyRecipe, out_dir: Path | str, progress: bool = True, *, name: str = "tiny") -> TrainedTiny:
    """Train an embedded model from printed glyphs and write weights, card and manifest to a folder.

    Args:
        recipe: everything that decides the weights.
        out_dir: folder for ``NAME.safetensors``, ``NAME.card.json``, ``NAME.md`` and ``NAME.toml``.
        progress: show a progress bar.
        name: which of the embedded architectures.

    Raises:
        FedCoPLError: the folder cannot be written.
    """
    folder = Path(out_dir)
    check_writable(folder)
    start = time.perf_counter()
    with torch_threads(recipe.threads):
        content = _train(name, recipe, progress)
    minutes = (time.perf_counter() - start) / 60
    trained = bundle(name, clip_from_bytes(name, content), hashlib.sha256(content).hexdigest())
    card = make_card(trained, asdict(recipe), minutes=minutes, n_bytes=len(content))
    write_checkpoint(folder, {f"{name}.safetensors": content, **card_files(card)})
    return TrainedTiny(trained, folder, card)
