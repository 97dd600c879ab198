"""ResNet-8: the paper's parameter counts and shapes, and weights that only its generator decides."""

import copy
import math

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from fedcopl_lab import FedCoPLError, ResNet8, draw_resnet8
from fedcopl_lab._files import EMBEDDED_FOLDER
from fedcopl_lab.models import blank_copy, load_values, resnet8, start_resnet8
from fedcopl_lab.models.resnet8 import START


def test_parameters_and_buffers_at_width_4():
    assert [sum(p.numel() for p in ResNet8(n, 64).parameters()) for n in (10, 100)] == [1_227_594, 1_250_724]
    buffers = dict(ResNet8(10, 64).named_buffers())
    counters = [name for name in buffers if name.endswith("num_batches_tracked")]
    assert len(counters) == 9
    assert sum(b.numel() for name, b in buffers.items() if name not in counters) == 2_688


def test_shapes_and_multiplications_layer_by_layer():
    model, seen, work = draw_resnet8(10, 64).eval(), [], []

    def note(module, inputs, output):
        if isinstance(module, nn.Conv2d):
            seen.append((module.in_channels, module.out_channels, module.kernel_size[0], output.shape[-1]))
            work.append(output[0].numel() * module.in_channels * module.kernel_size[0] ** 2)

    for module in model.modules():
        module.register_forward_hook(note)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    assert model.features(torch.zeros(2, 3, 32, 32)).shape == (2, 256)
    assert seen[:9] == [
        (3, 64, 3, 32), (64, 64, 3, 32), (64, 64, 3, 32),
        (64, 128, 3, 16), (128, 128, 3, 16), (64, 128, 1, 16),
        (128, 256, 3, 8), (256, 256, 3, 8), (128, 256, 1, 8),
    ]  # fmt: skip
    assert sum(work[:9]) / 1e6 == pytest.approx(194.7, abs=0.1)
    of_stage = {name: sum(p.numel() for p in part.parameters()) for name, part in model.stages.named_children()}
    assert of_stage == {"0": 73_728 + 256, "1": 229_376 + 768, "2": 917_504 + 1_536}


def plain_forward(state, images):
    """The network written out from its state dict, in evaluation mode."""

    def norm(x, name):
        mean, var, weight, bias = (
            state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, weight, bias)

    x = F.relu(norm(F.conv2d(images, state["stem.weight"], padding=1), "norm"))
    for i, stride in enumerate((1, 2, 2)):
        block = f"stages.{i}"
        inner = F.relu(norm(F.conv2d(x, state[f"{block}.conv1.weight"], stride=stride, padding=1), f"{block}.norm1"))
        inner = norm(F.conv2d(inner, state[f"{block}.conv2.weight"], padding=1), f"{block}.norm2")
        if i:
            x = norm(F.conv2d(x, state[f"{block}.shortcut.0.weight"], stride=stride), f"{block}.shortcut.1")
        x = F.relu(inner + x)
    return F.linear(F.avg_pool2d(x, x.shape[-1]).flatten(1), state["head.weight"], state["head.bias"])


@pytest.mark.parametrize("side", [8, 32])
def test_forward_is_the_one_written_out(side):
    model = draw_resnet8(5, 6, torch.Generator().manual_seed(1)).double()
    generator = torch.Generator().manual_seed(2)
    for _ in range(3):  # running statistics away from their start
        model(torch.randn(8, 3, side, side, generator=generator, dtype=torch.float64))
    images = torch.randn(4, 3, side, side, generator=generator, dtype=torch.float64)
    expected = plain_forward(model.state_dict(), images)
    assert torch.allclose(model.eval()(images), expected, atol=1e-12)


@pytest.mark.parametrize(("channels", "strides"), [(4, (1, 1)), (8, (1, 2)), (16, (2, 2))])
def test_shortcuts_of_few_channels_skip_pixels_before_they_multiply(channels, strides, monkeypatch):
    plain, asked = F.conv2d, []
    monkeypatch.setattr(F, "conv2d", lambda *given: asked.append((given[1].shape[-1], *given[3])) or plain(*given))
    draw_resnet8(5, channels)(torch.zeros(2, 3, 8, 8))
    assert [size[1] for size in asked if size[0] == 1] == list(strides)


