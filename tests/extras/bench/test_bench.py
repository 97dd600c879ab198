"""The benches compare equal things: same images, same random numbers, same step; and say what they did."""

import json
import sys

import pandas as pd
import pytest
import torch

from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.engine import keep_freed_memory, profiled, return_freed_memory
from fedcopl_lab.extras.bench import bench_sage, bench_step, bench_widgets, draw_widget_bench
from fedcopl_lab.extras.bench.prompt_step import class_names

STEP = {"backbones": ["tiny"], "classes": [2], "dtypes": ["fp32"]}
SAGE = {"width": 0.25, "labelled": 4, "unlabelled": 8, "repeats": 1}


def test_bench_step_measures_both_forms_and_they_agree():
    cells = list(bench_step(["tiny"], [3], ["fp32", "bf16"], batch=4, repeats=2))
    assert [(t.classes, t.dtype) for t, _, _ in cells] == [(3, "fp32"), (3, "bf16")]
    for timing, plain, ours in cells:
        assert timing.logit_difference < (1e-4 if timing.dtype == "fp32" else 0.5)
        assert timing.gradient_difference < (1e-3 if timing.dtype == "fp32" else 0.2)
        assert timing.speed_up == timing.seconds_plain / timing.seconds
        assert 0 < timing.memory < timing.memory_plain
        assert timing.share_of_ceiling == pytest.approx(timing.gflop_per_second / timing.ceiling)
        shares = (timing.matmul, timing.attention, timing.norms, timing.copies, timing.other)
        assert sum(shares) == pytest.approx(1)
        assert min(shares) > 0
        assert f"{timing.matmul:.0%} of the time are the layers' matrix products" in timing.reason
        assert timing.clock in ("cpu", "wall")
        assert plain["matrix products"] > 0
        assert ours["matrix products"] > 0


def test_both_forms_make_the_same_views_and_the_same_step():
    exact = next(bench_sage(**SAGE, dtypes=["fp32"], channels_last=False))
    assert exact.view_difference < 1e-5
    assert exact.parameter_difference < 1e-3
    assert exact.speed_up == exact.seconds_plain / exact.seconds
    assert exact.seconds_views > 0
    assert exact.gflop == pytest.approx(_gflop_by_hand(), rel=0.01)
    assert exact.gflop_per_second == exact.gflop / exact.seconds
    assert exact.share_of_ceiling == exact.gflop_per_second / exact.ceiling
    assert exact.error is None
    layout = next(bench_sage(**SAGE, dtypes=["fp32"], exact=True))
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


def test_class_names_differ():
    assert len(set(class_names(200))) == 200


@pytest.mark.parametrize(
    ("bench", "settings", "change", "saying"),
    [
        (bench_step, STEP, {"backbones": ["big"]}, "backbone='big' is unknown"),
        (bench_step, STEP, {"dtypes": ["fp8"]}, "dtype='fp8' is unknown"),
        (bench_step, STEP, {"classes": [0]}, "classes=0; expected 1 to 220"),
        (bench_step, STEP, {"batch": 0}, "batch=0; expected 1 or more"),
        (bench_step, STEP, {"repeats": 0}, "repeats=0"),
        (bench_step, STEP, {"classes": []}, "nothing to time"),
        (bench_sage, SAGE, {"dtypes": ["fp8"]}, "dtype='fp8' is unknown"),
        (bench_sage, SAGE, {"dtypes": []}, "nothing to time"),
        (bench_sage, SAGE, {"repeats": 0}, "repeats=0; expected 1 or more"),
        (bench_sage, SAGE, {"unlabelled": 1001}, "carry up to 1000"),
        (bench_widgets, {}, {"clients": 1}, "clients=1; expected 2 or more"),
    ],
)
def test_benches_refuse(bench, settings, change, saying):
    with pytest.raises(FedCoPLError, match=saying):
        next(bench(**{**settings, **change}))


def test_peak_memory_counts_what_is_alive_at_once_and_the_profiler_is_silent(capfd):
    def work():
        a = torch.ones(250_000)  # 1 MB
        b = a + 1
        del a
        return b + 1

    peak, kinds = profiled(work, "cpu")
    assert 2e6 <= peak < 2.2e6
    assert sum(kinds.values()) > 0
    assert capfd.readouterr().err == ""


