"""Sweeps over many workers or machines: leases on runs in a shared store, and every run a task on Ray.

A lease says who computes a run, where workers share a folder and nothing else: a file that must be renewed, or it
lapses.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import SoftFileLease
from joblib import cpu_count
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, config_from
from fedcopl_lab.engine import POLL_SECONDS, import_methods, in_order, modules_of_methods, n_rounds, run, show_stored
from fedcopl_lab.extras.bench import plan_run
from fedcopl_lab.extras.federation.flower import need
from fedcopl_lab.store import Run, Store

PATIENCE = 60.0
"""Seconds without a renewal after which a lease lapses; all workers of a store must have the same."""

_LOOK_EVERY = 0.5  # seconds

RETRIES = 3
"""Times that a run is started again after its worker was lost."""

_UNPLANNED_BYTES = 2e9  # a run whose memory is not planned, or whose tensors are on a card that may not be here


def run_claimed(config: RunConfig, root: Path, patience: float = PATIENCE) -> Run:
    """Run a configuration unless another worker of the same store does; then wait for it.

    After ``patience`` seconds of silence another worker's run is taken over and goes on after its last stored round.
    ``root`` is the store's folder, perhaps on a disk that several machines share.
    """
    store = Store(root)
    stored = store.run(key_of(config))
    if stored.complete:
        return stored
    try:
        held = lease(store.root, stored.key, patience).acquire()
    except OSError as error:
        raise StoreError(f"cannot write to {store.root}: {error.strerror}; make it writable") from error
    with held:
        return run(config, store, progress=False)  # at once where the worker before has finished it


def lease(root: Path, key: str, patience: float = PATIENCE) -> SoftFileLease:
    """What makes a worker the only one that computes a run: a file that its holder renews.

    The kernel's lock on a run ends with its holder but is often not seen by other machines. A lease that was not
    renewed for ``patience`` seconds, by the waiting worker's own clock, is taken over; a dead holder on this machine
    is noticed at once. Should two workers compute the run for a while, both compute the same bytes. ``pid`` is the
    holder's process, None when the lease is free.

    >>> with lease(Path("runs"), "a run's key") as mine:
    ...     mine.pid == os.getpid()
    True
    """
    path = root / ".leases" / f"{key}.lease"
    return SoftFileLease(path, lease_duration=patience, poll_interval=_LOOK_EVERY)


@dataclass(frozen=True)
class Needs:
    """What Ray must set aside for a run: threads, whole GPUs (0 or 1), and bytes of memory at most."""

    cpus: int
    gpus: int
    bytes: int


def needs_of(config: RunConfig) -> Needs:
    """CPUs, GPUs and memory of a run, from its plan.

    >>> needs_of(lab.configure("smoke")).cpus
    1
    """
    memory = _UNPLANNED_BYTES
    if isinstance(config, PromptConfig | SageConfig) and config.device == "cpu":
        with suppress(FedCoPLError):  # a model or data set whose cost is not counted
            memory = plan_run(config, repeats=1).bytes
    return Needs(config.threads, int(config.device.startswith("cuda")), int(memory))


def ray_sweep(
    configs: Sequence[RunConfig],
    store: Store | None = None,
    jobs: int | None = None,
    progress: bool = True,
    patience: float = PATIENCE,
) -> list[Run]:
    """Run every configuration that is not stored yet as a task on Ray; all runs in the order of ``configs``.

    Joins the cluster that ``$RAY_ADDRESS`` names, else starts Ray on this machine. The store's folder must be
    the same on every machine. One worker computes a run: see :func:`lease`.

    Args:
        configs: what to run; repeated ones are computed once.
        store: where to keep the runs; None takes the default store.
        jobs: CPUs of a Ray that is started here; None takes one per core. No meaning in a cluster.
        progress: show one bar over the rounds of all runs.
        patience: seconds of silence after which a run is taken over from another worker.

    Raises:
        FedCoPLError: the extra is missing, or the first error of a run; the others are stored as far as they came.
    """
    ray, store = need("ray"), store or Store()
    keys = [key_of(config) for config in configs]
    order = in_order(configs, store)
    if not order:
        return [store.run(key) for key in keys]
    started = not ray.is_initialized()
    if started:
        _start(ray, jobs)
    try:
        with tqdm(total=n_rounds(order), desc="runs", unit="round", disable=not progress) as bar:
            _wait_for_all(ray, order, store, patience, bar)
    finally:
        if started:
            ray.shutdown()
    return [store.run(key) for key in keys]


def _start(ray: Any, jobs: int | None) -> None:
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False)
        return
    for last in (False, True):
        try:
            ray.init(num_cpus=jobs or cpu_count(), include_dashboard=False, log_to_driver=False)
            return
        except Exception as error:  # Ray gives up after half a minute, which a busy machine may need
            ray.shutdown()
            if last:
                raise FedCoPLError(
                    f"Ray did not start ({error}); try again when the machine is less busy, or start it yourself with "
                    "`ray start --head` and set RAY_ADDRESS=127.0.0.1:6379"
                ) from error


def _wait_for_all(ray: Any, order: Sequence[RunConfig], store: Store, patience: float, bar: "tqdm[None]") -> None:
    total, needed = ray.cluster_resources(), {config: needs_of(config) for config in order}
    for config, needs in needed.items():
        for name, wanted in (("CPU", needs.cpus), ("GPU", needs.gpus), ("memory", needs.bytes)):
            if wanted > total.get(name, 0):  # Ray would wait forever for such a machine
                raise FedCoPLError(f"{config.label} needs {name} {wanted:,}, all of Ray has {total.get(name, 0):,.0f}")
    pending, modules = [], modules_of_methods()
    for config, needs in needed.items():
        task = ray.remote(_work).options(
            num_cpus=needs.cpus, num_gpus=needs.gpus, memory=needs.bytes, max_retries=RETRIES, name=config.label
        )
        pending.append(task.remote(config.as_dict(), str(store.root), patience, modules))
    keys = [key_of(config) for config in order]
    lost = ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError
    try:
        while pending:
            finished, pending = ray.wait(pending, timeout=POLL_SECONDS)
            ray.get(finished)
            show_stored(bar, [store.run(key) for key in keys])
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, FedCoPLError) else error from None
    except lost as error:
        raise FedCoPLError(f"a run lost its worker {RETRIES + 1} times ({error}); start it alone to see why") from error
    finally:
        for task in pending:  # where an error ends the sweep; stored rounds stay
            ray.cancel(task, force=True)


def _work(settings: dict[str, Any], root: str, patience: float, modules: list[str]) -> None:
    import_methods(modules)
    run_claimed(config_from(settings), Path(root), patience)
