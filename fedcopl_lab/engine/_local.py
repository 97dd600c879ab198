"""The reference engine: one process runs a method round by round and stores each round as it ends."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._files import REMEDY, to_json, write_atomic
from fedcopl_lab._identity import key_of
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.config import RunConfig
from fedcopl_lab.data import Federation, split_table
from fedcopl_lab.engine._environment import environment
from fedcopl_lab.engine._memory import keep_freed_memory
from fedcopl_lab.methods import Method, ZeroShot, open_method
from fedcopl_lab.methods._open import State
from fedcopl_lab.store import Run, Store


def run(config: RunConfig, store: Store | None = None, progress: bool = True) -> Run:
    """Run a configuration, or return it at once when it is stored already.

    Each round is stored when it ends. A run that was interrupted at any moment goes on after its last
    stored round and ends with the same bytes. Two processes asked for the same run compute it once.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        store: where to keep it; None takes ``$FEDCOPL_LAB_HOME``, else ``runs/`` of the checkout.
        progress: show a bar over the rounds.

    Returns:
        The complete run.

    Raises:
        FedCoPLError: data, weights or device that are not there, a federation that cannot be drawn, nothing
            to train on, a store that cannot be written.

    >>> run = lab.run(lab.configure("smoke", method="FedCoPL", seed=1))
    >>> run.result["accuracy"]

    Shown in notebook ``00_quickstart``.
    """
    check_device(config.device)
    store = store or Store()
    key = key_of(config)
    if store.run(key).complete:
        return _checked(store.run(key), config)
    keep_freed_memory()
    with store.locked(key) as stored:
        if not stored.complete:
            with torch_threads(config.threads):
                _compute(config, stored, progress)
    return _checked(stored, config)


def _checked(stored: Run, config: RunConfig) -> Run:
    """Refuse a folder that was renamed or edited: its numbers belong to other settings."""
    if _settings(stored.config) != _settings(config):
        raise StoreError(
            f"{stored.path} holds {stored.config.label} with other settings than its key stands for; it was renamed or "
            f"edited: {REMEDY}"
        )
    return stored


def _settings(config: RunConfig) -> dict[str, Any]:
    return config.as_dict() | {"device": config.device.split(":")[0]}


def begin(config: RunConfig, stored: Run) -> Method | ZeroShot:
    """Open a run's method and write what its folder holds before the first round."""
    if (stored.path / "config.json").is_file():
        _checked(stored, config)
    split = stored.path / "split.json"
    # a resumed run keeps its stored split, even if a later version would draw another
    method = open_method(config, stored.split if split.is_file() else None)
    write_atomic(stored.path / "config.json", to_json(config.as_dict()))
    write_atomic(split, to_json(_split(method.federation)))
    write_atomic(stored.path / "environment.json", to_json(environment(config.device, config.threads)))
    return method


def _compute(config: RunConfig, stored: Run, progress: bool) -> None:
    method = begin(config, stored)
    if isinstance(method, ZeroShot):
        start = time.perf_counter()
        row = method.report()
        stored.commit(row, {}, time.perf_counter() - start)
    else:
        _rounds(method, stored, progress)
    stored.finish()


def _rounds(method: Method, stored: Run, progress: bool) -> None:
    config = method.config
    done = stored.rounds_done()
    state = _restored(method, stored, done) if done else method.initial_state()
    bar = tqdm(total=config.rounds, initial=done, desc=config.label, unit="round", disable=not progress)
    with bar:
        while state.round < config.rounds:
            start = time.perf_counter()
            state, row = method.step(state)
            _check_finite(row, config)
            stored.commit(row, state.to_tensors(), time.perf_counter() - start)
            bar.update()


def _restored(method: Method, stored: Run, done: int) -> State:
    """The stored state, refused when it is not the one that the last row was written after."""
    tensors = stored.load_state()
    path = stored.path / f"state-{done:04d}.safetensors"
    try:
        state = method.restored_state(tensors)
    except (KeyError, IndexError, TypeError, RuntimeError) as error:
        raise StoreError(f"{path} holds no state of {method.config.label} ({error}); {REMEDY}") from error
    if state.round != done:
        raise StoreError(f"{path} is the state after round {state.round} instead of {done}; {REMEDY}")
    return state


def _check_finite(row: dict[str, Any], config: RunConfig) -> None:
    """Refuse a round that went astray before it is stored."""
    found = next(_not_finite(row), None)
    if found:
        raise FedCoPLError(
            f"round {row['round']} of {config.label} gave {found}; expected finite numbers: lower lr={config.lr:g}, or "
            "look at the images"
        )


def _not_finite(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{name}={value}"
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _not_finite(inner, f"{name}.{key}" if name else str(key))


def _split(federation: Federation) -> dict[str, Any]:
    counts = {part: federation.class_counts(part).tolist() for part in ("train", "test")}
    if federation.label_fraction is not None:
        counts |= {part: federation.class_counts(part).tolist() for part in ("labelled", "unlabelled")}
    return {**split_table(federation), "class_counts": counts}


def check_device(device: str) -> None:
    """Say which devices there are when the one asked for is not."""
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda", "mps"):
        raise FedCoPLError(f"device={device!r} is unknown; choose cpu, cuda or mps")
    there: dict[str, Callable[[], bool]] = {
        "cpu": lambda: True,
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if not there[kind]():
        raise FedCoPLError(f"device={device!r} is not available to torch {torch.__version__} here; use device='cpu'")
