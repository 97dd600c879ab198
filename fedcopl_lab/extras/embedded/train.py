"""Train a model of the package again, by name."""

from dataclasses import replace
from pathlib import Path

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.embedded.mini import epochs_within, train_mini
from fedcopl_lab.extras.embedded.photos import Curriculum, photo_pool
from fedcopl_lab.extras.embedded.recipes import MiniRecipe, TinyRecipe
from fedcopl_lab.extras.embedded.state import LAST, read_state
from fedcopl_lab.extras.embedded.tiny import train_tiny
from fedcopl_lab.extras.embedded.training import TrainedModel
from fedcopl_lab.models.clip import EMBEDDED_MODELS, MINI


def train_embedded(
    name: str = "tiny",
    *,
    out_dir: Path | str,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    progress: bool = True,
) -> TrainedModel:
    """Train a model of the package again with its recipe; the packaged weights stay as they are.

    Args:
        name: ``"tiny"``, ``"tiny-p1"``, ``"tiny-rn"`` or ``"mini"``; the last needs CIFAR-10 and CIFAR-100.
        out_dir: folder for weights, card and manifest; of `mini` also for the state that a stopped training goes on
            from.
        steps: optimiser steps, for a quick look; ``None``: the recipe's.
        epochs: `mini` only: passes over its images; ``None``: the recipe's.
        minutes: `mini` only: as many epochs as fit into this time; a stopped training keeps its epochs.
        progress: show a progress bar.

    Raises:
        FedCoPLError: unknown name, fewer than 1 step or epoch, a set that is not there, or a folder that cannot be
            written.

    Notebook: 00_quickstart.
    """
    if name == MINI:
        return _train_mini(Path(out_dir), steps, epochs, minutes, progress)
    if name not in EMBEDDED_MODELS:
        known = ", ".join(map(repr, (*EMBEDDED_MODELS, MINI)))
        raise FedCoPLError(f"no recipe for model {name!r}, expected one of {known}; choose one of these")
    for option, value in (("epochs", epochs), ("minutes", minutes)):
        if value is not None:
            raise FedCoPLError(f"{option}={value} has no meaning for {name!r}; use steps, or leave it out")
    recipe = TinyRecipe()
    if steps is not None:  # a short trial needs no more glyphs than it looks at
        recipe = replace(recipe, steps=steps, pool=max(1, min(recipe.pool, steps * recipe.batch_size)))
    return train_tiny(recipe, out_dir, progress, name=name)


def _train_mini(
    folder: Path, steps: int | None, epochs: int | None, minutes: float | None, progress: bool
) -> TrainedModel:
    given = [option for option, value in (("steps", steps), ("epochs", epochs), ("minutes", minutes)) if value]
    if len(given) > 1:
        raise FedCoPLError(f"{' and '.join(given)} both say how long to train; give one of them")
    recipe = MiniRecipe()
    if steps is not None:  # one epoch of so many steps
        if steps < 1:
            raise FedCoPLError(f"steps={steps} trains nothing; use 1 or more")
        recipe = replace(recipe, epochs=1, images=round(steps * recipe.batch_size / (1 - recipe.held_out)) + 50)
    if epochs is not None:
        recipe = replace(recipe, epochs=epochs)
    if minutes is not None:
        begun = folder / "state" / LAST
        found = read_state(begun).recipe.epochs if begun.is_file() else None
        recipe = replace(recipe, epochs=found or epochs_within(minutes, Curriculum.of(recipe, photo_pool())))
    return train_mini(recipe, folder, progress)
