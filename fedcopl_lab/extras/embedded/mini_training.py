"""Training of the `mini` CLIP: epochs that survive a kill, then weights, card and manifest."""

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import open_clip
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import draw_weak, weak_view
from fedcopl_lab.extras.embedded.mini_recipe import (
    MiniRecipe,
    PhotoPool,
    draw_captions,
    held_out_mask,
    log_shares,
    photo_loss,
)
from fedcopl_lab.extras.embedded.mini_state import TrainingState, find_state, restore, state_tensors, write_state
from fedcopl_lab.extras.embedded.photo_captions import PHOTO_SETS, PhotoCaptions, photo_captions
from fedcopl_lab.extras.embedded.training import decay_groups
from fedcopl_lab.models.checkpoint import build_clip, checkpoint_bytes, clip_from_bytes, model_config
from fedcopl_lab.models.clip import MINI, CLIPBundle, bundle
from fedcopl_lab.models.towers import PatchDropout
from fedcopl_lab.seeding import derived_seed, torch_generator

_MAX_LOG_SCALE = math.log(100)  # CLIP's own ceiling
_IMAGES = 512  # images of one forward pass when nothing is trained
_TIMED_STEPS = 4


@dataclass(frozen=True)
class Curriculum:
    """What every epoch of a training uses.

    Attributes:
        recipe: the recipe.
        train: images that are trained on.
        held_out: images that are watched.
        captions: all captions.
    """

    recipe: MiniRecipe
    train: PhotoPool
    held_out: PhotoPool
    captions: PhotoCaptions

    @classmethod
    def of(cls, recipe: MiniRecipe, pool: PhotoPool) -> "Curriculum":
        """Divide the images and tokenise the captions."""
        if recipe.images is not None:
            chosen = torch.randperm(len(pool), generator=torch_generator(recipe.seed, "mini-images"))[: recipe.images]
            pool = pool[chosen.sort().values]
        held = held_out_mask(pool, recipe.held_out, recipe.seed)
        context = int(model_config(MINI)["text_cfg"]["context_length"])
        curriculum = cls(recipe, pool[~held], pool[held], photo_captions(context, recipe.seed, recipe.filled))
        if not curriculum.per_epoch:
            raise FedCoPLError(
                f"{len(curriculum.train)} images make no batch of {recipe.batch_size}; use more images or smaller "
                "batches"
            )
        return curriculum

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return len(self.train) // self.recipe.batch_size

    def __repr__(self) -> str:
        return f"Curriculum({len(self.train)} images, {len(self.held_out)} held out)"


class Trainer:
    """A model, its optimisers and how far they are."""

    def __init__(self, curriculum: Curriculum) -> None:
        recipe = curriculum.recipe
        self.curriculum = curriculum
        seed = derived_seed(recipe.seed, f"{MINI}-weights")
        self.model = build_clip(MINI, seed, vocab_size=len(curriculum.captions.token_ids)).train()
        self.model.visual.patch_dropout = self.patches = PatchDropout()
        self.clip = bundle(MINI, self.model, sha256="")
        self.optimisers = _optimisers(self.model, recipe)
        self.shift = recipe.prior * log_shares(curriculum.train, curriculum.captions)

    def step(self, batch: PhotoPool, lr: float, generator: torch.Generator, left_out: float = 0.0) -> float:
        """One update on new views of a batch, without a share of their patches; the loss before it."""
        with sdpa_kernel(SDPBackend.MATH):  # with so few tokens the fused kernel takes several times as long
            return self._step(batch, lr, generator, left_out)

    def _step(self, batch: PhotoPool, lr: float, generator: torch.Generator, left_out: float) -> float:
        recipe, captions = self.curriculum.recipe, self.curriculum.captions
        self.patches.share, self.patches.generator = left_out, generator
        views = weak_view(batch.images, draw_weak(len(batch), batch.images.shape[-1], generator))
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16"):
            images = self.model.encode_image(self.clip.to_input(views))
        texts = self.model.encode_text(draw_captions(captions, recipe.fillers, generator), normalize=True)
        logits = self.model.logit_scale.exp() * F.normalize(images.float(), dim=-1) @ texts.T
        loss = photo_loss(logits, batch, captions, self.shift, recipe.coarse)
        for optimiser in self.optimisers.values():
            optimiser.zero_grad()
        loss.backward()
        for optimiser in self.optimisers.values():
            for group in optimiser.param_groups:
                group["lr"] = lr
            optimiser.step()
        with torch.no_grad():
            self.model.logit_scale.clamp_(max=_MAX_LOG_SCALE)
        return float(loss.detach())

    def epoch(self, number: int, progress: bool) -> float:
        """All steps of an epoch, which depend on its number and the seed alone; the mean loss."""
        recipe, train, per_epoch = self.curriculum.recipe, self.curriculum.train, self.curriculum.per_epoch
        generator = torch_generator(recipe.seed, "mini-batches", number)
        order = torch.randperm(len(train), generator=generator)[: per_epoch * recipe.batch_size]
        total = 0.0
        name = f"epoch {number + 1} of {recipe.epochs}"
        for place, chosen in enumerate(tqdm(order.split(recipe.batch_size), desc=name, disable=not progress)):
            step = number * per_epoch + place
            left_out = recipe.left_out if step < recipe.flat_steps(per_epoch) else 0.0
            total += self.step(train[chosen], recipe.lr_at(step, per_epoch), generator, left_out)
        return total / per_epoch

    def watch(self) -> dict[str, float]:
        """Accuracy on the held-out images of each set, as the mean over classes."""
        held, captions = self.curriculum.held_out, self.curriculum.captions
        found = {}
        self.model.eval()
        with torch.no_grad():
            texts = self.model.encode_text(captions.tokens[0], normalize=True)
            for place, name in enumerate(PHOTO_SETS):
                own = held[held.sets == place]
                first, end = captions.spans[name]
                right = self._features(own) @ texts[first:end].T
                found[f"held_out_{name}"] = _class_mean(right.argmax(dim=1) == own.labels, own.labels)
        self.model.train()
        return found

    def _features(self, images: PhotoPool) -> Float[Tensor, "n width"]:
        parts = images.images.split(_IMAGES) if len(images) else ()
        found = [self.model.encode_image(self.clip.to_input(part), normalize=True) for part in parts]
        return torch.cat(found) if found else torch.zeros(0, int(self.model.text_projection.shape[1]))


