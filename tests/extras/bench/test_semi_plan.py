"""The plan of a semi-supervised run: its arithmetic, and steps and FLOPs beside those that really happen."""

import pytest

import fedcopl_lab as lab
from fedcopl_lab.extras.bench.plan import data_sizes, plan_run
from fedcopl_lab.extras.bench.rates import SageRates, measure_sage_rates

RATES = SageRates(
    step=2.0, score=0.01, client=0.5, step_flop=1e9, score_flop=1e6, step_bytes=1e9, score_bytes=1e5, model_bytes=1000,
    base_bytes=10**8,
)  # fmt: skip


def test_the_arithmetic_of_a_plan():
    plan = plan_run(lab.configure("paper", method="SAGE"), rates=RATES)
    visits = 300 * 8
    assert plan.steps == visits * 95
    assert plan.images_trained == plan.steps * 640
    assert plan.images_scored == visits * (2 * 512 + 512) + 300 * (10_000 + 512)
    assert plan.seconds == pytest.approx(plan.steps * 2 + plan.images_scored * 0.01 + visits * 0.5)
    assert plan.flop == plan.steps * 1e9 + plan.images_scored * 1e6
    assert 1e9 < plan.bytes < 2e9


@pytest.mark.parametrize(
    ("method", "changes", "steps"),
    [
        ("SAGE", {}, 7),
        ("SAGE", {"epoch_rule": "one_pass"}, 3),
        ("SAGE", {"steps_per_epoch": 4, "local_epochs": 2}, 8),
        ("SAGE", {"labelled_in_pool": False}, 6),
        ("FedAvg-SL", {"supervised_schedule": "labelled_epochs"}, 8),
        ("FedAvg", {"supervised_schedule": "labelled_epochs", "labelled_per_class": 10}, 1),
    ],
)
def test_steps_are_those_of_the_local_task(method, changes, steps):
    plan = plan_run(lab.configure("smoke", method=method, **changes), rates=RATES)
    assert plan.steps == 8 * 8 * steps


def test_sizes_need_no_data():
    assert data_sizes("svhn") == (73_257, 26_032, 10, 32)
    assert data_sizes("cifar10:600") == (500, 100, 10, 32)


@pytest.mark.parametrize("method", ["FedAvg", "FedAvg+FlexMatch", "FedMatch", "FedLabel", "FedDure", "SAGE"])
def test_every_kind_of_method_can_be_measured(method):
    rates = measure_sage_rates(lab.configure("smoke", method=method, width=0.25), side=8, repeats=1)
    assert min(rates.step, rates.score, rates.step_flop, rates.score_flop, rates.step_bytes) > 0
    assert rates.client >= 0


def test_flops_of_a_paper_step_and_another_machines_rate():
    config = lab.configure("paper", method="SAGE", width=0.25)
    rates = measure_sage_rates(config, side=32, gflops=100.0, repeats=1)
    forward = rates.score_flop
    # the stem needs no gradient of its images, so a step is a little less than 3 passes of 640 and one of 256
    assert 0.95 * forward * (3 * 640 + 256) < rates.step_flop < forward * (3 * 640 + 256)
    assert rates.step == rates.step_flop / 1e11
    with pytest.raises(lab.FedCoPLError, match=r"rate=0\.0; expected a positive number"):
        measure_sage_rates(config, side=32, gflops=0.0)
