"""The SAGE bench compares equal things: same images, same random numbers, same step."""

import json

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.engine._bench_sage import bench_sage
from fedcopl_lab.engine._memory import keep_freed_memory, return_freed_memory

TINY = {"width": 0.25, "labelled": 4, "unlabelled": 8, "repeats": 1}


def test_both_forms_make_the_same_views_and_the_same_step():
    exact = next(bench_sage(**TINY, dtypes=["fp32"], channels_last=False))
    assert exact.view_difference < 1e-5
    assert exact.parameter_difference < 1e-3
    assert exact.speed_up == exact.seconds_plain / exact.seconds
    assert exact.seconds_views > 0
    assert exact.error is None
    layout = next(bench_sage(**TINY, dtypes=["fp32"], exact=True))
    assert 0 < layout.error < 1e-2
    assert 0 < layout.error_plain < 1e-2
    assert layout.parameter_difference <= layout.error + 1.01 * layout.error_plain


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        ({"dtypes": ["fp8"]}, "dtype 'fp8' is unknown"),
        ({"dtypes": []}, "nothing to time"),
        ({"repeats": 0}, "repeats=0; expected 1 or more"),
        ({"unlabelled": 1001}, "carry up to 1000"),
    ],
)
def test_refuses(change, saying):
    with pytest.raises(FedCoPLError, match=saying):
        next(bench_sage(**{**TINY, **change}))


def test_memory_settings_can_be_switched_both_ways():
    assert keep_freed_memory() == return_freed_memory() == keep_freed_memory()


def test_the_command_writes_a_table(tmp_path, capsys):
    options = ["--width", "0.25", "--dtype", "fp32", "--batch", "4", "--unlabelled", "8", "--repeats", "1"]
    assert main(["bench", "sage", *options, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "ours_bench_sage.csv")
    assert table["dtype"].tolist() == ["fp32"]
    assert json.loads((tmp_path / "ours_bench_sage.json").read_text())["command"] == "fedcopl-lab bench sage"
    assert "views differ by" in capsys.readouterr().out
