"""The picture of ``bench step``: how much faster, and how close to what the machine can do."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    FAINT,
    GREEN,
    ORANGE,
    PURPLE,
    QUIET,
    Look,
    Picture,
    new_figure,
    percent_axis,
    style,
)

_KINDS = {
    "matmul": ("matrix products", BLUE),
    "attention": ("attention", ORANGE),
    "norms": ("norms, activations", GREEN),
    "copies": ("copies, casts", PURPLE),
    "other": ("rest", FAINT),
}
_NEEDED = ("backbone", "dtype", "classes", "speed_up", "share_of_ceiling", "memory_ratio", "batch", "threads", "device",
           *_KINDS)  # fmt: skip
_LOOKS = (Look(BLUE, "o"), Look(ORANGE, "s", "--"), Look(GREEN, "v", ":"), Look(PURPLE, "^", "-."))


def draw_bench(table: pd.DataFrame) -> Picture:
    """Speed-up, peak memory and share of the matmul ceiling over the number of classes, and where our time goes.

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
        ("speed_up", "speed-up over\nthe plain fp32 form", 1.0),
        ("memory_ratio", "peak memory over\nthe plain form's", 1.0),
        ("share_of_ceiling", "minimal FLOPs per second\nover the matmul ceiling", 1.0),
    )
    with style():
        figure = new_figure(DOUBLE, 4.4)
        grid = figure.subplots(2, 2)
        groups = [(f"{backbone} {dtype}", rows.sort_values("classes"))
                  for (backbone, dtype), rows in table.groupby(["backbone", "dtype"])]  # fmt: skip
        for axes, (column, label, line) in zip(grid.flat, panels, strict=False):
            for look, (name, rows) in zip(_LOOKS * len(groups), groups, strict=False):
                axes.plot(rows["classes"], rows[column], marker=look.marker, linestyle=look.line, color=look.color,
                          label=name)  # fmt: skip
            axes.set_xticks(sorted(set(table["classes"])))
            axes.axhline(line, color=QUIET, linewidth=0.8, linestyle=":")
            axes.set_xlabel("classes")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            percent_axis(axes)
        _legend_above(grid[1, 0], columns=2)
        _where_time_goes(grid[1, 1], [(name, rows.iloc[-1]) for name, rows in groups])
        one = table.iloc[0]
        figure.suptitle(
            f"One training step, {one['batch']} images, random weights, {one['device']}, "
            f"{one['threads']} {'thread' if one['threads'] == 1 else 'threads'}"
        )
    return figure


def _where_time_goes(axes: Axes, rows: list[tuple[str, Any]]) -> None:
    """One bar for each model and type, at its largest number of classes."""
    names = [f"{name}\n{row['classes']} classes" for name, row in rows]
    left = [0.0] * len(rows)
    for column, (label, colour) in _KINDS.items():
        widths = [100 * float(row[column]) for _, row in rows]
        axes.barh(names, widths, left=left, color=colour, height=0.6, label=label)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of our step's time")
    _legend_above(axes, columns=3, handlelength=1.0)
    percent_axis(axes, "x")


def _legend_above(axes: Axes, columns: int, **look: float) -> None:
    axes.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.4, 1.0), columnspacing=1.0, **look)
