"""The picture of ``bench step``: how much faster, and how close to what the machine can do."""

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    GREEN,
    ORANGE,
    PURPLE,
    QUIET,
    Picture,
    new_figure,
    percent_axis,
    style,
)

_NEEDED = ("backbone", "dtype", "classes", "speed_up", "share_of_ceiling", "memory_ratio", "batch", "threads", "device")
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


def draw_bench(table: pd.DataFrame) -> Picture:
    """Three panels over the number of classes: speed-up, peak memory and share of the matmul ceiling.

    Args:
        table: rows of ``bench step``.

    Raises:
        FedCoPLError: a table without the columns, or without rows.

    >>> draw_bench(pd.read_csv("figures/ours_bench_step.csv"))
    """
    missing = [name for name in _NEEDED if name not in table.columns]
    if missing or table.empty:
        raise FedCoPLError(f"the table has {len(table)} rows and lacks {missing}; pass the rows of `bench step`")
    panels = (
        ("speed_up", "times faster than the plain fp32 form", 1.0),
        ("memory_ratio", "peak memory over the plain form's", 1.0),
        ("share_of_ceiling", "minimal FLOPs per second over the ceiling", 1.0),
    )
    with style():
        figure = new_figure(DOUBLE, 2.3)
        for axes, (column, label, line) in zip(figure.subplots(1, 3), panels, strict=True):
            for colour, ((backbone, dtype), rows) in zip(
                _COLOURS * 4, table.groupby(["backbone", "dtype"]), strict=False
            ):
                rows = rows.sort_values("classes")
                axes.plot(rows["classes"], rows[column], marker="o", color=colour, label=f"{backbone} {dtype}")
            axes.axhline(line, color=QUIET, linewidth=0.8, linestyle=":")
            axes.set_xlabel("classes")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            percent_axis(axes)
        figure.axes[0].legend()
        one = table.iloc[0]
        figure.suptitle(
            f"One training step, {one['batch']} images, random weights, {one['device']}, {one['threads']} threads"
        )
    return figure
