"""Where a run may compute in less than float32: in training passes, and nowhere else."""

import pytest
import torch
from small_semi import config_of

from fedcopl_lab import configure
from fedcopl_lab._card import tf32_in
from fedcopl_lab.methods import RECIPES, LocalTask, SemiSetting, open_method
from fedcopl_lab.models import PromptedCLIP, ResNet8


@pytest.fixture
def allowed(monkeypatch):
    """Function: from now on write down, per call of a class's method, whether TF32 is allowed."""

    def watch(owner, name, switches):
        calls, real = [], getattr(owner, name)

        def noted(self, *args, **kwargs):
            calls.append((torch.is_grad_enabled(), switches()))
            return real(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, noted)
        return calls

    return watch


def convolutions():
    return torch.backends.cudnn.allow_tf32


def products():
    return torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize("kind", ["SAGE", "FedMatch", "prompts"])
def test_training_alone_uses_tf32(kind, precision, allowed, small):
    if kind == "prompts":
        method, watched = open_method(small(precision=precision)), (PromptedCLIP, "image_features", products)
    else:
        method = open_method(config_of(kind, precision=precision, steps_per_epoch=2))
        watched = ResNet8, "forward", convolutions
    state = method.round(method.initial_state()).state  # FedMatch's helpers come after a round
    calls = allowed(*watched)
    method.round(state)
    assert {switch for learns, switch in calls if learns} == {precision == "tf32"}
    assert {switch for learns, switch in calls if not learns} == {False}


def test_the_switches_are_put_back():
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32

    @tf32_in(convolutions=True, matrices=True)
    def stops():
        assert convolutions()
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stops()
    assert before == (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)


def test_scores_without_gradient_stay_in_float32_under_bf16():
    pairs = []
    for precision in ("fp32", "bf16"):
        setting = SemiSetting.of(config_of("SAGE", precision=precision))
        task = LocalTask(setting, RECIPES["SAGE"], 0, 0, dict(setting.new_model().state_dict()))
        views = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        known = task.global_scores(views), task.eval_scores(task.model, views)
        pairs.append((*known, task.scores(task.model, views)))  # in training mode, last: it moves the statistics
    (global_, local, trained), (low_global, low_local, low_trained) = pairs
    assert torch.equal(global_, low_global)
    assert torch.equal(local, low_local)
    assert not torch.equal(trained, low_trained)


def test_the_released_code_of_sage_computes_convolutions_in_tf32_on_a_card():
    assert configure("paper", method="SAGE", mode="authors", device="cuda").precision == "tf32"
    assert configure("paper", method="SAGE", mode="authors").precision == "fp32"
