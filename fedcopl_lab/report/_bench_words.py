"""The table of ``bench step`` as text, for the README."""

import pandas as pd


def bench_markdown(table: pd.DataFrame) -> str:
    """A line for each model and number of classes: seconds of a step in both forms and types, and their ratio.

    Args:
        table: rows of ``bench step``, both types of each model and number of classes.

    >>> print(bench_markdown(pd.read_csv("figures/ours_bench_step.csv")))
    | model | classes | plain fp32 | ours fp32 | ours bf16 | of the matmul ceiling | peak memory | steps timed |...
    """
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
