"""``fedcopl-lab bench step``: what a training step costs here."""

import argparse
import itertools
import os
from pathlib import Path

import pandas as pd

from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.extras.bench.bench_files import csv_text, prepare, write_files

NAME = "ours_bench_step"


def bench(options: argparse.Namespace) -> int:
    """Time the cells that were asked for; write table, profile and picture."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler talks on stderr
    import torch

    from fedcopl_lab.engine import check_device, environment
    from fedcopl_lab.extras.bench import bench_step
    from fedcopl_lab.extras.bench.picture import draw_bench
    from fedcopl_lab.report.looks import file_bytes

    check_device(options.device)
    folder = prepare(options)
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
        write_atomic(folder / f"{NAME}.csv", csv_text(table))  # after each cell: an interrupted bench goes on from here
        write_atomic(folder / f"{NAME}_profile.csv", csv_text(parts))
    figure = draw_bench(table)
    written: dict[str, bytes | str] = {
        f"{NAME}.csv": csv_text(table),
        f"{NAME}_profile.csv": csv_text(parts),
        f"{NAME}.pdf": file_bytes(figure, "pdf"),
        f"{NAME}.png": file_bytes(figure, "png"),
        f"{NAME}.json": to_json({
            "item": NAME, "title": "One training step, plain form against ours", "command": "fedcopl-lab bench step",
            "weights": "random", "environment": environment(options.device, torch.get_num_threads()),
            "load_average": {"least": float(table["load"].min()), "most": float(table["load"].max())},
            "clock": sorted(set(table["clock"])), "repeats": sorted({int(n) for n in table["repeats"]}),
        }),
    }  # fmt: skip
    write_files(folder, written)
    return 0


def _read(path: Path, machine: dict[str, int] | None) -> pd.DataFrame:
    """Rows of an earlier bench of the same batch and threads; none without ``machine``."""
    if machine is None or not path.is_file():
        return pd.DataFrame()
    table = pd.read_csv(path)
    return table[(table["batch"] == machine["batch"]) & (table["threads"] == machine["threads"])]


def _of_cell(table: pd.DataFrame, backbone: str, classes: int) -> pd.DataFrame:
    return table if table.empty else table[(table["backbone"] == backbone) & (table["classes"] == classes)]
