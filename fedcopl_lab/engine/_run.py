"""The reference engine: one process runs a method round by round into the store."""

import time
from typing import Any

from fedcopl_lab._errors import StoreError
from fedcopl_lab._files import REMEDY, to_json, write_atomic
from fedcopl_lab._identity import key_of
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.config import RunConfig
from fedcopl_lab.data import Federation, split_table
from fedcopl_lab.engine._machine import check_device, environment, keep_freed_memory
from fedcopl_lab.engine._rounds import OnRound, run_rounds, starting_state
from fedcopl_lab.methods import Method, ZeroShot, open_method
from fedcopl_lab.store import Run, Store, single_numbers


def run(config: RunConfig, store: Store | None = None, progress: bool = True, on_round: OnRound | None = None) -> Run:
    """Run a configuration, or return it at once when it is stored already.

    Each round is stored when it ends. A run that was interrupted at any moment goes on after its last
    stored round and ends with the same bytes. Two processes asked for the same run compute it once.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        store: where to keep it; None takes ``$FEDCOPL_LAB_HOME``, else ``runs/`` of the checkout.
        progress: show a bar over the rounds.
        on_round: called with each round's numbers, a line of ``run.rows`` as a dictionary, once that round is stored;
            with those that are stored already first. An error in it ends the call; every stored round is kept, and
            the next call goes on after the last one.

    Returns:
        The complete run.

    Raises:
        FedCoPLError: data, weights or device that are not there, a federation that cannot be drawn, nothing
            to train on, a store that cannot be written.

    >>> lab.run(lab.configure("smoke", method="zero-shot"), progress=False).complete
    True

    Shown in notebook ``00_quickstart``.
    """
    check_device(config.device)
    store = store or Store()
    key = key_of(config)
    if store.run(key).complete:
        return _told(_checked(store.run(key), config), on_round)
    keep_freed_memory()
    with store.locked(key) as stored:
        if stored.complete:
            return _told(_checked(stored, config), on_round)
        with torch_threads(config.threads):
            _compute(config, stored, progress, on_round)
    return _checked(stored, config)


def _told(stored: Run, on_round: OnRound | None) -> Run:
    """The run, after its stored rows went to the callback."""
    for row in stored.records() if on_round is not None else ():
        on_round(single_numbers(row))  # type: ignore[misc]
    return stored


def _checked(stored: Run, config: RunConfig) -> Run:
    """Refuse a folder that was renamed or edited: its numbers belong to other settings."""
    if _settings(stored.config) != _settings(config):
        raise StoreError(
            f"{stored.path} holds {stored.config.label} with other settings than its key stands for; it was renamed or "
            f"edited: {REMEDY}"
        )
    return stored


def _settings(config: RunConfig) -> dict[str, Any]:
    return config.identity() | {"device": config.device.split(":")[0]}


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


def _compute(config: RunConfig, stored: Run, progress: bool, on_round: OnRound | None) -> None:
    method = begin(config, stored)
    if isinstance(method, ZeroShot):
        if not stored.records():
            start = time.perf_counter()
            stored.commit(method.report(), {}, time.perf_counter() - start)
        _told(stored, on_round)
    else:
        state = starting_state(method, stored, config.label)  # first: it may drop the last row
        _told(stored, on_round)
        run_rounds(method.step, state, stored, config, progress, on_round)
    stored.finish()


def _split(federation: Federation) -> dict[str, Any]:
    counts = {part: federation.class_counts(part).tolist() for part in ("train", "test")}
    if federation.label_fraction is not None:
        counts |= {part: federation.class_counts(part).tolist() for part in ("labelled", "unlabelled")}
    return {**split_table(federation), "class_counts": counts}
