"""What ``bench step`` found as a picture and as a table: how much faster, and how close to what the machine can do."""

from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import (
    BLUE,
    DASHED,
    DOUBLE,
    FAINT,
    GREEN,
    LOOKS,
    ORANGE,
    PURPLE,
    QUIET,
    Look,
    Picture,
    light_grid,
    new_figure,
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
_LOOKS = LOOKS[1:5]


def draw_bench(table: pd.DataFrame) -> Picture:
    """From rows of ``bench step``: speed-up, peak memory, share of the matmul ceiling, and where our time goes.

    Raises:
        FedCoPLError: a table without the columns, or without rows.
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
        models = list(dict.fromkeys(table["backbone"]))
        looks = [_look(models.index(rows["backbone"].iloc[0]), str(rows["dtype"].iloc[0])) for _, rows in groups]
        for axes, (column, label, line) in zip(grid.flat, panels, strict=False):
            for look, (name, rows) in zip(looks, groups, strict=True):
                axes.plot(rows["classes"], rows[column], label=name, **look.style)
            axes.set_xticks(sorted(set(table["classes"])))
            axes.axhline(line, color=QUIET, linewidth=0.8, linestyle=":")
            axes.set_xlabel("classes")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            light_grid(axes)
        _legend_above(grid[1, 0], columns=2)
        _where_time_goes(grid[1, 1], [(name, rows.iloc[-1]) for name, rows in groups])
        one = table.iloc[0]
        figure.suptitle(
            f"One training step, {one['batch']} images, random weights, {one['device']}, "
            f"{one['threads']} {'thread' if one['threads'] == 1 else 'threads'}"
        )
    return figure


def _look(model: int, dtype: str) -> Look:
    """A colour for each model; full lines for fp32, dashed ones with hollow marks for bf16."""
    look = _LOOKS[model % len(_LOOKS)]
    return replace(look, line="-") if dtype == "fp32" else replace(look, line=DASHED, hollow=True)


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
    light_grid(axes, "x")


def _legend_above(axes: Axes, columns: int, **look: float) -> None:
    axes.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.4, 1.0), columnspacing=1.0, **look)


def bench_markdown(table: pd.DataFrame) -> str:
    """A line for each model and number of classes of ``bench step``: seconds of both forms and types, their ratio."""
    lines = [
        "| model | classes | plain fp32 | ours fp32 | ours bf16 | of the matmul ceiling | peak memory | steps timed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (backbone, classes), rows in table.groupby(["backbone", "classes"]):
        fp32, bf16 = (rows[rows["dtype"] == dtype].iloc[0] for dtype in ("fp32", "bf16"))
        ours = [f"{row['seconds']:.1f} s, {row['speed_up']:.2f}×" for row in (fp32, bf16)]
        shares = f"{fp32['share_of_ceiling']:.0%}, {bf16['share_of_ceiling']:.0%}"
        memory = f"× {fp32['memory_ratio']:.2f}, × {bf16['memory_ratio']:.2f}"
        cells = (backbone, classes, f"{fp32['seconds_plain']:.1f} s", *ours, shares, memory, fp32["repeats"])
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)