def test_memory_settings_are_for_glibc_and_can_be_switched_both_ways(monkeypatch):
    assert keep_freed_memory() == return_freed_memory() == keep_freed_memory()
    keep_freed_memory.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
    keep_freed_memory.cache_clear()


@pytest.mark.long
def test_bench_step_writes_table_and_picture_and_goes_on_from_its_table(tmp_path, capsys):
    arguments = ["bench", "step", "--backbone", "tiny", "--dtype", "fp32", "--batch", "4", "--repeats", "1"]
    assert main([*arguments, "--classes", "5", "--out", str(tmp_path)]) == 0
    assert "random weights" in capsys.readouterr().out
    first = pd.read_csv(tmp_path / "ours_bench_step.csv")
    assert (len(first), set(pd.read_csv(tmp_path / "ours_bench_step_profile.csv")["form"])) == (1, {"plain", "ours"})
    assert (tmp_path / "ours_bench_step.pdf").stat().st_size > 0
    origin = json.loads((tmp_path / "ours_bench_step.json").read_text())
    assert origin["weights"] == "random"
    assert origin["load_average"]["most"] >= 0
    on_a_card = first.assign(classes=6, device="a card")
    pd.concat([first, on_a_card]).to_csv(tmp_path / "ours_bench_step.csv", index=False)
    assert main([*arguments, "--classes", "5", "6", "--out", str(tmp_path), "--resume"]) == 0
    assert "5 classes: there already" in capsys.readouterr().out
    both = pd.read_csv(tmp_path / "ours_bench_step.csv")
    assert both[["classes", "device"]].to_numpy().tolist() == [[5, "cpu"], [6, "cpu"]]
    pd.testing.assert_frame_equal(both[:1], first, check_dtype=False)
    assert main([*arguments, "--device", "tpu"]) == main(["bench", "step", "--backbone", "huge"]) == 2


def test_steps_of_several_clients_have_sizes_of_their_own(capsys):
    for ignored in (["--width", "1"], ["--batch", "4"], ["--dtype", "fp32"]):
        assert main(["bench", "sage", "--clients", "2", *ignored]) == 2
        assert f"{ignored[0]} would do nothing beside --clients" in capsys.readouterr().err


@pytest.mark.long
def test_bench_sage_writes_a_table(tmp_path, capsys):
    options = ["--width", "0.25", "--dtype", "fp32", "--batch", "4", "--unlabelled", "8", "--repeats", "1"]
    assert main(["bench", "sage", *options, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "ours_bench_sage.csv")
    assert table["dtype"].tolist() == ["fp32"]
    assert json.loads((tmp_path / "ours_bench_sage.json").read_text())["command"] == "fedcopl-lab bench sage"
    assert "views differ by" in capsys.readouterr().out
    clients = ["--clients", "2", "--method", "SAGE", "FedDure", "--repeats", "1"]
    assert main(["bench", "sage", *clients, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "ours_bench_sage_together.csv")
    assert table["method"].tolist() == 3 * ["SAGE"] + 3 * ["FedDure"]
    assert (table[["seconds_alone", "seconds"]] > 0).all(axis=None)


@pytest.mark.long
def test_bench_widgets_writes_its_table_and_picture(tmp_path, capsys):
    sizes = ["--clients", "2", "--classes", "3", "--images", "20", "--moves", "2"]
    assert main(["bench", "widgets", *sizes, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "ours_bench_widgets.csv")
    assert table["widget"].tolist() == ["thresholds", "allocation", "kappa", "partition", "rounds"]
    assert (table["seconds"] > 0).all()
    assert (table["worst"] >= table["seconds"]).all()
    assert (tmp_path / "ours_bench_widgets.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "ours_bench_widgets.json").read_text())["command"] == "fedcopl-lab bench widgets"
    assert "a new figure" in capsys.readouterr().out
    with pytest.raises(FedCoPLError, match="lacks"):
        draw_widget_bench(pd.DataFrame({"widget": ["x"]}))
