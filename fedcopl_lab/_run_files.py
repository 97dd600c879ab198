"""The files of a run folder, read with an error that names the file and says what to do."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcopl_lab._errors import StoreError
from fedcopl_lab._files import read_json

if TYPE_CHECKING:
    from torch import Tensor

REMEDY = "remove its run folder to compute the run again"
"""How to get out of a damaged run, at the end of a sentence."""


def read_table(path: Path, wanted: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values by name that a JSON file of a run holds."""
    found = read_json(path)
    missing = list(wanted) if not isinstance(found, dict) else [name for name in wanted if name not in found]
    if not isinstance(found, dict) or missing:
        what = f"has no {', '.join(missing)}" if isinstance(found, dict) else f"holds a {type(found).__name__}"
        raise StoreError(f"{path} {what}; expected values by name: {REMEDY}")
    return found


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """The tensors of a safetensors file, or an error that names the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise StoreError(f"cannot read {path}: {error}; {REMEDY}") from error


def tensor_bytes(tensors: "dict[str, Tensor]") -> bytes:
    """A safetensors file as bytes."""
    from safetensors.torch import save

    return save(tensors)
