"""The plan of a run: its arithmetic, and steps and FLOPs beside those that really happen."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
from PIL import Image

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.cli._machine import on_this_machine
from fedcopl_lab.extras.bench import data_sizes, measure_rates, measure_sage_rates, plan_run
from fedcopl_lab.extras.bench.plan import on_card, plan_card
from fedcopl_lab.extras.bench.rates import Rates, SageRates
from fedcopl_lab.paper import find_items, keys_by_cell, runs_of

SIZES = (1000, 200, 10, 224)
RATES = Rates(
    image_step=0.01, text_step=0.1, image_forward=0.004, text_forward=0.04, stem=0.001,
    image_bytes=1e6, text_bytes=1e7, score_bytes=2e5, base_bytes=5 * 10**8, model_bytes=10**8, token_bytes=10**5,
)  # fmt: skip
SAGE_RATES = SageRates(
    step=2.0, score=0.01, client=0.5, step_flop=1e9, score_flop=1e6, step_bytes=1e9, score_bytes=1e5, model_bytes=1000,
    base_bytes=10**8,
)  # fmt: skip


def test_plan_counts_steps_images_and_time():
    config = lab.configure("paper", rounds=10, n_clients=5, method="FedCoPL")
    plan = plan_run(config, RATES, sizes=SIZES, selected_share=0.5)
    assert plan.steps == 10 * 10 * 5 * 2  # 100 images of each client in batches of 64
    assert plan.images_trained == 10 * 10 * 5 * 100
    assert plan.images_scored == 1000 + 10 * 200 + 1200  # one relabelling, ten tests, zero-shot once
    texts = 5 * 11 + 1
    assert plan.seconds == pytest.approx(50000 * 0.01 + 1000 * 0.1 + 4200 * 0.004 + texts * 0.04 + 2400 * 0.001)
    training, scoring = 64 * 1e6 + 1e7, 256 * 2e5  # one step, or one forward pass of 256 images
    assert plan.bytes == 6 * 10**8 + 1200 * 10**5 + max(training, scoring)
    together = plan_run(config=replace(config, clients_per_forward=5), rates=RATES, sizes=SIZES)
    assert together.bytes == 6 * 10**8 + 1200 * 10**5 + 5 * (64 * 1e6 + 1e7)


def test_plan_of_sage_counts_steps_images_and_time():
    plan = plan_run(lab.configure("paper", method="SAGE"), SAGE_RATES)
    visits = 300 * 8
    assert plan.steps == visits * 95
    assert plan.images_trained == plan.steps * 640
    assert plan.images_scored == visits * (2 * 512 + 512) + 300 * (10_000 + 512)
    assert plan.seconds == pytest.approx(plan.steps * 2 + plan.images_scored * 0.01 + visits * 0.5)
    assert plan.flop == plan.steps * 1e9 + plan.images_scored * 1e6
    assert 1e9 < plan.bytes < 2e9
    config = lab.configure("paper", method="SAGE", labelled_per_class=50, labelled_in_pool=False)
    few, many = (plan_run(config, SAGE_RATES, sizes=(10_000, 200, n, 32)).steps for n in (10, 100))
    assert few > many, "labelled_per_class counts the classes at hand"


def test_every_run_of_the_paper_profile_fits_a_card(monkeypatch):
    monkeypatch.setattr("fedcopl_lab.extras.bench.plan.data_sizes", cache(data_sizes))
    for config in {config for _, _, config in runs_of(find_items(["all"]), "paper", [0])}:
        for gigabytes in (24, 80):
            plan = plan_card(config, gigabytes)
            assert plan.fits, (config.label, plan)
            assert plan.gigabytes <= 0.9 * gigabytes


def test_large_sets_wait_in_memory_and_clients_fill_the_card():
    large = lab.configure("paper", dataset="resisc45", clip="ViT-B-16")
    assert plan_card(large, 24).in_memory == pytest.approx(19.1, abs=0.1)
    assert plan_card(large, 80).in_memory == 0.0
    assert plan_card(lab.configure("paper", clip="RN50"), 24).in_memory == pytest.approx(24.6, abs=0.1)
    together = [on_card(lab.configure("paper"), n).clients_per_forward for n in (12, 24, 80)]
    assert together == sorted(together)
    assert together[-1] == 10
    assert not plan_card(lab.configure("paper", clip="ViT-B-16"), 4).fits
    sage = lab.configure("paper", method="SAGE")
    assert on_card(sage, 80) == sage
    assert plan_card(sage, 24).gigabytes < 10


def test_runs_planned_on_a_card_fill_it_and_are_found_again(monkeypatch):
    item = find_items(["fedcopl_main_table3"])[0]
    assert all(run.clients_per_forward == 1 for _, run in item.runs("paper", [0], machine=on_this_machine("cuda")))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(total_memory=80 * 10**9))
    monkeypatch.setattr("fedcopl_lab.paper._collect.key_of", lambda config: config)  # without the data
    monkeypatch.setattr("fedcopl_lab.paper._collect.has_key", lambda config: True)
    known, planned = keys_by_cell(item, "paper", cards=True), item.runs("paper", [0], machine=on_this_machine("cuda"))
    for cell, config in planned:
        assert config == on_card(replace(cell.config, device="cuda"), 80)
        assert config in known[cell.series, cell.column]
        assert replace(config, device="cpu") not in known[cell.series, cell.column]
    assert max(config.clients_per_forward for _, config in planned) == 10
    smoke = item.cells("smoke")[0].config
    assert on_this_machine("cuda")(smoke) == replace(smoke, device="cuda")


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
    with pytest.raises(FedCoPLError, match=r"rate=0\.0; expected a positive number"):
        measure_sage_rates(lab.configure("smoke", method="SAGE"), side=8, gflops=0.0)


def test_a_plan_counts_what_a_trainer_trains():
    def seconds(**changes):
        return plan_run(lab.configure("paper", rounds=10, n_clients=5, **changes), RATES, sizes=SIZES).seconds

    both = seconds(method="PromptFL")  # 1000 steps, 94 images of each client, 56 text encodings
    assert seconds(method="FedOTP") == pytest.approx(both + 1000 * 0.1 + 55 * 0.04)
    assert seconds(method="PromptFL", modalities="visual") == pytest.approx(both - 1000 * 0.1)
    assert seconds(method="PromptFL", modalities="text") == pytest.approx(both - 47000 * 0.01 + 4700 * 0.004)


@pytest.mark.parametrize(
    ("method", "changes", "steps"),
    [
        ("SAGE", {}, 8),
        ("SAGE", {"steps_per_epoch": None}, 14),
        ("SAGE", {"steps_per_epoch": None, "epoch_rule": "one_pass"}, 4),
        ("SAGE", {"steps_per_epoch": 4, "local_epochs": 2}, 8),
        ("SAGE", {"steps_per_epoch": None, "labelled_in_pool": False, "labelled_per_class": 16}, 12),
        ("FedAvg-SL", {"supervised_schedule": "labelled_epochs"}, 15),
        ("FedAvg", {"supervised_schedule": "labelled_epochs", "labelled_per_class": 10}, 2),
    ],
)
def test_steps_are_those_of_the_local_task(method, changes, steps):
    plan = plan_run(lab.configure("smoke", method=method, **changes), SAGE_RATES)
    assert plan.steps == 50 * 4 * steps


def test_rates_are_measured():
    rates = measure_rates("tiny", 10, batch=8, repeats=1)
    assert all(value > 0 for value in vars(rates).values())
    assert rates.token_bytes == 17 * 64 * 4


@pytest.mark.parametrize("clip", ["tiny", "tiny-rn"])
def test_a_given_rate_replaces_the_measured_times(clip):
    slow, fast = (measure_rates(clip, 10, batch=4, clients=2, gflops=rate) for rate in (50.0, 100.0))
    config = lab.configure("smoke", clip=clip)
    assert plan_run(config, slow).seconds == pytest.approx(2 * plan_run(config, fast).seconds)
    assert plan_run(config, slow).seconds == pytest.approx(plan_run(config, slow).flop / 50e9, rel=0.1)
    assert plan_run(config, slow).bytes == plan_run(config, fast).bytes


@pytest.mark.long
@pytest.mark.parametrize("method", ["FedAvg", "FedAvg+FlexMatch", "FedMatch", "FedLabel", "FedDure", "SAGE"])
def test_every_kind_of_method_can_be_measured(method):
    rates = measure_sage_rates(lab.configure("mini", method=method, width=0.25, start="drawn"), side=8, repeats=1)
    assert min(rates.step, rates.score, rates.step_flop, rates.score_flop, rates.step_bytes) > 0
    assert rates.client >= 0


def test_flops_of_a_paper_step_and_another_machines_rate():
    config = lab.configure("paper", method="SAGE", width=0.25)
    rates = measure_sage_rates(config, side=32, gflops=100.0, repeats=1)
    forward = rates.score_flop
    # the stem needs no gradient of its images, so a step is a little less than 3 passes of 640 and one of 256
    assert 0.95 * forward * (3 * 640 + 256) < rates.step_flop < forward * (3 * 640 + 256)
    assert rates.step == rates.step_flop / 1e11


def test_sizes_need_no_data_but_those_of_a_folder(tmp_path):
    assert data_sizes("cifar10:300") == (250, 50, 10, 32)
    assert data_sizes("svhn") == (73_257, 26_032, 10, 32)
    for name in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "one.png")
    assert data_sizes(f"folder:{tmp_path}") == (2, 2, 2, 224)


def test_plan_command_plans_one_run_with_settings(capsys):
    settings = ["--set", "dataset=cifar10:300", "--set", "rounds=1", "--set", "clip=tiny", "--rate", "100"]
    assert main(["plan", "--profile", "paper", *settings]) == 0
    shown = capsys.readouterr().out
    assert "at 100 GFLOP/s" in shown
    assert "cifar10:300" in shown
    assert main(["plan", "--method", "SAGE", "--set", "width=0.25"]) == 0
    shown = capsys.readouterr().out
    assert "ResNet-8 x0.25" in shown
    assert "1600" in shown  # 50 rounds of 4 clients with 8 steps each


def test_plan_command_counts_a_cards_memory_at_the_precision_asked_for(capsys):
    shown = []
    for precision in ("fp32", "bf16"):
        main(["plan", "--profile", "paper", "--items", "sage_supp_fig14", "--memory", "24", "--precision", precision])
        shown.append(float(capsys.readouterr().out.split()[-2]))
    assert shown[0] > 1.3 * shown[1]


def test_plan_command_says_runs_hours_and_memory(capsys):
    assert main(["plan", "--items", "fedcopl_supp_fig3"]) == 0
    shown = capsys.readouterr().out
    assert "runs" in shown
    assert "hours" in shown
    assert main(["plan", "--profile", "huge"]) == 2
