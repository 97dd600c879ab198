"""The state of a training that may be killed at any moment: one file per epoch, whole or not at all."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_safetensors
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.extras.embedded.recipes import MiniRecipe

LAST = "last.safetensors"
"""The newest state."""


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


def state_tensors(model: torch.nn.Module, optimisers: Mapping[str, torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Everything that a step changes, by name."""
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for kind, optimiser in optimisers.items():
        for place, values in optimiser.state_dict()["state"].items():
            tensors |= {f"{kind}/{place}/{name}": value for name, value in values.items()}
    return {name: value.detach().clone().contiguous() for name, value in tensors.items()}


def restore(
    tensors: Mapping[str, Tensor], model: torch.nn.Module, optimisers: Mapping[str, torch.optim.Optimizer]
) -> None:
    """Put what :func:`state_tensors` took back into model and optimisers."""
    model.load_state_dict({name[6:]: value for name, value in tensors.items() if name.startswith("model/")})
    for kind, optimiser in optimisers.items():
        found: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith(f"{kind}/"):
                _, place, field = name.split("/")
                found.setdefault(int(place), {})[field] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": found})


def write_state(folder: Path, state: TrainingState) -> None:
    """Write the state, and the curve as ``curve.csv``."""
    note = asdict(replace(state, tensors={}))
    del note["tensors"]
    write_atomic(folder / LAST, save_safetensors(dict(state.tensors), metadata={"state": json.dumps(note)}))
    rows = [",".join(f"{value:.6g}" for value in row.values()) for row in state.curve]
    write_atomic(folder / "curve.csv", "\n".join([",".join(state.curve[0]), *rows]) + "\n")


def find_state(folder: Path, recipe: MiniRecipe, per_epoch: int) -> TrainingState | None:
    """The state that a training can go on from; None when the folder holds none, an error when of another recipe."""
    if not (folder / LAST).is_file():
        return None
    found = read_state(folder / LAST)
    if (found.recipe, found.per_epoch) != (recipe, per_epoch):
        remedy = "go on with that recipe or choose another folder"
        raise FedCoPLError(f"the state in {folder} is of {found.recipe}, expected {recipe}; {remedy}")
    return found


def read_state(path: Path) -> TrainingState:
    """The state in a file; an error when it holds none."""
    try:
        with safe_open(path, framework="pt") as file:
            note: dict[str, Any] = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        note |= {"recipe": MiniRecipe(**note["recipe"]), "curve": tuple(note["curve"])}
        return TrainingState(**note, tensors=tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise FedCoPLError(f"{path} is no state of a training ({error}); remove it to begin again") from error
