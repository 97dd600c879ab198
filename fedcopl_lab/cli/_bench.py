"""``fedcopl-lab bench step`` and ``fedcopl-lab plan``: what a step costs here, and what a profile will cost."""

import argparse
import itertools
import os
from pathlib import Path

import pandas as pd

from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.cli._reproduce import figures_folder

NAME = "ours_bench_step"


def bench(options: argparse.Namespace) -> int:
    """Time the cells that were asked for; write table, profile and picture."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler talks on stderr
    import torch

    from fedcopl_lab.engine import bench_step, environment
    from fedcopl_lab.engine._local import check_device
    from fedcopl_lab.report import draw_bench
    from fedcopl_lab.report._style import file_bytes

    check_device(options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    folder = Path(options.out) if options.out else figures_folder()
    print("one training step, plain form (fp32) against ours; random weights: times mean something, logits do not")
    machine = {"batch": options.batch, "threads": torch.get_num_threads()}
    table, parts = (_read(folder / f"{NAME}{end}.csv", machine if options.resume else None) for end in ("", "_profile"))
    for backbone, classes in itertools.product(options.backbone, options.classes):
        there = _of_cell(table, backbone, classes)
        missing = [dtype for dtype in options.dtype if there.empty or dtype not in set(there["dtype"])]
        if not missing:
            print(f"{backbone} {classes:>3} classes: there already", flush=True)
            continue
        for timing, plain, ours in bench_step(
            [backbone], [classes], missing, options.batch, options.repeats, options.device
        ):
            cell = {"backbone": backbone, "classes": classes, "dtype": timing.dtype, **machine}
            seconds = [
                {**cell, "form": form, "kind": kind, "seconds": s}
                for form, kinds in (("plain", plain), ("ours", ours)) for kind, s in sorted(kinds.items())
            ]  # fmt: skip
            table = pd.concat([table, pd.DataFrame([timing.row()])], ignore_index=True)
            parts = pd.concat([parts, pd.DataFrame(seconds)], ignore_index=True)
            print(
                f"{backbone} {classes:>3} classes {timing.dtype}: {timing.seconds_plain:.3f} s -> "
                f"{timing.seconds:.3f} s, {timing.speed_up:.2f}x, memory x{timing.memory_ratio:.2f}, logits differ by "
                f"{timing.logit_difference:.1e}, {timing.gflop_per_second:.0f} of {timing.ceiling:.0f} GFLOP/s "
                f"({timing.share_of_ceiling:.0%})\n    {timing.reason}",
                flush=True,
            )
        write_atomic(folder / f"{NAME}.csv", _csv(table))  # after each cell: an interrupted bench goes on from here
        write_atomic(folder / f"{NAME}_profile.csv", _csv(parts))
    figure = draw_bench(table)
    written: dict[str, bytes | str] = {
        f"{NAME}.csv": _csv(table),
        f"{NAME}_profile.csv": _csv(parts),
        f"{NAME}.pdf": file_bytes(figure, "pdf"),
        f"{NAME}.png": file_bytes(figure, "png"),
        f"{NAME}.json": to_json({
            "item": NAME, "title": "One training step, plain form against ours", "command": "fedcopl-lab bench step",
            "weights": "random", "environment": environment(options.device, torch.get_num_threads()),
            "load_average": {"least": float(table["load"].min()), "most": float(table["load"].max())},
            "clock": sorted(set(table["clock"])), "repeats": sorted({int(n) for n in table["repeats"]}),
        }),
    }  # fmt: skip
    for name, content in written.items():
        write_atomic(folder / name, content)
    print(f"wrote {', '.join(written)} to {folder}")
    return 0


def _read(path: Path, machine: dict[str, int] | None) -> pd.DataFrame:
    """Rows of an earlier bench of the same batch and threads; none without ``machine``."""
    if machine is None or not path.is_file():
        return pd.DataFrame()
    table = pd.read_csv(path)
    return table[(table["batch"] == machine["batch"]) & (table["threads"] == machine["threads"])]


def _of_cell(table: pd.DataFrame, backbone: str, classes: int) -> pd.DataFrame:
    return table if table.empty else table[(table["backbone"] == backbone) & (table["classes"] == classes)]


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def plan(options: argparse.Namespace) -> int:
    """Say what the tables and figures of a profile will cost on this machine."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")
    from fedcopl_lab._identity import key_of
    from fedcopl_lab.config import configure
    from fedcopl_lab.engine import measure_rates, plan_run
    from fedcopl_lab.engine._local import check_device
    from fedcopl_lab.engine._plan import dataset_sizes, shape_of
    from fedcopl_lab.paper import SEEDS, find_items, runs_of

    check_device(options.device)
    profile = configure(options.profile).profile
    precision = options.precision
    items = find_items(options.items)
    configs = [config for _, _, config in runs_of(items, profile, SEEDS, device=options.device)]
    unique = list({key_of(config): config for config in configs}.values()) or [configure(profile)]
    for config in unique:
        shape_of(config)
    lines = []
    for config in unique:
        rates = measure_rates(
            config.clip, dataset_sizes(config.dataset)[2], device=options.device, precision=precision,
            batch=config.batch_size if config.clip == "tiny" else 16,
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
    print(f"profile {profile} on {options.device}, one run at a time, rates measured now with random weights")
    print(sums.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    print(
        f"{len(table)} runs, {table['PFLOP'].sum():.3g} PFLOP, {table['hours'].sum():.3g} hours, "
        f"at most {table['memory_gb'].max():.2g} GB of tensors"
    )
    return 0
