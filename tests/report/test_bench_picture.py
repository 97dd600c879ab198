"""The picture of ``bench step`` shows every cell and where the time goes."""

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.bench.picture import bench_markdown, draw_bench


def made_up():
    """Two models with two numbers of classes each."""
    shares = {"matmul": 0.5, "attention": 0.2, "norms": 0.15, "copies": 0.1, "other": 0.05}
    rows = [
        {"backbone": backbone, "dtype": "fp32", "classes": classes, "speed_up": 2.0, "share_of_ceiling": 0.8,
         "memory_ratio": 0.4, "batch": 64, "threads": 1, "device": "cpu", **shares}
        for backbone in ("A", "B") for classes in (200, 10)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_every_model_has_a_line_in_three_panels_and_a_whole_bar():
    speed, memory, share, where = draw_bench(made_up()).axes
    for axes, value in ((speed, 2.0), (memory, 0.4), (share, 0.8)):
        lines = [line for line in axes.lines if line.get_marker() not in ("None", None)]
        assert [list(line.get_xdata()) for line in lines] == [[10, 200], [10, 200]]
        assert {float(y) for line in lines for y in line.get_ydata()} == {value}
    assert sum(bar.get_width() for bar in where.patches) == pytest.approx(2 * 100)
    assert [label.get_text() for label in where.get_yticklabels()] == ["A fp32\n200 classes", "B fp32\n200 classes"]


def test_refuses_a_table_without_what_it_draws():
    with pytest.raises(FedCoPLError, match=r"lacks \['attention'\]"):
        draw_bench(made_up().drop(columns="attention"))


def test_a_step_of_both_types_stands_in_one_line() -> None:
    common = {"backbone": "ViT-B-32", "classes": 47, "seconds_plain": 11.47, "repeats": 7}
    rows = pd.DataFrame([
        {**common, "dtype": "bf16", "seconds": 2.93, "speed_up": 3.918, "share_of_ceiling": 0.82,
         "memory_ratio": 0.228},
        {**common, "dtype": "fp32", "seconds": 5.89, "speed_up": 1.947, "share_of_ceiling": 0.89,
         "memory_ratio": 0.383},
    ])  # fmt: skip
    head, _, line = bench_markdown(rows).splitlines()
    assert line == "| ViT-B-32 | 47 | 11.5 s | 5.9 s, 1.95× | 2.9 s, 3.92× | 89%, 82% | × 0.38, × 0.23 | 7 |"
    assert head.count("|") == line.count("|")
