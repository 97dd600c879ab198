"""The bench compares equal things, and the plan's arithmetic is that of a run."""

import json
import sys
from dataclasses import replace

import pandas as pd
import pytest
import torch
from PIL import Image

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.engine._memory import keep_freed_memory, profiled
from fedcopl_lab.extras.bench.plan import data_sizes, plan_run
from fedcopl_lab.extras.bench.prompt_step import bench_step, class_names
from fedcopl_lab.extras.bench.rates import Rates, measure_rates

RATES = Rates(
    image_step=0.01, text_step=0.1, image_forward=0.004, text_forward=0.04, stem=0.001,
    image_bytes=1e6, text_bytes=1e7, score_bytes=2e5, base_bytes=5 * 10**8, model_bytes=10**8, token_bytes=10**5,
)  # fmt: skip


def test_bench_step_measures_both_forms_and_they_agree():
    cells = list(bench_step(["tiny"], [3, 12], ["fp32", "bf16"], batch=4, repeats=2))
    assert [(t.classes, t.dtype) for t, _, _ in cells] == [(3, "fp32"), (3, "bf16"), (12, "fp32"), (12, "bf16")]
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


def test_class_names_differ():
    assert len(set(class_names(200))) == 200


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        ({"backbones": ["big"]}, "backbone 'big' is unknown"),
        ({"dtypes": ["fp8"]}, "dtype 'fp8' is unknown"),
        ({"classes": [0]}, "classes=0; expected 1 to 220"),
        ({"batch": 0}, "batch=0; expected 1 or more"),
        ({"repeats": 0}, "repeats=0"),
        ({"classes": []}, "nothing to time"),
    ],
)
def test_bench_refuses(change, saying):
    with pytest.raises(FedCoPLError, match=saying):
        next(bench_step(**{"backbones": ["tiny"], "classes": [2], "dtypes": ["fp32"], **change}))


def test_peak_memory_counts_what_is_alive_at_once():
    def work():
        a = torch.ones(250_000)  # 1 MB
        b = a + 1
        del a
        return b + 1

    peak, kinds = profiled(work, "cpu")
    assert 2e6 <= peak < 2.2e6
    assert sum(kinds.values()) > 0


def test_keeping_freed_memory_is_for_glibc_only(monkeypatch):
    keep_freed_memory.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
    keep_freed_memory.cache_clear()


def test_plan_counts_steps_images_and_time():
    config = lab.configure("paper", rounds=10, n_clients=5, method="FedCoPL")
    plan = plan_run(config, RATES, sizes=(1000, 200, 10, 224), selected_share=0.5)
    assert plan.steps == 10 * 10 * 5 * 2  # 100 images of each client in batches of 64
    assert plan.images_trained == 10 * 10 * 5 * 100
    assert plan.images_scored == 1000 + 10 * 200 + 1200  # one relabelling, ten tests, zero-shot once
    texts = 5 * 11 + 1
    assert plan.seconds == pytest.approx(50000 * 0.01 + 1000 * 0.1 + 4200 * 0.004 + texts * 0.04 + 2400 * 0.001)
    training = (200 + 100) * 10**5 + 64 * 1e6 + 1e7  # a client's images, the selected once more, one step
    scoring = 200 * 10**5 + 256 * 2e5  # the tests, and one forward pass of 256 images
    assert plan.bytes == 6 * 10**8 + 1200 * 10**5 + max(training, scoring)
    together = plan_run(config=replace(config, clients_per_forward=5), rates=RATES, sizes=(1000, 200, 10, 224))
    assert together.bytes == 6 * 10**8 + 1200 * 10**5 + 5 * (294 * 10**5 + 64 * 1e6 + 1e7)


def test_plan_gives_the_petaflops_of_the_paper_runs():
    plan = plan_run(lab.configure("paper", dataset="dtd"), RATES)
    assert plan.flop / 1e15 == pytest.approx(4.7, rel=0.15)
    assert plan.steps == pytest.approx(6000, rel=0.05)


def test_plan_refuses_what_it_cannot_count():
    with pytest.raises(FedCoPLError, match="the FLOPs of 'RN101' are not counted"):
        plan_run(lab.configure("paper", clip="RN101"), RATES)
    with pytest.raises(FedCoPLError, match="the FLOPs of 'RN101' are not counted"):
        measure_rates("RN101", 10)
    with pytest.raises(FedCoPLError, match="expected a positive number of GFLOP"):
        measure_rates("tiny", 10, gflops=-1.0)
    with pytest.raises(FedCoPLError, match="the size of data set 'mnist' is not known"):
        plan_run(lab.configure("paper", dataset="mnist"), RATES)


