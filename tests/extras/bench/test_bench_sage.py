"""The SAGE bench compares equal things: same images, same random numbers, same step."""

import json

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.engine._memory import keep_freed_memory, return_freed_memory
from fedcopl_lab.extras.bench.sage_step import bench_sage

TINY = {"width": 0.25, "labelled": 4, "unlabelled": 8, "repeats": 1}


def test_both_forms_make_the_same_views_and_the_same_step():
    exact = next(bench_sage(**TINY, dtypes=["fp32"], channels_last=False))
    assert exact.view_difference < 1e-5
    assert exact.parameter_difference < 1e-3
    assert exact.speed_up == exact.seconds_plain / exact.seconds
    assert exact.seconds_views > 0
    assert exact.gflop == pytest.approx(_gflop_by_hand(), rel=0.01)
    assert exact.gflop_per_second == exact.gflop / exact.seconds
    assert exact.share_of_ceiling == exact.gflop_per_second / exact.ceiling
    assert exact.error is None
    layout = next(bench_sage(**TINY, dtypes=["fp32"], exact=True))
    assert 0 < layout.error < 1e-2
    assert 0 < layout.error_plain < 1e-2
    assert layout.parameter_difference <= layout.error + 1.01 * layout.error_plain


def _gflop_by_hand(images=4 + 8 + 8, scored=8, channels=4):
    """Each convolution forward, by its inputs and by its weights; the stem has no inputs to differentiate by."""
    stem = 32 * 32 * 3 * channels * 9
    layers = 2 * 32 * 32 * channels**2 * 9
    for side, wide in ((16, 2 * channels), (8, 4 * channels)):
        layers += side * side * (wide // 2 * wide * 9 + wide**2 * 9 + wide // 2 * wide)
    head = 4 * channels * 10
    forward = stem + layers + head
    return 2e-9 * (images * (2 * stem + 3 * (layers + head)) + scored * forward)


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
