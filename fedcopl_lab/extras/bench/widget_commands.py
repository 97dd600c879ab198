"""``fedcopl-lab bench widgets``: how long a move of each explorer takes here."""

import argparse

import pandas as pd

from fedcopl_lab._files import to_json
from fedcopl_lab.extras.bench.bench_files import csv_text, prepare, write_files

NAME = "ours_bench_widgets"


def bench(options: argparse.Namespace) -> int:
    """Time the explorers; write a table, a picture and where they come from."""
    import torch

    from fedcopl_lab.engine import environment
    from fedcopl_lab.extras.bench import bench_widgets, draw_widget_bench
    from fedcopl_lab.report.looks import file_bytes

    folder = prepare(options)
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
        f"{NAME}.csv": csv_text(table),
        f"{NAME}.pdf": file_bytes(figure, "pdf"),
        f"{NAME}.png": file_bytes(figure, "png"),
        f"{NAME}.json": to_json({
            "item": NAME, "title": "One move of each explorer", "command": "fedcopl-lab bench widgets",
            "load_average": {"least": float(table["load"].min()), "most": float(table["load"].max())},
            "environment": environment("cpu", torch.get_num_threads()),
        }),
    }  # fmt: skip
    write_files(folder, written)
    return 0