def fit(
    curriculum: Curriculum, folder: Path, progress: bool = True, until: int | None = None
) -> tuple[open_clip.CLIP, TrainingState]:
    """Train to the recipe's last epoch from the state in a folder, or from the beginning.

    Args:
        curriculum: recipe, images and captions.
        folder: where the state is written after each epoch.
        progress: show a progress bar.
        until: stop after so many epochs; None: at the recipe's last.

    Returns:
        The model, with only the vocabulary rows that captions use, and the state it ended in.
    """
    recipe, trainer = curriculum.recipe, Trainer(curriculum)
    state = find_state(folder, recipe, curriculum.per_epoch)
    if state is None:
        state = TrainingState(recipe, 0, curriculum.per_epoch, {})
    else:
        restore(state.tensors, trainer.model, trainer.optimisers)
    with torch_threads(recipe.threads):
        for number in range(state.epoch, recipe.epochs if until is None else min(until, recipe.epochs)):
            start = time.perf_counter()
            loss = trainer.epoch(number, progress)
            row = {"epoch": float(number + 1), "loss": loss, **trainer.watch()}
            seconds = state.seconds + time.perf_counter() - start
            state = replace(
                state,
                epoch=number + 1,
                tensors=state_tensors(trainer.model, trainer.optimisers),
                curve=(*state.curve, row | {"minutes": seconds / 60}),
                seconds=seconds,
            )
            write_state(folder, state)
    return trainer.model, state


def epochs_within(minutes: float, curriculum: Curriculum) -> int:
    """How many epochs fit into a time on this machine, from a few timed steps; at least one.

    Args:
        minutes: time for all epochs.
        curriculum: recipe, images and captions.
    """
    if not 0 < minutes < math.inf:
        raise FedCoPLError(f"minutes={minutes} is no time to train in; use a positive number such as 90")
    recipe, trainer = curriculum.recipe, Trainer(curriculum)
    generator = torch_generator(recipe.seed, "mini-timing")
    batch = curriculum.train[torch.arange(recipe.batch_size)]
    with torch_threads(recipe.threads):
        trainer.step(batch, recipe.lr, generator)  # the first step also allocates
        seconds = {share: _seconds_of(trainer, batch, generator, share) for share in (0.0, recipe.left_out)}
    per_step = recipe.cooldown * seconds[0.0] + (1 - recipe.cooldown) * seconds[recipe.left_out]
    per_epoch = per_step * curriculum.per_epoch
    return max(int(minutes * 60 / per_epoch), 1)


def _seconds_of(trainer: Trainer, batch: PhotoPool, generator: torch.Generator, left_out: float) -> float:
    start = time.perf_counter()
    for _ in range(_TIMED_STEPS):
        trainer.step(batch, trainer.curriculum.recipe.lr, generator, left_out)
    return (time.perf_counter() - start) / _TIMED_STEPS


def finished(model: open_clip.CLIP, captions: PhotoCaptions) -> tuple[CLIPBundle, bytes]:
    """The checkpoint in half precision, and the model as it will be loaded from it."""
    content = checkpoint_bytes(model, captions.token_ids, torch.float16)
    return bundle(MINI, clip_from_bytes(MINI, content), hashlib.sha256(content).hexdigest()), content


def _optimisers(model: open_clip.CLIP, recipe: MiniRecipe) -> Mapping[str, torch.optim.Optimizer]:
    """One optimiser for the layers' matrices and one for everything else."""
    matrices = [w for name, w in model.named_parameters() if "resblocks" in name and w.ndim == 2]
    inside = set(map(id, matrices))
    others = [w for w in model.parameters() if id(w) not in inside]
    rest = torch.optim.AdamW(decay_groups(others, recipe.weight_decay), lr=recipe.lr, betas=(0.9, 0.98))
    if recipe.optimiser == "adamw":
        inner: torch.optim.Optimizer = torch.optim.AdamW(
            matrices, lr=recipe.lr, betas=(0.9, 0.98), weight_decay=recipe.weight_decay
        )
    else:
        inner = torch.optim.Muon(
            matrices, lr=recipe.lr, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw"
        )
    return {"matrices": inner, "others": rest}


def _class_mean(right: Tensor, labels: Tensor) -> float:
    shares = [right[labels == label].double().mean() for label in labels.unique()]
    return float(torch.stack(shares).mean()) if shares else math.nan
