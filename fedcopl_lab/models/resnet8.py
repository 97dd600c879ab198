"""ResNet-8, SAGE's classifier: three stages of one basic block, freshly drawn or with a trained body."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import EMBEDDED_FOLDER, read_checked
from fedcopl_lab.data import read_manifest_table

START = "resnet8-cifar100"
"""Trained weights in the package that a run can start from."""

Model = TypeVar("Model", bound=nn.Module)
_SAFE_CHANNELS = 16
_STAGES = ((1, 1), (2, 2), (4, 2))  # (channels in units of the stem's, stride)


class Convolution(nn.Conv2d):
    """A convolution that goes around two faults of oneDNN, torch's library for CPUs.

    Without instructions for bf16 it takes a loop, seven times as long as float32: here operands are rounded to bf16,
    multiplied in float32 and the result rounded, as instructions do. Where a 1x1 convolution of few channels skips
    pixels, its weights' gradient overwrites other memory (oneDNN issue 6035): here the pixels are left out before.
    """

    def forward(self, images: Tensor) -> Tensor:
        """[n, inputs, h, w] -> [n, outputs, h / stride, w / stride]."""
        stride = self.stride
        if self.kernel_size == (1, 1) and self.groups == 1 and self.in_channels < _SAFE_CHANNELS:
            images, stride = images[..., :: stride[0], :: stride[1]], (1, 1)
        if torch.is_autocast_enabled("cpu") and not has_bf16_instructions():
            with torch.autocast("cpu", enabled=False):
                rounded = images.bfloat16().float(), self.weight.bfloat16().float()
                return F.conv2d(*rounded, None, stride, self.padding, 1, self.groups).bfloat16()
        return F.conv2d(images, self.weight, None, stride, self.padding, 1, self.groups)


class Block(nn.Module):
    """Two 3x3 convolutions with batch normalisation, and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int, bn_momentum: float, groups: int = 1) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, outputs, 3, stride, groups)
        self.norm1 = nn.BatchNorm2d(outputs, momentum=bn_momentum)
        self.conv2 = _conv(outputs, outputs, 3, 1, groups)
        self.norm2 = nn.BatchNorm2d(outputs, momentum=bn_momentum)
        changes = inputs != outputs or stride != 1
        self.shortcut: nn.Module = (
            nn.Sequential(_conv(inputs, outputs, 1, stride, groups), nn.BatchNorm2d(outputs, momentum=bn_momentum))
            if changes
            else nn.Identity()
        )

    def forward(self, images: Tensor) -> Tensor:
        """[n, inputs, h, w] -> [n, outputs, h / stride, w / stride]."""
        inner = F.relu(self.norm1(self.conv1(images)), inplace=True)
        return F.relu(self.norm2(self.conv2(inner)).add_(self.shortcut(images)), inplace=True)


class ResNet8(nn.Module):
    """SAGE's network: a stem, three stages of 1, 2 and 4 times its channels, average pooling, a linear head.

    Args:
        n_classes: number of classes C.
        channels: channels of the stem; SAGE's width factor 4 gives 64.
        bn_momentum: weight of the newest batch in the running statistics.

    Raises:
        FedCoPLError: fewer than 2 classes or 1 channel.

    >>> sum(p.numel() for p in ResNet8(n_classes=10, channels=64).parameters())
    1227594
    """

    def __init__(self, n_classes: int, channels: int = 64, bn_momentum: float = 0.1, _models: int = 1) -> None:
        super().__init__()
        if n_classes < 2 or channels < 1:
            raise FedCoPLError(f"ResNet8 with {n_classes} classes and {channels} channels; expected 2 or more, and 1")
        self.stem = _conv(3 * _models, channels * _models, 3, 1, _models)
        self.norm = nn.BatchNorm2d(channels * _models, momentum=bn_momentum)
        inputs, blocks = channels, []
        for factor, stride in _STAGES:
            blocks.append(Block(inputs * _models, factor * channels * _models, stride, bn_momentum, _models))
            inputs = factor * channels
        self.stages = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, n_classes * _models)

    def features(self, images: Float[Tensor, "n colours h w"]) -> Float[Tensor, "n d"]:
        """Pooled features, [n, 3, h, w] -> [n, 4 * channels]."""
        stem = F.relu(self.norm(self.stem(images)), inplace=True)
        return self.stages(stem).mean(dim=(2, 3))

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c"]:
        """Class scores, [n, 3, h, w] -> [n, C]."""
        return self.head(self.features(images))

    def compile(self, **options: Any) -> None:
        """As of any module; on a card its passes become CUDA graphs."""
        super().compile(**({"mode": "reduce-overhead"} if self.head.weight.is_cuda else {}) | options)

    def train(self, mode: bool = True) -> Any:
        """As of any module, in a tenth of the time: a round changes modes dozens of times."""
        _set_mode(self, mode)
        return self


