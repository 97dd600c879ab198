"""Whole models: averaging, scoring in portions, running statistics measured again."""

import pytest
import torch

from fedcopl_lab import draw_resnet8
from fedcopl_lab.data import ChannelStatistics
from fedcopl_lab.steps import _model_scores, average_models, model_scores, recalibrate

PLAIN = ChannelStatistics(mean=torch.zeros(3), std=torch.ones(3))


def states(n):
    generator = torch.Generator().manual_seed(0)
    models = [draw_resnet8(4, 4, torch.Generator().manual_seed(k)) for k in range(n)]
    for k, model in enumerate(models):
        for _ in range(k + 1):
            model(torch.randn(6, 3, 8, 8, generator=generator))
    return [model.state_dict() for model in models]


def pictures(n=23):
    return torch.randint(0, 256, (n, 3, 8, 8), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


@pytest.mark.parametrize("weights", [[1] * 8, [3, 1, 4, 1, 5, 9, 2, 6], [55_000, 5_000, 0, 7, 7, 7, 7, 7]])
def test_averaging_equal_models_changes_nothing(weights):
    state = states(1)[0]
    mean = average_models([state] * 8, torch.tensor(weights))
    assert list(mean) == list(state)
    for name, value in state.items():
        assert mean[name].dtype == value.dtype
        assert torch.equal(mean[name], value), name


def test_average_is_the_weighted_sum_and_counters_are_truncated():
    several, weights = states(3), torch.tensor([1, 2, 5])
    mean = average_models(several, weights)
    for name, value in mean.items():
        expected = sum(float(w) / 8 * state[name].double() for w, state in zip(weights, several, strict=True))
        if value.is_floating_point():
            assert torch.allclose(value.double(), expected, atol=1e-7)
        else:
            assert int(value) == int(expected)  # (1 + 2 * 2 + 3 * 5) / 8 = 2.5 -> 2
    assert int(mean["norm.num_batches_tracked"]) == 2


def test_models_may_come_in_another_order_as_from_a_file():
    first, second = {"b": torch.zeros(1), "a": torch.ones(1)}, {"a": torch.zeros(1), "b": torch.ones(1)}
    mean = average_models([first, second], torch.tensor([1, 3]))
    assert list(mean.items()) == [("b", torch.tensor([0.75])), ("a", torch.tensor([0.25]))]


def test_refuses_no_model_and_different_models(refused):
    with refused("0 models", "at least one"):
        average_models([], torch.tensor([1]))
    with refused("different parameters"):
        average_models([{"a": torch.zeros(1)}, {"b": torch.zeros(1)}], torch.tensor([1, 1]))


def test_scores_in_portions_are_those_of_one_forward_pass(monkeypatch):
    model = draw_resnet8(4, 4, torch.Generator().manual_seed(0)).train()
    images = pictures()
    monkeypatch.setattr(_model_scores, "IMAGES_PER_FORWARD", 5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scores = model_scores(model, images, PLAIN)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        assert torch.allclose(scores, model.eval()(images.float() / 255), atol=1e-5)


def test_recalibrated_statistics_are_those_of_the_images(monkeypatch):
    model = draw_resnet8(4, 4, torch.Generator().manual_seed(0)).eval()
    images = pictures(20)
    parameters = {name: value.clone() for name, value in model.named_parameters()}
    buffers = recalibrate(model, images, PLAIN)
    assert not model.training
    assert all(torch.equal(value, parameters[name]) for name, value in model.named_parameters())
    stem = torch.nn.functional.conv2d(images.float() / 255, model.stem.weight, padding=1)
    assert torch.allclose(buffers["norm.running_mean"], stem.mean(dim=(0, 2, 3)), atol=1e-5)
    assert torch.allclose(buffers["norm.running_var"], stem.var(dim=(0, 2, 3)), atol=1e-4)
    assert model.norm.momentum == 0.1
    monkeypatch.setattr(_model_scores, "IMAGES_PER_FORWARD", 5)
    portions = recalibrate(model, images, PLAIN)
    assert int(portions["norm.num_batches_tracked"]) == 4
    assert torch.allclose(portions["norm.running_mean"], buffers["norm.running_mean"], atol=1e-5)