def test_bf16_without_instructions_multiplies_rounded_operands_and_rounds_the_result(monkeypatch):
    monkeypatch.setattr(resnet8, "has_bf16_instructions", lambda: False)
    conv, images = draw_resnet8(10, 8).stages[1].conv1, torch.randn(4, 8, 8, 8, requires_grad=True)
    rounded = [one.detach().bfloat16().double().requires_grad_() for one in (images, conv.weight)]
    with torch.autocast("cpu", torch.bfloat16):
        result = conv(images)
    exact, slopes = F.conv2d(*rounded, stride=2, padding=1), torch.randn(result.shape).bfloat16()
    torch.autograd.backward([result, exact], [slopes, slopes.double()])
    assert result.dtype == torch.bfloat16
    pairs = [(result, exact), (images.grad, rounded[0].grad), (conv.weight.grad, rounded[1].grad)]
    assert all(torch.allclose(got.double(), expected, rtol=2**-8, atol=1e-6) for got, expected in pairs)


def test_weights_come_from_the_generator_alone():
    torch.manual_seed(5)
    first = draw_resnet8(10, 8, torch.Generator().manual_seed(3)).state_dict()
    torch.manual_seed(6)
    before = torch.get_rng_state()
    second = draw_resnet8(10, 8, torch.Generator().manual_seed(3)).state_dict()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = draw_resnet8(10, 8, torch.Generator().manual_seed(4)).state_dict()
    assert not torch.equal(first["stem.weight"], other["stem.weight"])


def test_weights_have_the_scale_of_he():
    state = draw_resnet8(10, 64, torch.Generator().manual_seed(0)).state_dict()
    weight = state["stages.2.conv2.weight"]
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / (9 * 256)), rel=0.01)
    assert float(weight.mean().abs()) < 1e-4
    assert float(state["head.weight"].abs().max()) <= 1 / 16
    assert torch.equal(state["norm.weight"], torch.ones(64))
    assert torch.equal(state["norm.running_var"], torch.ones(64))
    assert int(state["norm.num_batches_tracked"]) == 0


@pytest.mark.parametrize(("n_classes", "channels"), [(1, 8), (10, 0)])
def test_refuses_sizes_that_cannot_be(n_classes, channels):
    with pytest.raises(FedCoPLError, match=f"{n_classes} classes and {channels} channels; expected"):
        ResNet8(n_classes, channels)


def test_a_blank_copy_is_a_deep_one_that_shares_nothing():
    first, second = (blank_copy(10, 8, 0.5, "cpu", channels_last=True) for _ in range(2))
    expected = copy.deepcopy(first).state_dict()
    load_values(first, draw_resnet8(10, 8, torch.Generator().manual_seed(7), 0.5).state_dict())
    first.eval().requires_grad_(False)
    assert list(second.state_dict()) == list(expected)
    assert all(torch.equal(expected[name], value) for name, value in second.state_dict().items())
    assert all(expected[name].stride() == value.stride() for name, value in second.state_dict().items())
    assert all(module.training for module in second.modules())
    assert second.train(False) is second
    assert not any(module.training for module in second.modules())
    assert all(value.requires_grad for value in second.parameters())


def test_a_start_is_the_packaged_body_under_a_drawn_head():
    packaged = load_file(EMBEDDED_FOLDER / f"{START}.safetensors")
    for seed in (1, 2):
        made = start_resnet8(START, 10, 32, torch.Generator().manual_seed(seed), 0.5)
        drawn = start_resnet8("drawn", 10, 32, torch.Generator().manual_seed(seed)).state_dict()
        for name, value in made.state_dict().items():
            body = name in packaged and not name.startswith("head.")
            assert torch.equal(value, packaged[name].float() if body else drawn[name]), name
            assert value.dtype == drawn[name].dtype
        assert (made.training, made.norm.momentum) == (True, 0.5)
        made.stem.weight.data.zero_()  # what is kept in memory is not the model's


def test_a_start_of_another_width_or_name_is_refused():
    with pytest.raises(FedCoPLError, match=rf"start='{START}' has 32 channels in its stem, not 8; set width=2\.0"):
        start_resnet8(START, 10, 8)
    with pytest.raises(FedCoPLError, match=f"start='mini' is unknown, expected 'drawn' or '{START}'; choose"):
        start_resnet8("mini", 10, 32)
