"""The one loop over rounds, which this process computes, a federation of machines, or its files afterwards."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._files import REMEDY
from fedcopl_lab._identity import key_of
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.config import RunConfig
from fedcopl_lab.engine._machine import check_device
from fedcopl_lab.methods import PROMPT_RECIPES, RECIPES, Method, RoundResult, State, open_method
from fedcopl_lab.store import Run, single_numbers

Between = TypeVar("Between", bound=State)
OnRound = Callable[[dict[str, Any]], object]


def run_rounds(
    step: Callable[[Between], tuple[Between, dict[str, Any]]],
    state: Between,
    stored: Run,
    config: RunConfig,
    progress: bool = True,
    on_round: OnRound | None = None,
) -> Between:
    """Go from a state to the last round and store each round when it ends; the state after the last one.

    Args:
        step: one round: the next state, and the row to store.
        state: see :func:`starting_state`.
        stored: where rows and states go.
        config: says how many rounds there are.
        progress: show a bar over the rounds.
        on_round: called with each round's numbers once they are stored.

    Raises:
        FedCoPLError: a round with a number that is not finite, which is not stored.
    """
    done = state.round
    with tqdm(total=config.rounds, initial=done, desc=config.label, unit="round", disable=not progress) as bar:
        while state.round < config.rounds:
            start = time.perf_counter()
            state, row = step(state)
            _check_finite(row, config)
            stored.commit(row, state.to_tensors(), time.perf_counter() - start)
            bar.update()
            if on_round is not None:
                on_round(single_numbers(row))
    return state


def starting_state(half: Any, stored: Run, label: str) -> Any:
    """The state after the last whole round, or the initial one; a damaged state is named, and its round done again.

    Raises:
        StoreError: a row is missing; the stored state is not the one that the last row was written after, or it is
            damaged and the state before it is gone.
    """
    done = stored.rounds_done()
    if not done:
        return half.initial_state()
    stored.records()  # all there, or an error before hours of work
    try:
        tensors = stored.load_state()
    except StoreError as error:
        if stored.complete or not stored.step_back():
            raise
        warnings.warn(f"{error}. Going on after round {done - 1} instead", stacklevel=2)
        return starting_state(half, stored, label)
    path = stored.path / f"state-{done:04d}.safetensors"
    try:
        state = half.restored_state(tensors)
    except (KeyError, IndexError, TypeError, RuntimeError) as error:
        raise StoreError(f"{path} holds no state of {label} ({error}); {REMEDY}") from error
    if state.round != done:
        raise StoreError(f"{path} is the state after round {state.round} instead of {done}; {REMEDY}")
    return state


def round(config: RunConfig, state: State | None = None) -> RoundResult:
    """One communication round with the results of its steps; nothing is stored.

    A round goes: label phase where one is due (FedCoPL), local training of the participants, the server's merge,
    tests. The same seed gives the numbers that :func:`fedcopl_lab.run` stores.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        state: of the result before; None starts the run.

    Returns:
        ``.state`` to pass to the next call, ``.row``, ``.labels``, ``.updates`` by client, ``.evaluation``.

    Raises:
        FedCoPLError: a method without rounds, or no round left.

    >>> first = lab.round(lab.configure("smoke", rounds=2, local_epochs=1, refresh_every=0))
    >>> first.state.round, len(first.updates), len(first.labels.labels)
    (1, 5, 5)

    Shown in notebook ``00_quickstart``.
    """
    check_device(config.device)
    method = _opened(config, key_of(config), {**RECIPES, **PROMPT_RECIPES}.get(config.method))
    state = method.initial_state() if state is None else state
    if state.round >= config.rounds:
        raise FedCoPLError(f"{config.label} has {config.rounds} rounds, and {state.round} are done; raise rounds")
    with torch_threads(config.threads):
        return method.round(state)


@lru_cache(maxsize=1)
def _opened(config: RunConfig, _key: str, _recipe: object) -> Method:
    """The method of the last call, unless data or recipe changed, so that a run's data are loaded once."""
    with torch_threads(config.threads):
        method = open_method(config)
    if not isinstance(method, Method):
        raise FedCoPLError(f"{config.method} trains nothing and has no rounds; call lab.run(config)")
    return method


def _check_finite(row: dict[str, Any], config: RunConfig) -> None:
    """Refuse a round that diverged before it is stored."""
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
