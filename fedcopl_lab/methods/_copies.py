"""Models of a run's shape: copied and overwritten, since making one anew takes longer than a step of a small one."""

import copy
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn

from fedcopl_lab.models import ResNet8, draw_resnet8


def blank_copy(n_classes: int, channels: int, bn_momentum: float, device: str, channels_last: bool) -> ResNet8:
    """A model whose values are to be overwritten, on its device and in its memory layout.

    >>> blank_copy(10, 16, 0.1, "cpu", channels_last=True).training
    True
    """
    return copy.deepcopy(_blank(n_classes, channels, bn_momentum, device, channels_last))


def placed(model: ResNet8, device: str, channels_last: bool) -> ResNet8:
    """The model on a device, in a memory layout."""
    model = model.to(device)
    return model.to(memory_format=torch.channels_last) if channels_last else model


@torch.no_grad()
def load_values(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Overwrite parameters and buffers, as ``load_state_dict`` does at several times the cost.

    Raises:
        RuntimeError: other names or shapes than the model's.

    >>> load_values(model, other.state_dict())
    """
    own = model.state_dict()
    if own.keys() == values.keys() and all(mine.shape == values[name].shape for name, mine in own.items()):
        torch._foreach_copy_(list(own.values()), [values[name] for name in own])
    else:
        model.load_state_dict(dict(values))  # tells what is wrong


def in_mode(model: nn.Module, training: bool) -> None:
    """Put a model into training or evaluation mode; free of cost when it is in it."""
    if model.training != training:
        model.train(training)


@lru_cache(maxsize=2)
def _blank(n_classes: int, channels: int, bn_momentum: float, device: str, channels_last: bool) -> ResNet8:
    return placed(draw_resnet8(n_classes, channels, bn_momentum=bn_momentum), device, channels_last)
