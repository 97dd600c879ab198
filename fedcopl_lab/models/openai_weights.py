"""OpenAI's CLIP models: built by open_clip with their own activation, filled from a file that was checked first."""

import hashlib
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import load_file
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import get, read_manifest_table, set_folder, weights_folders

OPENAI_MODELS = ("ViT-B-32", "ViT-B-16", "RN50")
OFFLINE = "FEDCOPL_LAB_OFFLINE"
"""Environment variable that forbids downloads nobody asked for, when it is set."""

RANDOM = "random"
_NOT_WEIGHTS = ("input_resolution", "context_length", "vocab_size")  # numbers that OpenAI stores among the weights


def openai_sha256(name: str) -> str:
    """The checksum that OpenAI publishes in the address of the file."""
    return str(read_manifest_table(name)["sha256"])


def build_openai_clip(name: str, seed: int = 0) -> open_clip.CLIP:
    """An untrained model of an OpenAI configuration, always with QuickGELU, initialised from ``seed``."""
    config = dict(open_clip.get_model_config(name))
    config["quick_gelu"] = True  # the configuration without a tag says GELU, which OpenAI's weights do not expect
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = open_clip.CLIP(**config)
    return model.eval().requires_grad_(False)


def find_weights(name: str) -> Path:
    """Where a model's weights lie on this machine: in ``$FEDCOPL_LAB_WEIGHTS``, the data folder, or OpenAI's own.

    Raises:
        FedCoPLError: there is no such file; the message says where to put it, and its checksum.
    """
    candidates = [folder / f"{name}.pt" for folder in weights_folders(name)]
    for path in candidates:
        if path.is_file():
            return path
    raise FedCoPLError(
        f"OpenAI's CLIP weights for {name!r} are not on this machine: "
        f"`fedcopl-lab data get {name}` fetches them (sha256 {openai_sha256(name)}), or put the file at "
        f"{' or '.join(map(str, candidates))}, or pass weights=PATH, or weights='random' for timing only"
    )


def fetch_weights(name: str) -> Path:
    """Where a model's weights lie, after a download from the pinned address where they are not here and a network is.

    Raises:
        FedCoPLError: they are not here and cannot be fetched, or ``$FEDCOPL_LAB_OFFLINE`` forbids it.
    """
    try:
        return find_weights(name)
    except FedCoPLError as missing:
        if os.environ.get(OFFLINE):
            raise
        print(f"fetching the weights of {name} into {set_folder(name)}, once", file=sys.stderr)
        try:
            return get(name) / f"{name}.pt"
        except FedCoPLError as error:
            raise FedCoPLError(f"{missing}; fetching failed: {error}") from error


def read_openai_clip(name: str, path: Path, pinned: bool) -> tuple[open_clip.CLIP, str]:
    """The frozen model filled from a file that :func:`load_clip` takes, and its sha256; ``pinned``: only OpenAI's own.

    Raises:
        FedCoPLError: not readable, not the pinned file, truncated, or the weights of something else.
    """
    if not path.is_file():
        raise FedCoPLError(f"weights file {path} does not exist; expected the weights of {name}: check the path")
    sha256, expected = sha256_of(path), openai_sha256(name)
    if pinned and sha256 != expected:
        raise FedCoPLError(
            f"weights file {path} has sha256 {sha256} ({path.stat().st_size} bytes), expected {expected} for {name}; "
            "it is truncated or another file: fetch it again, or pass it as weights=PATH if you trust it"
        )
    _check_neighbour(name, path)
    state = _read_state(name, path, torchscript=sha256 == expected)
    model = build_openai_clip(name)
    _fill(name, path, model, state)
    return model, sha256


@lru_cache(maxsize=16)
def _sha256_at(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: Path) -> str:
    """Checksum of a file, computed once as long as the file does not change."""
    try:
        there = path.stat()
        return _sha256_at(path, there.st_size, there.st_mtime_ns)
    except OSError as error:
        raise FedCoPLError(f"weights file {path} cannot be read ({error.strerror}); check its permissions") from error


def _check_neighbour(name: str, path: Path) -> None:
    """A configuration beside the file, as open_clip saves it, may say that the weights want another activation."""
    neighbour = path.parent / "open_clip_config.json"
    if not neighbour.is_file():
        return
    try:
        config = json.loads(neighbour.read_text(encoding="utf-8"))["model_cfg"]
    except (ValueError, KeyError, TypeError) as error:
        raise FedCoPLError(f"{neighbour} is no open_clip configuration; remove it or restore it") from error
    if not config.get("quick_gelu", False):
        raise FedCoPLError(
            f"{neighbour} says that {path.name} wants GELU; {name} here means OpenAI's model with QuickGELU: build an "
            "open_clip.CLIP of that configuration yourself, PromptedCLIP takes it"
        )


def _read_state(name: str, path: Path, torchscript: bool) -> Mapping[str, Tensor]:
    try:
        if torchscript:  # an archive that holds code: opened only because its checksum is the pinned one
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # the format is old; the file stays as it is
                state: Any = torch.jit.load(str(path), map_location="cpu").state_dict()
        elif path.suffix == ".safetensors":
            state = load_file(path)
        elif _holds_code(path):
            raise FedCoPLError(
                f"weights file {path} is a TorchScript archive with sha256 {sha256_of(path)}; such files are opened "
                f"only when they are OpenAI's own, sha256 {openai_sha256(name)}: fetch it again, or use safetensors"
            )
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except FedCoPLError:
        raise
    except Exception as error:  # readers of broken files raise many kinds
        reason = " ".join(str(error).split())[:120]
        raise FedCoPLError(
            f"weights file {path} ({path.stat().st_size} bytes) cannot be read as weights ({reason}); it is truncated "
            "or something else: expected OpenAI's .pt, safetensors, or an open_clip state dict"
        ) from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise FedCoPLError(f"weights file {path} holds no state dict; expected tensors by name, the weights of {name}")
    return {key.removeprefix("module."): value for key, value in state.items() if key not in _NOT_WEIGHTS}


def _holds_code(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in entry for entry in archive.namelist())


def _fill(name: str, path: Path, model: open_clip.CLIP, state: Mapping[str, Tensor]) -> None:
    own = model.state_dict()
    wrong = [f"{key} is missing" for key in own if key not in state]
    wrong += [f"{key} is unknown" for key in state if key not in own]
    wrong += [
        f"{key} has shape {tuple(state[key].shape)}, expected {tuple(own[key].shape)}"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    if wrong:
        more = f"{wrong[0]}, and {len(wrong) - 1} more"
        raise FedCoPLError(f"weights file {path} does not fit {name}: {more}; expected the weights of {name}")
    model.load_state_dict(state)
    if not all(bool(value.isfinite().all()) for value in model.state_dict().values() if value.is_floating_point()):
        raise FedCoPLError(f"weights file {path} holds NaN or infinite numbers; fetch the weights of {name} again")