def test_a_plan_counts_what_a_trainer_trains():
    def seconds(**changes):
        return plan_run(
            lab.configure("paper", rounds=10, n_clients=5, **changes), RATES, sizes=(1000, 200, 10, 224)
        ).seconds

    both = seconds(method="PromptFL")  # 1000 steps, 94 images of each client, 56 text encodings
    assert seconds(method="FedOTP") == pytest.approx(both + 1000 * 0.1 + 55 * 0.04)
    assert seconds(method="PromptFL", modalities="visual") == pytest.approx(both - 1000 * 0.1)
    assert seconds(method="PromptFL", modalities="text") == pytest.approx(both - 47000 * 0.01 + 4700 * 0.004)


def test_rates_are_measured():
    rates = measure_rates("tiny", 10, batch=8, repeats=1)
    assert all(value > 0 for value in vars(rates).values())
    assert rates.token_bytes == 17 * 96 * 4


@pytest.mark.parametrize("clip", ["tiny", "tiny-rn"])
def test_a_given_rate_replaces_the_measured_times(clip):
    slow, fast = (measure_rates(clip, 10, batch=4, clients=2, gflops=rate) for rate in (50.0, 100.0))
    config = lab.configure("smoke", clip=clip)
    assert plan_run(config, slow).seconds == pytest.approx(2 * plan_run(config, fast).seconds)
    assert plan_run(config, slow).seconds == pytest.approx(plan_run(config, slow).flop / 50e9, rel=0.1)
    assert plan_run(config, slow).bytes == plan_run(config, fast).bytes


def test_the_size_of_a_part_and_of_a_folder(tmp_path):
    assert data_sizes("cifar10:300") == (250, 50, 10, 32)
    for name in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "one.png")
    assert data_sizes(f"folder:{tmp_path}") == (2, 2, 2, 224)


def test_bench_command_writes_table_and_picture(tmp_path, capsys):
    arguments = ["bench", "step", "--backbone", "tiny", "--classes", "5", "--dtype", "fp32", "--batch", "4"]
    assert main([*arguments, "--repeats", "1", "--out", str(tmp_path)]) == 0
    assert "random weights" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "ours_bench_step.csv")) == 1
    assert set(pd.read_csv(tmp_path / "ours_bench_step_profile.csv")["form"]) == {"plain", "ours"}
    assert (tmp_path / "ours_bench_step.pdf").stat().st_size > 0
    assert json.loads((tmp_path / "ours_bench_step.json").read_text())["weights"] == "random"
    assert json.loads((tmp_path / "ours_bench_step.json").read_text())["load_average"]["most"] >= 0
    assert main([*arguments, "--device", "tpu"]) == 2
    assert main(["bench", "step", "--backbone", "huge"]) == 2


def test_bench_command_goes_on_from_its_table(tmp_path, capsys):
    arguments = ["bench", "step", "--backbone", "tiny", "--batch", "4", "--repeats", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--classes", "5", "--dtype", "fp32"]) == 0
    first = pd.read_csv(tmp_path / "ours_bench_step.csv")
    capsys.readouterr()
    assert main([*arguments, "--classes", "5", "6", "--dtype", "fp32", "--resume"]) == 0
    assert "5 classes: there already" in capsys.readouterr().out
    both = pd.read_csv(tmp_path / "ours_bench_step.csv")
    assert both["classes"].tolist() == [5, 6]
    pd.testing.assert_frame_equal(both[:1], first, check_dtype=False)


def test_plan_command_plans_one_run_with_settings(capsys):
    settings = ["--set", "dataset=cifar10:300", "--set", "rounds=1", "--set", "clip=tiny", "--rate", "100"]
    assert main(["plan", "--profile", "paper", *settings]) == 0
    shown = capsys.readouterr().out
    assert "at 100 GFLOP/s" in shown
    assert "cifar10:300" in shown
    assert main(["plan", "--method", "SAGE", "--set", "width=0.25"]) == 0
    shown = capsys.readouterr().out
    assert "ResNet-8 x0.25" in shown
    assert "448" in shown  # 8 rounds of 8 clients with 7 steps each


def test_plan_command_says_runs_hours_and_memory(capsys):
    assert main(["plan", "--items", "fedcopl_supp_fig3"]) == 0
    shown = capsys.readouterr().out
    assert "runs" in shown
    assert "hours" in shown
    assert main(["plan", "--profile", "huge"]) == 2
