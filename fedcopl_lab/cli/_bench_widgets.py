"""``fedcopl-lab bench widgets``: how long a move of each explorer takes here."""

import argparse
from pathlib import Path

import pandas as pd

from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.cli._reproduce import figures_folder

NAME = "ours_bench_widgets"


def bench(options: argparse.Namespace) -> int:
    """Time the explorers; write a table, a picture and where they come from."""
    import torch

    from fedcopl_lab.engine import environment
    from fedcopl_lab.report._style import file_bytes
    from fedcopl_lab.widgets import bench_widgets, draw_widget_bench

    if options.threads:
        torch.set_num_threads(options.threads)
    folder = Path(options.out) if options.out else figures_folder()
    print("one move of each explorer, from the new value to the finished picture, on made-up data")
    rows = []
    for timing in bench_widgets(options.clients, options.classes, options.images, options.moves):
        rows.append(timing.row())
        print(
            f"{timing.widget}, {timing.control}: {1000 * timing.seconds:.0f} ms, slowest {1000 * timing.worst:.0f} ms, "
            f"CPU {1000 * timing.seconds_cpu:.0f} ms; "
            f"a new figure {1000 * timing.seconds_new:.0f} ms of CPU",
            flush=True,
        )
    table = pd.DataFrame(rows)
    figure = draw_widget_bench(table)
    written: dict[str, bytes | str] = {
        f"{NAME}.csv": table.to_csv(index=False, float_format="%.6g", lineterminator="\n"),
        f"{NAME}.pdf": file_bytes(figure, "pdf"),
        f"{NAME}.png": file_bytes(figure, "png"),
        f"{NAME}.json": to_json({
            "item": NAME, "title": "One move of each explorer", "command": "fedcopl-lab bench widgets",
            "load_average": {"least": float(table["load"].min()), "most": float(table["load"].max())},
            "environment": environment("cpu", torch.get_num_threads()),
        }),
    }  # fmt: skip
    for name, content in written.items():
        write_atomic(folder / name, content)
    print(f"wrote {', '.join(written)} to {folder}")
    return 0
