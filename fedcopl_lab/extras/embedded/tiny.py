"""Training of `tiny` and its relatives: contrastive, on printed digits and their captions, nothing else."""

import time
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from fedcopl_lab._files import check_writable
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import resized
from fedcopl_lab.extras.embedded.captions import clear_traits, digit_captions, write_captions
from fedcopl_lab.extras.embedded.cards import make_card
from fedcopl_lab.extras.embedded.glyphs import GlyphBatch, draw_glyphs
from fedcopl_lab.extras.embedded.recipes import TinyRecipe
from fedcopl_lab.extras.embedded.training import OneCycle, TrainedModel, loaded, write_model
from fedcopl_lab.models.checkpoint import build_clip, checkpoint_bytes, model_config
from fedcopl_lab.models.clip import bundle
from fedcopl_lab.models.towers import both_features
from fedcopl_lab.seeding import derived_seed, torch_generator

_CHUNK = 2000  # glyphs drawn at a time; bounds the memory of the distortion


def contrastive_loss(
    image_features: Float[Tensor, "images width"],
    text_features: Float[Tensor, "captions width"],
    fits: Bool[Tensor, "images captions"],
    logit_scale: Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """CLIP's symmetric contrastive loss where several captions fit an image and several images a caption.

    The target of each row is spread evenly over all entries that fit instead of being on the diagonal; where each
    image fits one caption it is CLIP's loss. A row that nothing fits has no target and adds nothing. Features are
    unit rows.
    """
    logits = logit_scale * image_features @ text_features.T
    same = fits.to(logits.dtype)
    to_caption = same / same.sum(dim=1, keepdim=True).clamp(min=1)
    to_image = same.T / same.T.sum(dim=1, keepdim=True).clamp(min=1)
    return (F.cross_entropy(logits, to_caption) + F.cross_entropy(logits.T, to_image)) / 2


def _draw_pool(recipe: TinyRecipe) -> GlyphBatch:
    generator = torch_generator(recipe.seed, "tiny-glyphs")
    sizes = [min(_CHUNK, recipe.pool - start) for start in range(0, recipe.pool, _CHUNK)]
    parts = [draw_glyphs(size, generator, distortion=recipe.distortion) for size in sizes]
    columns = zip(*((part.images, part.labels, part.faces, part.traits) for part in parts), strict=True)
    return GlyphBatch(*(torch.cat(column) for column in columns))


def _train(name: str, recipe: TinyRecipe, progress: bool) -> bytes:
    """Train and return the checkpoint."""
    captions = digit_captions(int(model_config(name)["text_cfg"]["context_length"]))
    model = build_clip(name, derived_seed(recipe.seed, f"{name}-weights"), vocab_size=len(captions.token_ids)).train()
    pool = _draw_pool(recipe)
    clip = bundle(name, model, sha256="")
    pixels, clear = resized(pool.pixels, clip.image_size), clear_traits(pool.traits)
    cycle = OneCycle(model, recipe.lr, recipe.weight_decay, recipe.steps, recipe.warmup)
    generator = torch_generator(recipe.seed, "tiny-batches")
    shares = {"numerals": recipe.numerals, "templates": recipe.templates, "named": recipe.named}
    for _ in tqdm(range(recipe.steps), desc=f"train {name}", disable=not progress):
        chosen = torch.randint(len(pixels), (recipe.batch_size,), generator=generator)
        digits, traits = pool.labels[chosen], clear[chosen]
        said = write_captions(digits, traits, captions, generator, **shares)
        texts = model.encode_text(said.rows, normalize=True)
        fits, scale = said.fits(digits, traits), model.logit_scale.exp()
        whole, patches = both_features(model, clip.to_input(pixels[chosen]))
        loss = contrastive_loss(whole, texts, fits, scale)
        cycle.descend(loss + recipe.patches * contrastive_loss(patches, texts, fits, scale))
    return checkpoint_bytes(model, captions.token_ids)


def train_tiny(recipe: TinyRecipe, out_dir: Path | str, progress: bool = True, *, name: str = "tiny") -> TrainedModel:
    """Train `tiny` or the relative ``name`` on printed glyphs; write weights, card, page and manifest to a folder.

    Raises:
        FedCoPLError: the folder cannot be written.
    """
    folder = Path(out_dir)
    check_writable(folder)
    start = time.process_time()
    with torch_threads(recipe.threads):
        content = _train(name, recipe, progress)
    minutes = (time.process_time() - start) / 60
    trained = loaded(name, content)
    card = make_card(trained, asdict(recipe), minutes=minutes, n_bytes=len(content))
    return write_model(folder, trained, content, card)
