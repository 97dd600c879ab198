"""``fedcopl-lab plan``: what a profile, or one run, will cost on this machine or on another."""

import argparse
import os
from dataclasses import replace

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli._runs import parse_settings
from fedcopl_lab.config import PromptConfig


def plan(options: argparse.Namespace) -> int:
    """Measure this machine for a few seconds, or take a rate, and say what the runs will cost."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler talks on stderr
    import torch

    from fedcopl_lab.engine import measure_rates, plan_run
    from fedcopl_lab.engine._local import check_device
    from fedcopl_lab.engine._plan import dataset_sizes, shape_of
    from fedcopl_lab.engine._rates import TIMED_IMAGES

    check_device(options.device)
    configs, others = _configs(options)
    for config in configs:
        shape_of(config)
    lines = []
    for config in configs:
        torch.set_num_threads(config.threads)
        rates = measure_rates(
            config.clip, dataset_sizes(config.dataset)[2], device=options.device, precision=config.precision,
            batch=config.batch_size if config.clip.startswith("tiny") else TIMED_IMAGES,
            clients=min(config.clients_per_forward, config.n_clients), gflops=options.rate,
        )  # fmt: skip
        cost = plan_run(config, rates)
        lines.append(
            {"clip": config.clip, "dataset": config.dataset, "method": config.method, "runs": 1, "steps": cost.steps,
             "PFLOP": cost.flop / 1e15, "hours": cost.seconds / 3600, "memory_gb": cost.bytes / 1e9}
        )  # fmt: skip
    table = pd.DataFrame(lines)
    sums = table.groupby(["clip", "dataset", "method"], as_index=False).agg(
        runs=("runs", "sum"), steps=("steps", "sum"), PFLOP=("PFLOP", "sum"), hours=("hours", "sum"),
        memory_gb=("memory_gb", "max"),
    )  # fmt: skip
    told = f"at {options.rate:g} GFLOP/s" if options.rate else "rates measured now with random weights"
    print(f"{configs[0].profile} on {options.device}, one run at a time, {told}")
    print(sums.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    hours = table["hours"].sum()
    print(
        f"{len(table)} runs, {table['PFLOP'].sum():.3g} PFLOP, {hours:.3g} hours ({hours * 3600:.0f} s), "
        f"at most {table['memory_gb'].max():.2g} GB of memory"
    )
    if others:
        print(f"{others} runs train no prompts and are not planned")
    return 0


def _configs(options: argparse.Namespace) -> tuple[list[PromptConfig], int]:
    """The runs to plan, each once, and how many others the items have."""
    from fedcopl_lab.config import configure, profile_name
    from fedcopl_lab.paper import SEEDS, find_items, runs_of

    settings = parse_settings(options.settings)
    changes = {"device": options.device} | ({"precision": options.precision} if options.precision else {})
    if options.method or settings:
        found = [configure(options.profile, method=options.method or "FedCoPL", **(changes | settings))]
    else:
        profile = profile_name(options.profile)
        runs = runs_of(find_items(options.items), profile, SEEDS, device=options.device)
        found = [config for _, _, config in runs] or [configure(profile, device=options.device)]
    prompting = [config for config in found if isinstance(config, PromptConfig)]
    if options.precision:
        prompting = [replace(config, precision=options.precision) for config in prompting]
    if not prompting:
        raise FedCoPLError("none of these runs trains prompts; plan counts FedCoPL's methods only")
    return list(dict.fromkeys(prompting)), len(found) - len(prompting)
