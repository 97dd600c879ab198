"""``fedcopl-lab plan``: what a profile, or one run, will cost on this machine or on another."""

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pandas as pd

from fedcopl_lab.cli._runs import parse_settings
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig

if TYPE_CHECKING:
    from fedcopl_lab.extras.bench.run_plan import RunPlan


def plan(options: argparse.Namespace) -> int:
    """Measure this machine for a few seconds, or take a rate, and say what the runs will cost."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler talks on stderr
    import torch

    from fedcopl_lab.engine import check_device
    from fedcopl_lab.extras.bench.run_plan import shape_of

    check_device(options.device)
    configs = _configs(options)
    for config in configs:
        if isinstance(config, PromptConfig):
            shape_of(config)  # a model that cannot be counted is refused before anything is measured
    lines = []
    for config in configs:
        torch.set_num_threads(config.threads)
        cost = _cost(config, options.rate)
        lines.append(
            {"model": _model(config), "dataset": config.dataset, "method": config.method, "runs": 1,
             "steps": cost.steps, "PFLOP": cost.flop / 1e15, "hours": cost.seconds / 3600,
             "memory_gb": cost.bytes / 1e9}
        )  # fmt: skip
    table = pd.DataFrame(lines)
    sums = table.groupby(["model", "dataset", "method"], as_index=False, sort=False).agg(
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
    return 0


def _cost(config: RunConfig, gflops: float | None) -> "RunPlan":
    from fedcopl_lab.extras.bench import measure_rates, plan_run, plan_semi_run
    from fedcopl_lab.extras.bench.rates import TIMED_IMAGES
    from fedcopl_lab.extras.bench.run_plan import dataset_sizes

    if isinstance(config, SageConfig):
        return plan_semi_run(config, gflops)
    assert isinstance(config, PromptConfig)
    rates = measure_rates(
        config.clip, dataset_sizes(config.dataset)[2], device=config.device, precision=config.precision,
        batch=config.batch_size if config.clip.startswith("tiny") else TIMED_IMAGES,
        clients=min(config.clients_per_forward, config.n_clients), gflops=gflops,
    )  # fmt: skip
    return plan_run(config, rates)


def _model(config: RunConfig) -> str:
    return f"ResNet-8 x{config.width:g}" if isinstance(config, SageConfig) else str(config.as_dict()["clip"])


def _configs(options: argparse.Namespace) -> list[RunConfig]:
    """The runs to plan, each once."""
    from fedcopl_lab.config import configure, profile_name
    from fedcopl_lab.paper import SEEDS, find_items, runs_of

    settings = parse_settings(options.settings)
    changes = {"device": options.device} | ({"precision": options.precision} if options.precision else {})
    found: list[RunConfig]
    if options.method or settings:
        found = [configure(options.profile, method=options.method or "FedCoPL", **(changes | settings))]
    else:
        profile = profile_name(options.profile)
        runs = runs_of(find_items(options.items), profile, SEEDS, device=options.device)
        found = [config for _, _, config in runs] or [configure(profile, device=options.device)]
    if options.precision:
        found = [_in_precision(config, options.precision) for config in found]
    return list(dict.fromkeys(found))


def _in_precision(config: RunConfig, precision: Literal["fp32", "bf16"]) -> RunConfig:
    if isinstance(config, PromptConfig | SageConfig):
        return replace(config, precision=precision)
    return config
