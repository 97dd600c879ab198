"""The door to the `mini` CLIP's training: from images to weights, card and manifest."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcopl_lab.data import load_manifest
from fedcopl_lab.extras.embedded.mini_card import mini_card, mini_files
from fedcopl_lab.extras.embedded.mini_recipe import MiniRecipe, photo_pool
from fedcopl_lab.extras.embedded.mini_training import Curriculum, finished, fit
from fedcopl_lab.extras.embedded.photo_captions import PHOTO_SETS
from fedcopl_lab.models.checkpoint import check_writable, write_checkpoint
from fedcopl_lab.models.clip import MINI, CLIPBundle


@dataclass(frozen=True, repr=False)
class TrainedMini:
    """A trained `mini` and where it was written.

    Attributes:
        bundle: the model as it will be loaded.
        folder: holds ``mini.safetensors``, ``mini.card.json``, ``mini.md``, ``mini.toml`` and ``state/``.
        card: recipe, provenance, checksum and measured numbers.
    """

    bundle: CLIPBundle
    folder: Path
    card: dict[str, Any]

    def __repr__(self) -> str:
        return f"TrainedMini({self.bundle!r}, folder={str(self.folder)!r})"


def train_mini(
    recipe: MiniRecipe, out_dir: Path | str, progress: bool = True, *, root: str | Path | None = None
) -> TrainedMini:
    """Train `mini` on the recorded part of CIFAR and write weights, card and manifest to a folder.

    The state is written to ``state/`` in that folder after each epoch, with ``curve.csv``: called again with the
    same recipe, training goes on there and ends with the same bytes as one that was never stopped.

    Args:
        recipe: everything that decides the weights.
        out_dir: folder for the results and the state.
        progress: show a progress bar.
        root: folder with the data sets, as ``load_dataset`` takes it.

    Raises:
        FedCoPLError: a set is not there, the folder cannot be written, or it holds the state of another recipe.
    """
    folder = Path(out_dir)
    check_writable(folder)  # before the training, not after it
    curriculum = Curriculum.of(recipe, photo_pool(root))
    model, state = fit(curriculum, folder / "state", progress)
    trained, content = finished(model, curriculum.captions)
    last = {name: state.curve[-1][f"held_out_{name}"] for name in PHOTO_SETS}
    card = mini_card(trained, recipe, minutes=state.seconds / 60, n_bytes=len(content), held_out=last, root=root)
    names = {name: load_manifest(name).classes for name in PHOTO_SETS}
    write_checkpoint(folder, {f"{MINI}.safetensors": content, **mini_files(card, names)})
    return TrainedMini(trained, folder, card)
