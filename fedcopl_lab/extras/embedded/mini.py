"""Training of `mini`: epochs that survive a kill, then weights, card and manifest."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_safetensors
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import check_writable, write_atomic
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import draw_weak, weak_view
from fedcopl_lab.extras.embedded.captions import PHOTO_SETS
from fedcopl_lab.extras.embedded.cards import image_features, photo_card
from fedcopl_lab.extras.embedded.photos import Curriculum, PhotoPool, draw_captions, log_shares, photo_loss, photo_pool
from fedcopl_lab.extras.embedded.recipes import MiniRecipe
from fedcopl_lab.extras.embedded.training import MAX_LOG_SCALE, TrainedModel, decay_groups, finished, write_model
from fedcopl_lab.models.checkpoint import build_clip
from fedcopl_lab.models.clip import MINI, bundle
from fedcopl_lab.models.towers import PatchDropout
from fedcopl_lab.seeding import derived_seed, torch_generator

LAST = "last.safetensors"
"""The newest state of a training: one file per epoch, whole or not at all."""


@dataclass(frozen=True, repr=False)
class TrainingState:
    """Where a training stands; batches and views follow from the seed and the epoch."""

    recipe: MiniRecipe
    epoch: int  # completed epochs
    per_epoch: int  # steps of an epoch
    tensors: Mapping[str, Tensor]  # of model and optimisers, by name
    curve: tuple[Mapping[str, float], ...] = ()  # what was measured after each epoch
    seconds: float = 0.0  # time spent so far

    def __repr__(self) -> str:
        return f"TrainingState(epoch={self.epoch} of {self.recipe.epochs})"


def train_mini(
    recipe: MiniRecipe, out_dir: Path | str, progress: bool = True, *, root: str | Path | None = None
) -> TrainedModel:
    """Train `mini` on the recorded part of CIFAR and write weights, card and manifest to a folder.

    The state is written to ``state/`` in that folder after each epoch, with ``curve.csv``: called again with the
    same recipe, training goes on there and ends with the same bytes as one that was never stopped.

    Raises:
        FedCoPLError: a set is not there, the folder cannot be written, or it holds the state of another recipe.
    """
    folder = Path(out_dir)
    check_writable(folder)  # before the training, not after it
    curriculum = Curriculum.of(recipe, photo_pool(root))
    model, state = fit(curriculum, folder / "state", progress)
    trained, content = finished(model, curriculum.captions)
    last = {name: state.curve[-1][f"held_out_{name}"] for name in PHOTO_SETS}
    card = photo_card(trained, recipe, minutes=state.seconds / 60, n_bytes=len(content), held_out=last, root=root)
    return write_model(folder, trained, content, card)


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

    @sdpa_kernel(SDPBackend.MATH)  # with so few tokens the fused kernel takes several times as long
    def step(self, batch: PhotoPool, lr: float, generator: torch.Generator, left_out: float = 0.0) -> float:
        """One update on new views of a batch, without a share of their patches; the loss before it."""
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
            self.model.logit_scale.clamp_(max=MAX_LOG_SCALE)
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
            texts = self.model.encode_text(captions.rows[0], normalize=True)
            for place, name in enumerate(PHOTO_SETS):
                own, (first, end) = held[held.sets == place], captions.spans[name]
                shares = []
                if len(own):
                    scores = image_features(self.clip, own.images, at_once=512) @ texts[first:end].T
                    right = (scores.argmax(dim=1) == own.labels).double()
                    shares = [right[own.labels == label].mean() for label in own.labels.unique()]
                found[f"held_out_{name}"] = float(torch.stack(shares).mean()) if shares else math.nan
        self.model.train()
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        for kind, optimiser in self.optimisers.items():
            for place, values in optimiser.state_dict()["state"].items():
                tensors |= {f"{kind}/{place}/{name}": value for name, value in values.items()}
        return {name: value.detach().clone().contiguous() for name, value in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put what :meth:`tensors` gave back into model and optimisers."""
        self.model.load_state_dict({name[6:]: value for name, value in tensors.items() if name.startswith("model/")})
        for kind, optimiser in self.optimisers.items():
            found: dict[int, dict[str, Tensor]] = {}
            for name, value in tensors.items():
                if name.startswith(f"{kind}/"):
                    _, place, field = name.split("/")
                    found.setdefault(int(place), {})[field] = value
            optimiser.load_state_dict({**optimiser.state_dict(), "state": found})


