"""What runs need before the first one starts: data and weights on this machine, time and memory."""

import math
from collections.abc import Sequence

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import has_key, key_of
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig
from fedcopl_lab.paper import committed_seconds
from fedcopl_lab.store import Store


def not_stored(configs: Sequence[RunConfig], store: Store) -> list[RunConfig]:
    """The runs that are still to be computed; one whose data are not here has no key yet and is among them."""
    return [config for config in configs if not (has_key(config) and store.run(key_of(config)).complete)]


def missing_inputs(configs: Sequence[RunConfig]) -> list[str]:
    """One line for each data set and each model's weights that is not here, with the remedy."""
    from fedcopl_lab.data import known_manifests, split_name, state_of

    lines, known = [], known_manifests("dataset")
    for name in sorted({split_name(config.dataset, known).whole for config in configs} & set(known)):
        state = state_of(name)
        if state in ("absent", "partly"):
            lines.append(f"data set {name}: {'not here' if state == 'absent' else 'only in part here'}; "
                         f"`fedcopl-lab data get {name}`")  # fmt: skip
    needed = {config.clip for config in configs if isinstance(config, PromptConfig) and config.weights == "pretrained"}
    return lines + [line for name in sorted(needed) if (line := _missing_weights(name))]


def check_inputs(configs: Sequence[RunConfig]) -> None:
    """Refuse to start a sweep that would stop in the middle.

    Raises:
        FedCoPLError: data or weights are missing; names all of them.
    """
    missing = missing_inputs(configs)
    if missing:
        raise FedCoPLError("\n  ".join(["these are needed and not on this machine:", *missing]))


def _missing_weights(name: str) -> str:
    from fedcopl_lab.data import known_manifests, state_of

    if name not in known_manifests("weights") or state_of(name) == "packaged":
        return ""
    from fedcopl_lab.models.openai_weights import find_weights

    try:
        find_weights(name)
    except FedCoPLError as error:
        return f"weights {name}: {error}"
    return ""


def list_costs(configs: Sequence[RunConfig], store: Store) -> int:
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
    print("\n  ".join(["not on this machine:", *missing]) if missing else "all data and weights are here")
    return 2 if missing else 0


def _cost(config: RunConfig) -> tuple[float | None, float | None, str]:
    """Seconds, bytes, and where the seconds are from."""
    planned, timed = _planned(config), committed_seconds(config.profile)(config)
    if not math.isnan(timed):
        return timed, planned[1], ""
    return (*planned, " (estimated from rates measured now)" if planned[0] is not None else "")


def _planned(config: RunConfig) -> tuple[float | None, float | None]:
    if not isinstance(config, PromptConfig | SageConfig):
        return None, None
    from fedcopl_lab.extras.bench import plan_run

    try:
        plan = plan_run(config, repeats=1)
    except FedCoPLError:  # a model or data set whose cost is not counted
        return None, None
    return plan.seconds, plan.bytes


def _time(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:5.1f} h" if hours >= 1 else f"{seconds / 60:3.0f} min" if seconds >= 60 else f"{seconds:5.0f} s"
