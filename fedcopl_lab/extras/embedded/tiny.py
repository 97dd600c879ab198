"""Training of `tiny` and its relatives: contrastive, on printed digits and their captions, nothing else."""

import time
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import resized
from fedcopl_lab.extras.embedded.captions import FILLER_TEMPLATES, TEMPLATES, digit_captions, filler_templates
from fedcopl_lab.extras.embedded.cards import make_card
from fedcopl_lab.extras.embedded.glyphs import GlyphBatch, draw_glyphs
from fedcopl_lab.extras.embedded.recipes import TinyRecipe
from fedcopl_lab.extras.embedded.training import TrainedModel, decay_groups, loaded, write_model
from fedcopl_lab.models.checkpoint import build_clip, check_writable, checkpoint_bytes, model_config
from fedcopl_lab.models.clip import bundle
from fedcopl_lab.seeding import derived_seed, torch_generator

_MAX_LOG_SCALE = 4.6052  # a logit scale of 100, CLIP's own ceiling
_CHUNK = 2000  # glyphs drawn at a time; bounds the memory of the distortion


def contrastive_loss(
    image_features: Float[Tensor, "images width"],
    text_features: Float[Tensor, "captions width"],
    image_labels: Int[Tensor, "images"],
    caption_labels: Int[Tensor, "captions"],
    logit_scale: Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """CLIP's symmetric contrastive loss where several captions fit an image and several images a caption.

    The target of each row is spread evenly over all entries of its digit instead of being on the diagonal; with one
    image and one caption per digit it is CLIP's loss. A caption whose digit no image shows has no target and adds
    nothing. Features are unit rows, labels the digits that images show and captions name.
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
    columns = zip(*((part.images, part.labels, part.faces) for part in parts), strict=True)
    return GlyphBatch(*(torch.cat(column) for column in columns))


def _draw_templates(recipe: TinyRecipe, generator: torch.Generator) -> Int[Tensor, "captions"]:
    """A written template or, for a share of the captions, one of random words."""
    written = torch.randint(len(TEMPLATES), (recipe.captions,), generator=generator)
    filler = len(TEMPLATES) + torch.randint(FILLER_TEMPLATES, (recipe.captions,), generator=generator)
    return torch.where(torch.rand(recipe.captions, generator=generator) < recipe.fillers, filler, written)


def _train(name: str, recipe: TinyRecipe, progress: bool) -> bytes:
    """Train the model with only the vocabulary rows that captions use, and return the checkpoint."""
    fillers = filler_templates(FILLER_TEMPLATES, torch_generator(recipe.seed, "tiny-fillers"))
    captions = digit_captions(int(model_config(name)["text_cfg"]["context_length"]), fillers)
    model = build_clip(name, derived_seed(recipe.seed, f"{name}-weights"), vocab_size=len(captions.token_ids)).train()
    pool = _draw_pool(recipe)
    clip = bundle(name, model, sha256="")
    pixels = resized(pool.pixels, clip.image_size)
    groups = decay_groups(model.parameters(), recipe.weight_decay)
    optimiser = torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, 0.98))
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
            model.encode_text(captions.rows[template, 2 * digits + spelling], normalize=True),
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
    return checkpoint_bytes(model, captions.token_ids)


def train_tiny(recipe: TinyRecipe, out_dir: Path | str, progress: bool = True, *, name: str = "tiny") -> TrainedModel:
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
    trained = loaded(name, content)
    card = make_card(trained, asdict(recipe), minutes=minutes, n_bytes=len(content))
    return write_model(folder, trained, content, card)
