"""What runs need of a machine before the first one starts: a device, data and weights, time and memory."""

import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import has_key, key_of
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig
from fedcopl_lab.store import Store

Machine = Callable[[RunConfig], RunConfig]
"""Makes a run what a machine computes."""

ASK_ABOVE = 5e9
"""Bytes of downloads that nobody is asked about."""

_SLACK = 0.5e9  # stands for files whose size no manifest knows


def chosen_device(given: str | None, profile: str) -> str:
    """The device that was asked for; else, for the profile ``paper``, a CUDA card where there is one; else the CPU.

    >>> chosen_device(None, "smoke")
    'cpu'
    """
    if given or profile != "paper":
        return given or "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def on_this_machine(device: str) -> Machine:
    """What makes a run one of a device of this machine.

    Runs of the profile ``paper`` get as many clients in a forward pass as a card has room for.
    """
    size = _gigabytes(device) if device.split(":")[0] == "cuda" else 0.0

    def changed(config: RunConfig) -> RunConfig:
        there = replace(config, device=device)
        if not size or config.profile != "paper":
            return there
        from fedcopl_lab.extras.bench.plan import on_card

        return on_card(there, size)

    return changed


def _gigabytes(device: str) -> float:
    import torch

    from fedcopl_lab._card import memory_of

    return memory_of(device) / 1e9 if torch.cuda.is_available() else 0.0


def _missing(configs: Sequence[RunConfig]) -> dict[str, str]:
    """Data sets and pretrained weights with a manifest that some runs read -> ``"absent"`` or ``"partly"`` here."""
    from fedcopl_lab.data import known_manifests, split_name, state_of

    known, models = known_manifests("dataset"), known_manifests("weights")
    sets = {split_name(config.dataset, known).whole for config in configs}
    clips = {config.clip for config in configs if isinstance(config, PromptConfig) and config.weights == "pretrained"}
    states = {name: state_of(name) for name in (*sorted(sets & set(known)), *sorted(clips & set(models)))}
    return {name: state for name, state in states.items() if state in ("absent", "partly")}


def fetch_missing(configs: Sequence[RunConfig], agreed: bool = False) -> None:
    """Fetch data sets and weights of some runs that are not here; says what has to be placed by hand, and where.

    Does not ask before more than 5 GB when that is ``agreed``.
    """
    from fedcopl_lab.data import download_of, get

    missing = [download_of(name) for name in _missing(configs)]
    for one in missing:
        for file in one.files:
            if not file.urls and not (one.folder / file.name).exists():
                print(f"{one.name}: place {file.name} in {one.folder} by hand: {file.by_hand}")
    wanted = [one for one in missing if any(file.urls for file in one.files)]
    if not wanted:
        return
    from fedcopl_lab.models.openai_weights import OFFLINE

    if os.environ.get(OFFLINE):
        return
    size = sum(file.size or _SLACK for one in wanted for file in one.files if file.urls)
    print(f"to fetch, about {size / 1e9:.1f} GB: {', '.join(one.name for one in wanted)}")
    if size > ASK_ABOVE and not agreed and not _agrees():
        raise FedCoPLError("nothing was fetched; say --yes, or fetch single sets with `fedcopl-lab data get NAME`")
    for one in wanted:
        get(one.name)


def _agrees() -> bool:
    return sys.stdin.isatty() and input("fetch all of it? [y/N] ").strip().lower() in ("y", "yes")


def missing_inputs(configs: Sequence[RunConfig]) -> list[str]:
    """One line for each data set and each model's weights that is not here, with the remedy."""
    from fedcopl_lab.data import download_of

    lines = []
    for name, state in _missing(configs).items():
        where = "not here" if state == "absent" else "only in part here"
        kind = download_of(name).kind.replace("dataset", "data set")
        by_hand = "; `fedcopl-lab data where` says where to put it by hand" if kind == "weights" else ""
        lines.append(f"{kind} {name}: {where}; `fedcopl-lab data get {name}`{by_hand}")
    return lines


def check_inputs(configs: Sequence[RunConfig]) -> None:
    """Refuse to start a sweep that would stop in the middle: name all data and weights that are missing."""
    if missing := missing_inputs(configs):
        raise FedCoPLError("\n  ".join(["these are needed and not on this machine:", *missing]))


def not_stored(configs: Sequence[RunConfig], store: Store) -> list[RunConfig]:
    """The runs that are still to be computed; one whose data are not here has no key yet and is among them."""
    return [config for config in configs if not (has_key(config) and store.run(key_of(config)).complete)]


def _changed(runs: Sequence[RunConfig]) -> list[str]:
    """Of each run, settings whose value is not the most frequent one of its label, such as `` q_ent=0.9``."""
    told = [(run.label, {name: str(value) for name, value in run.as_dict().items()}) for run in runs]
    labels, found = Counter(label for label, _ in told), defaultdict[tuple[str, str], Counter[str]](Counter)
    for label, settings in told:
        for name, value in settings.items():
            found[label, name][value] += 1
    for (label, _), values in found.items():
        values[""] = labels[label] - values.total()  # younger settings are left out where they change nothing
    tops = {place: values.most_common(2) for place, values in found.items()}
    usual = {place: first[0] for place, (first, second) in tops.items() if first[1] > second[1]}
    return ["".join(f" {name}={value}" for name, value in settings.items() if value != usual.get((label, name)))
            for label, settings in told]  # fmt: skip


def list_costs(configs: Sequence[RunConfig], store: Store) -> int:
    """Print the runs and what is missing; 0 when all could start, 2 when not."""
    todo = not_stored(configs, store)
    print(f"{len(configs)} runs, {len(configs) - len(todo)} of them stored; to compute:")
    costs = [_cost(config) for config in todo]
    for config, changed, (seconds, memory, how) in zip(todo, _changed(todo), costs, strict=True):
        time = "    ?" if seconds is None else _time(seconds)
        room = "   ?" if memory is None else f"{memory / 1e9:4.1f}"
        print(f"  {time}  {room} GB  {config.label}{changed}{how}")
    known = [seconds for seconds, _, _ in costs if seconds is not None]
    if known:
        rest = f", and {len(todo) - len(known)} runs of unknown time" if len(known) < len(todo) else ""
        print(f"one after the other: {_time(sum(known)).strip()}{rest}")
    missing = missing_inputs(configs)
    print("\n  ".join(["not on this machine:", *missing]) if missing else "all data and weights are here")
    return 2 if missing else 0


def _cost(config: RunConfig) -> tuple[float | None, float | None, str]:
    """Seconds, bytes, and where the seconds are from."""
    from fedcopl_lab.paper import committed_seconds  # it takes a while, and most commands list no costs

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
