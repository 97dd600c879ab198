"""Train a model of the package again, by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.embedded.mini import train_mini
from fedcopl_lab.extras.embedded.recipes import MiniRecipe, StartRecipe, TextRecipe, TinyRecipe
from fedcopl_lab.extras.embedded.start import train_start
from fedcopl_lab.extras.embedded.tiny import train_tiny
from fedcopl_lab.extras.embedded.training import TrainedModel
from fedcopl_lab.extras.embedded.traits import train_traits
from fedcopl_lab.models.clip import EMBEDDED_MODELS, MINI, MINI_TRAITS, PHOTO_MODELS
from fedcopl_lab.models.resnet8 import START


def train_embedded(
    name: str = "tiny",
    *,
    out_dir: Path | str,
    steps: int | None = None,
    epochs: int | None = None,
    progress: bool = True,
) -> TrainedModel:
    """Train a model of the package again with its recipe; the packaged weights stay as they are.

    Args:
        name: ``"tiny"``, ``"tiny-p1"``, ``"tiny-rn"``, ``"mini"``, ``"mini-traits"`` or ``"resnet8-cifar100"``; the
            last three need CIFAR-100, the CLIPs among them CIFAR-10 too.
        out_dir: folder for weights, card and manifest; of `mini` also for the state that a stopped training goes on
            from.
        steps: optimiser steps, for a quick look; ``None``: the recipe's.
        epochs: of the last three: passes over its images; ``None``: the recipe's.
        progress: show a progress bar.

    Raises:
        FedCoPLError: unknown name, fewer than 1 step or epoch, a set that is not there, or a folder that cannot be
            written.
    """
    if name == MINI:
        return _train_mini(Path(out_dir), steps, epochs, progress)
    if name in (MINI_TRAITS, START):
        _has_no("steps", steps, name, "epochs")
        changed: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        if name == START:
            return train_start(StartRecipe(**changed), out_dir, progress)
        return train_traits(TextRecipe(**changed), out_dir, progress)
    if name not in EMBEDDED_MODELS:
        known = ", ".join(map(repr, (*EMBEDDED_MODELS, *PHOTO_MODELS, START)))
        raise FedCoPLError(f"no recipe for model {name!r}, expected one of {known}; choose one of these")
    _has_no("epochs", epochs, name, "steps")
    recipe = TinyRecipe()
    if steps is not None:  # a short trial needs no more glyphs than it looks at
        recipe = replace(recipe, steps=steps, pool=max(1, min(recipe.pool, steps * recipe.batch_size)))
    return train_tiny(recipe, out_dir, progress, name=name)


def _has_no(option: str, value: int | None, name: str, instead: str) -> None:
    if value is not None:
        raise FedCoPLError(f"{option}={value} has no meaning for {name!r}; use {instead}, or leave it out")


def _train_mini(folder: Path, steps: int | None, epochs: int | None, progress: bool) -> TrainedModel:
    if steps is not None and epochs is not None:
        raise FedCoPLError("steps and epochs both say how long to train; give one of them")
    recipe = MiniRecipe()
    if steps is not None:  # one epoch of so many steps
        if steps < 1:
            raise FedCoPLError(f"steps={steps} trains nothing; use 1 or more")
        recipe = replace(recipe, epochs=1, images=round(steps * recipe.batch_size / (1 - recipe.held_out)) + 50)
    return train_mini(recipe if epochs is None else replace(recipe, epochs=epochs), folder, progress)
