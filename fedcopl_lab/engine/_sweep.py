"""Many runs at once: one-thread processes work through a list, one bar shows all rounds and the time left."""

import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from itertools import islice
from multiprocessing import connection
from pathlib import Path

from joblib import cpu_count
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import REGISTERED, PromptConfig, RunConfig
from fedcopl_lab.store import Run, Store

POLL_SECONDS = 0.5


def sweep(
    configs: Sequence[RunConfig], store: Store | None = None, jobs: int | None = None, progress: bool = True
) -> list[Run]:
    """Run every configuration that is not stored yet, several at a time.

    Args:
        configs: what to run; repeated ones are computed once.
        store: where to keep the runs; None takes the default store.
        jobs: worker processes; None takes one per core. 1 computes in this process.
        progress: show one bar over the rounds of all runs.

    Returns:
        The complete runs, in the order of ``configs``.

    Raises:
        FedCoPLError: the first error of a run, or a worker that was killed; the others are stored as far as they came.

    >>> len(lab.sweep([lab.configure("smoke", method="zero-shot")], jobs=1, progress=False))
    1

    Shown in notebook ``fedcopl_main_table1``.
    """
    if jobs is not None and jobs < 1:
        raise FedCoPLError(f"jobs={jobs} is below 1; leave it out for one per core")
    store, configs = store or Store(), list(configs)
    keys = [key_of(config) for config in configs]
    order = in_order(configs, store)
    jobs = min(jobs or cpu_count(), max(len(order), 1))
    with (
        tqdm(total=n_rounds(order), desc="runs", unit="round", disable=not (progress and order)) as bar,
        closing(computed(order, store, jobs)) as under_way,
    ):
        stored = [store.run(key_of(config)) for config in order]
        for _ in under_way:
            show_stored(bar, stored)
    return [store.run(key) for key in keys]


def computed(configs: Iterable[RunConfig], store: Store, jobs: int) -> Generator[RunConfig | None, None, None]:
    """Compute runs in the order given, ``jobs`` at a time, and give each back when it is stored.

    None comes every half second while nothing ends. Runs are taken from ``configs`` when a worker is nearly free, so
    that it may be an iterator that decides late. Closing the generator ends the workers; stored rounds stay.

    Raises:
        FedCoPLError: the first error of a run, or a worker that was killed.

    >>> [config.label for config in computed([lab.configure("smoke", method="zero-shot")], Store(), jobs=1)]
    ['zero-shot digits β=0.1 seed=0']
    """
    if jobs > 1:
        yield from _in_processes(iter(configs), store, jobs)
        return
    for config in configs:
        _work(config, store.root)
        yield config


def in_order(configs: Sequence[RunConfig], store: Store) -> list[RunConfig]:
    """The runs that are not stored, each once; the longest first, so that no worker ends alone with a long one."""
    return _longest_first({key_of(c): c for c in configs if not store.run(key_of(c)).complete}.values())


def shard_of(configs: Sequence[RunConfig], part: int, parts: int) -> list[RunConfig]:
    """One of several equal parts of some runs, the same on every machine whatever is stored already.

    Long runs are dealt out first, so that the parts take about as long.

    Args:
        configs: all runs; repeated ones count once.
        part: which part, 1 to ``parts``.
        parts: how many there are.

    Raises:
        FedCoPLError: no such part.

    >>> len(shard_of([lab.configure("smoke", seed=s) for s in range(5)], part=1, parts=2))
    3
    """
    if parts < 1 or not 1 <= part <= parts:
        raise FedCoPLError(
            f"shard {part}/{parts} does not exist; give 1/{max(parts, 1)} to {max(parts, 1)}/{max(parts, 1)}"
        )
    return _longest_first(dict.fromkeys(configs))[part - 1 :: parts]


def _longest_first(configs: Iterable[RunConfig]) -> list[RunConfig]:
    return sorted(configs, key=lambda config: (*same_tokens(config), -config.rounds * config.local_epochs))


def same_tokens(config: RunConfig) -> tuple[str, ...]:
    """What the runs of a card that share image tokens have in common: a card keeps those of one data set at a time."""
    on_card = config.device.startswith("cuda")
    return (config.dataset, config.clip) if on_card and isinstance(config, PromptConfig) else ("", "")


def _in_processes(order: Iterator[RunConfig], store: Store, jobs: int) -> Iterator[RunConfig | None]:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise FedCoPLError(
            "lab.sweep was called while a worker read this script; put the call under `if __name__ == '__main__':`, or "
            "pass jobs=1"
        )
    others = multiprocessing.active_children()
    context = multiprocessing.get_context("spawn")  # a forked torch may hang on its threads
    modules = modules_of_methods()
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(modules,)) as pool:
        try:
            pending = dict[Future[None], RunConfig]()
            while pending := pending | _submitted(pool, islice(order, 2 * jobs - len(pending)), store):
                finished, _ = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                    yield pending.pop(future)
                if not finished:
                    yield None
        except BaseException as error:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()  # rounds already stored stay; the rest is computed by the next call
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise FedCoPLError(
                    f"one of {jobs} worker processes was killed from outside, as the system does when memory runs out, "
                    "or ended by an error that it printed; every stored round is kept: call again, with fewer jobs"
                ) from error
            raise


def _submitted(pool: ProcessPoolExecutor, configs: Iterable[RunConfig], store: Store) -> dict[Future[None], RunConfig]:
    wanted = list(configs)
    with _interrupts_held():
        return {pool.submit(_work, config, store.root): config for config in wanted}


def _work(config: RunConfig, root: Path) -> None:
    from fedcopl_lab.engine._run import run

    run(config, Store(root), progress=False)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started meanwhile never see Ctrl-C, not even while they are still importing."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(modules: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    import_methods(modules)


def modules_of_methods() -> list[str]:
    """The modules that registered methods here; another process knows the methods once it has imported them."""
    return sorted({method.module for method in REGISTERED.values() if method.module})


def import_methods(modules: Sequence[str]) -> None:
    """Import modules that register methods, where they are found."""
    for name in modules:
        with suppress(ImportError):  # opening the method says what is missing
            importlib.import_module(name)


def _end_with_parent() -> None:
    """A killed parent cannot end its workers; without it they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def n_rounds(configs: Sequence[RunConfig]) -> int:
    """Rounds of all these runs, as a progress bar counts them."""
    return sum(max(config.rounds, 1) for config in configs)


def show_stored(bar: "tqdm[None]", runs: Iterable[Run]) -> None:
    """Move a bar to the rounds of some runs that are stored, counted like :func:`n_rounds`."""
    bar.n = sum(max(run.rounds_done(), 1) if run.complete else run.rounds_done() for run in runs)
    bar.refresh()
