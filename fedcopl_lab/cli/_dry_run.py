"""``reproduce --dry-run``: every run that is missing, with its time and memory, and what is not here to run it."""

from collections.abc import Sequence

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli._inputs import missing_inputs, not_stored
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig
from fedcopl_lab.paper import measured_runs
from fedcopl_lab.store import Store


def dry_run(configs: Sequence[RunConfig], store: Store) -> int:
    """Print the runs and what is missing; 0 when all could start, 2 when not."""
    todo = not_stored(configs, store)
    print(f"{len(configs)} runs, {len(configs) - len(todo)} of them stored; to compute:")
    costs = [_cost(config) for config in todo]
    for config, (seconds, memory, how) in zip(todo, costs, strict=True):
        time = "    ?" if seconds is None else _time(seconds)
        room = "   ?" if memory is None else f"{memory / 1e9:4.1f}"
        print(f"  {time}  {room} GB  {config.label}{how}")
    known = [seconds for seconds, _, _ in costs if seconds is not None]
    if known:
        rest = f", and {len(todo) - len(known)} runs of unknown time" if len(known) < len(todo) else ""
        print(f"one after the other: {_time(sum(known)).strip()}{rest}")
    missing = missing_inputs(configs)
    if missing:
        print("not on this machine:\n  " + "\n  ".join(missing))
    else:
        print("all data and weights are here")
    return 2 if missing else 0


def _cost(config: RunConfig) -> tuple[float | None, float | None, str]:
    """Seconds, bytes, and where the seconds are from."""
    planned = _planned(config)
    timed = _committed_seconds(config)
    if timed is not None:
        return timed, planned[1], ""
    return (*planned, " (estimated from rates measured now)" if planned[0] is not None else "")


def _committed_seconds(config: RunConfig) -> float | None:
    """Seconds of the same method on the same data, where the profile was measured."""
    try:
        timed = measured_runs(config.profile)
    except FedCoPLError:
        return None
    alike = timed[(timed["method"] == config.method) & (timed["dataset"] == config.dataset)]
    if isinstance(config, PromptConfig):
        alike = alike[alike["clip"] == config.clip]
    return None if alike.empty else float(alike["seconds"].mean())


def _planned(config: RunConfig) -> tuple[float | None, float | None]:
    from fedcopl_lab.extras.bench import measure_rates, plan_run, plan_semi_run
    from fedcopl_lab.extras.bench.run_plan import dataset_sizes

    try:
        if isinstance(config, SageConfig):
            plan = plan_semi_run(config)
        elif isinstance(config, PromptConfig):
            rates = measure_rates(
                config.clip,
                dataset_sizes(config.dataset)[2],
                device=config.device,
                precision=config.precision,
                repeats=1,
                clients=config.clients_per_forward,
            )
            plan = plan_run(config, rates)
        else:
            return None, None
    except FedCoPLError:  # a model or data set whose cost is not counted
        return None, None
    return plan.seconds, plan.bytes


def _time(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:5.1f} h" if hours >= 1 else f"{seconds / 60:3.0f} min" if seconds >= 60 else f"{seconds:5.0f} s"