def fit(
    curriculum: Curriculum, folder: Path, progress: bool = True, until: int | None = None
) -> tuple[open_clip.CLIP, TrainingState]:
    """Train to the recipe's last epoch, or ``until`` another, from the state in a folder or from the beginning.

    The state is written after each epoch. Returns the model, with only the vocabulary rows that captions use, and
    the state it ended in.
    """
    recipe, trainer = curriculum.recipe, Trainer(curriculum)
    state = _find_state(folder, recipe, curriculum.per_epoch)
    if state is None:
        state = TrainingState(recipe, 0, curriculum.per_epoch, {})
    else:
        trainer.restore(state.tensors)
    with torch_threads(recipe.threads):
        for number in range(state.epoch, recipe.epochs if until is None else min(until, recipe.epochs)):
            start = time.perf_counter()
            loss = trainer.epoch(number, progress)
            row = {"epoch": float(number + 1), "loss": loss, **trainer.watch()}
            seconds = state.seconds + time.perf_counter() - start
            state = replace(
                state,
                epoch=number + 1,
                tensors=trainer.tensors(),
                curve=(*state.curve, row | {"minutes": seconds / 60}),
                seconds=seconds,
            )
            _write_state(folder, state)
    return trainer.model, state


def _optimisers(model: open_clip.CLIP, recipe: MiniRecipe) -> Mapping[str, torch.optim.Optimizer]:
    """One optimiser for the layers' matrices and one for everything else."""
    matrices = [w for name, w in model.named_parameters() if "resblocks" in name and w.ndim == 2]
    inside = set(map(id, matrices))
    others = [w for w in model.parameters() if id(w) not in inside]
    rest = torch.optim.AdamW(decay_groups(others, recipe.weight_decay), lr=recipe.lr, betas=(0.9, 0.98))
    decay = recipe.weight_decay
    if recipe.optimiser == "adamw":
        return {"matrices": torch.optim.AdamW(matrices, recipe.lr, (0.9, 0.98), weight_decay=decay), "others": rest}
    muon = torch.optim.Muon(matrices, recipe.lr, decay, adjust_lr_fn="match_rms_adamw")
    return {"matrices": muon, "others": rest}


def _write_state(folder: Path, state: TrainingState) -> None:
    """Write the state, and the curve as ``curve.csv``."""
    note = asdict(replace(state, tensors={}))
    del note["tensors"]
    write_atomic(folder / LAST, save_safetensors(dict(state.tensors), metadata={"state": json.dumps(note)}))
    rows = [",".join(f"{value:.6g}" for value in row.values()) for row in state.curve]
    write_atomic(folder / "curve.csv", "\n".join([",".join(state.curve[0]), *rows]) + "\n")


def _find_state(folder: Path, recipe: MiniRecipe, per_epoch: int) -> TrainingState | None:
    """The state that a training can go on from; None when the folder holds none, an error when of another recipe."""
    path = folder / LAST
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            note: dict[str, Any] = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        note |= {"recipe": MiniRecipe(**note["recipe"]), "curve": tuple(note["curve"])}
        found = TrainingState(**note, tensors=tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise FedCoPLError(f"{path} is no state of a training ({error}); remove it to begin again") from error
    if (found.recipe, found.per_epoch) != (recipe, per_epoch):
        remedy = "go on with that recipe or choose another folder"
        raise FedCoPLError(f"the state in {folder} is of {found.recipe}, expected {recipe}; {remedy}")
    return found
