"""``fedcopl-lab bench sage``: what a local step of SAGE costs here, plain against ours."""

import argparse
from typing import TYPE_CHECKING

import pandas as pd

from fedcopl_lab._files import to_json
from fedcopl_lab.extras.bench.bench_files import csv_text, prepare, write_files

if TYPE_CHECKING:
    from fedcopl_lab.extras.bench.sage_step import SageTiming

NAME = "ours_bench_sage"


def bench(options: argparse.Namespace) -> int:
    """Time the forms that were asked for; write a table and where it comes from."""
    import torch

    from fedcopl_lab.engine import check_device, environment
    from fedcopl_lab.extras.bench import bench_sage

    check_device(options.device)
    folder = prepare(options)
    print("one local step of SAGE from uint8 images to new parameters, plain form (fp32, Pillow) against ours")
    rows = []
    for width in options.width:
        for timing in bench_sage(
            width, options.dtype, options.batch, options.unlabelled, options.repeats, options.device,
            compiled=options.compile, exact=options.exact,
        ):  # fmt: skip
            rows.append(timing.row())
            print(
                f"width {width:g} {timing.dtype}: {timing.seconds_plain:.3f} s -> {timing.seconds:.3f} s, "
                f"{timing.speed_up:.2f}x, {timing.share_of_ceiling:.0%} of {timing.ceiling:.0f} GFLOP/s that matrix "
                f"products reach, of which views {timing.seconds_views:.3f} s; views differ by "
                f"{timing.view_difference:.1e}, parameters by {timing.parameter_difference:.1e} of the step"
                + _errors(timing),
                flush=True,
            )
    table = pd.DataFrame(rows)
    written: dict[str, bytes | str] = {
        f"{NAME}.csv": csv_text(table),
        f"{NAME}.json": to_json({
            "item": NAME, "title": "One local step of SAGE, plain form against ours",
            "command": "fedcopl-lab bench sage",
            "environment": environment(options.device, torch.get_num_threads()),
        }),
    }  # fmt: skip
    write_files(folder, written)
    return 0


def _errors(timing: "SageTiming") -> str:
    if timing.error is None or timing.error_plain is None:
        return ""
    return f"; from a step in float64: plain form {timing.error_plain:.1e}, ours {timing.error:.1e}"