class StackedResNet8(ResNet8):
    """Several clients' ResNet-8s in one forward pass: convolutions in groups, statistics and heads apart.

    Its state is that of the single models, one after the other along the first dimension.

    Args:
        clients: how many models K.
        n_classes: number of classes C.
        channels: channels of each stem.
        bn_momentum: weight of the newest batch in the running statistics.

    >>> StackedResNet8(2, n_classes=10, channels=8)(torch.zeros(5, 6, 8, 8)).shape
    torch.Size([2, 5, 10])
    """

    def __init__(self, clients: int, n_classes: int, channels: int = 64, bn_momentum: float = 0.1) -> None:
        super().__init__(n_classes, channels, bn_momentum, clients)
        self.clients = clients

    def forward(self, images: Float[Tensor, "n colours h w"]) -> Float[Tensor, "k n c"]:
        """Class scores by client, [n, K * 3, h, w] -> [K, n, C]; the clients' images lie side by side as channels."""
        features = self.features(images).unflatten(1, (self.clients, -1)).transpose(0, 1)
        weight = self.head.weight.unflatten(0, (self.clients, -1)).transpose(1, 2)
        return torch.baddbmm(self.head.bias.view(self.clients, 1, -1), features, weight)


def stacked_values(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The state of a :class:`StackedResNet8` from those of single models; counters of batches are the first one's."""
    return {
        name: torch.cat([one[name] for one in states]) if first.ndim else first for name, first in states[0].items()
    }


def single_values(state: Mapping[str, Tensor], clients: int) -> list[dict[str, Tensor]]:
    """The states of several models, the inverse of :func:`stacked_values`; carries gradients.

    >>> states = [draw_resnet8(10, channels=4).state_dict() for _ in range(3)]
    >>> [len(one["norm.weight"]) for one in single_values(stacked_values(states), 3)]
    [4, 4, 4]
    """
    parts = {name: value.chunk(clients) if value.ndim else (value,) * clients for name, value in state.items()}
    return [{name: of_clients[client] for name, of_clients in parts.items()} for client in range(clients)]


def draw_resnet8(
    n_classes: int, channels: int = 64, generator: torch.Generator | None = None, bn_momentum: float = 0.1
) -> ResNet8:
    """A freshly drawn ResNet-8 (SAGE Sec. 5.1, released code).

    Convolutions are He-normal by their outputs (variance 2 / (k² outputs)), the head is uniform in
    ±1/sqrt(inputs), batch normalisation starts as the identity.

    Args:
        n_classes: number of classes C.
        channels: channels of the stem; SAGE's width factor 4 gives 64.
        generator: draws the weights; None draws from seed 0.
        bn_momentum: weight of the newest batch in the running statistics.

    Raises:
        FedCoPLError: fewer than 2 classes or 1 channel.

    >>> draw_resnet8(10, channels=8)(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 10])

    Shown in notebook ``sage_step_by_step``.
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    with torch.device("meta"):  # layers draw from the global generator when made; these are not drawn at all
        empty = ResNet8(n_classes, channels, bn_momentum)
    model = empty.to_empty(device="cpu")
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
                module.weight.normal_(0, math.sqrt(2 / fan_out), generator=generator)
            elif isinstance(module, nn.BatchNorm2d):
                module.reset_parameters()
            elif isinstance(module, nn.Linear):
                bound = 1 / math.sqrt(module.in_features)
                module.weight.uniform_(-bound, bound, generator=generator)
                module.bias.uniform_(-bound, bound, generator=generator)
    return model


def start_resnet8(
    name: str, n_classes: int, channels: int = 64, generator: torch.Generator | None = None, bn_momentum: float = 0.1
) -> ResNet8:
    """The ResNet-8 that a run starts from: a drawn head on a drawn body, or on trained weights of the package.

    Args:
        name: ``"drawn"``, or that of the weights, such as ``"resnet8-cifar100"``.
        n_classes, channels, generator, bn_momentum: as :func:`draw_resnet8` takes them.

    Raises:
        FedCoPLError: unknown or damaged weights, or weights of another width.

    >>> start_resnet8("resnet8-cifar100", 10, channels=32).head.out_features
    10
    """
    model = draw_resnet8(n_classes, channels, generator, bn_momentum)
    if name != "drawn":
        body = _trained_body(name)
        if (own := len(body["stem.weight"])) != channels:
            raise FedCoPLError(f"start={name!r} has {own} channels in its stem, not {channels}; set width={own / 16}")
        load_values(model, model.state_dict() | body)
    return model


@lru_cache(maxsize=2)
def _trained_body(name: str) -> dict[str, Tensor]:
    """Everything but the head."""
    if name != START:
        raise FedCoPLError(f"start={name!r} is unknown, expected 'drawn' or {START!r}; choose one of these")
    content = read_checked(EMBEDDED_FOLDER / f"{name}.safetensors", str(read_manifest_table(name)["sha256"]), name)
    return {one: value.float() for one, value in load_safetensors(content).items() if not one.startswith("head.")}


def placed(model: ResNet8, device: str, channels_last: bool) -> ResNet8:
    """The model on a device, in a memory layout."""
    model = model.to(device)
    return model.to(memory_format=torch.channels_last) if channels_last else model


def blank_copy(n_classes: int, channels: int, bn_momentum: float, device: str, channels_last: bool) -> ResNet8:
    """A model whose values are to be overwritten; copying one is faster than drawing one.

    >>> blank_copy(10, 16, 0.1, "cpu", channels_last=True).training
    True
    """
    return _copied(_blank(n_classes, channels, bn_momentum, device, channels_last))


@torch.no_grad()
def load_values(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Overwrite parameters and buffers, as ``load_state_dict`` does at several times the cost.

    Raises:
        RuntimeError: other names or shapes than the model's.

    >>> load_values(draw_resnet8(10, channels=4), draw_resnet8(10, channels=4).state_dict())
    """
    own = dict(_own_values(model))
    if own.keys() == values.keys() and all(mine.shape == values[name].shape for name, mine in own.items()):
        torch._foreach_copy_(list(own.values()), [values[name] for name in own])
    else:
        model.load_state_dict(dict(values))  # raises an error that says what is wrong


def _own_values(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """What ``state_dict`` of a model without hooks holds, three times as fast."""
    for name, value in (module._parameters | module._buffers).items():
        if value is not None:
            yield prefix + name, value
    for name, child in module._modules.items():
        yield from _own_values(child, f"{prefix}{name}.")  # type: ignore[arg-type]


def _set_mode(module: nn.Module, training: bool) -> None:
    module.__dict__["training"] = training
    for child in module._modules.values():
        _set_mode(child, training)  # type: ignore[arg-type]


def _copied(module: Model) -> Model:
    """What ``copy.deepcopy`` gives of a model without hooks, six times as fast; methods copy models in every round."""
    made: dict[str, Any] = {
        "_parameters": lambda value: nn.Parameter(value.detach().clone(), value.requires_grad),
        "_buffers": torch.clone,
        "_modules": _copied,
    }
    own = copy.copy(module)
    own.__dict__ = module.__dict__ | {
        kind: {name: value if value is None else make(value) for name, value in getattr(module, kind).items()}
        for kind, make in made.items()
    }
    return own


@lru_cache(maxsize=2)
def _blank(n_classes: int, channels: int, bn_momentum: float, device: str, channels_last: bool) -> ResNet8:
    return placed(draw_resnet8(n_classes, channels, bn_momentum=bn_momentum), device, channels_last)


@lru_cache
def has_bf16_instructions() -> bool:
    """Whether torch's convolutions use instructions of the processor for bf16."""
    return bool(torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _conv(inputs: int, outputs: int, size: int, stride: int, groups: int = 1) -> Convolution:
    return Convolution(inputs, outputs, size, stride=stride, padding=size // 2, bias=False, groups=groups)
