"""Whole models on the server: their average, and their scores of many images."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Real, UInt8
from torch import Tensor, nn

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import ChannelStatistics, normalise
from fedcopl_lab.steps._aggregate import aggregate
from fedcopl_lab.steps._confidence import check_logits

IMAGES_PER_FORWARD = 512

ModelState = Mapping[str, Tensor]
"""A model's parameters and buffers by name."""


def average_models(states: Sequence[ModelState], weights: Real[Tensor, "k"]) -> dict[str, Tensor]:
    """Average the clients' models, running statistics of batch normalisation included (SAGE Alg. 1, line 8).

    Args:
        states: one state dict per client, all with the same names and shapes.
        weights: weight of each client, 0 or more, [K]; they need not sum to 1.

    Returns:
        A state dict; whole numbers such as batch counters are averaged and truncated.

    Raises:
        FedCoPLError: no client, states with different names, or weights that cannot average.

    >>> average_models([{"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}], torch.tensor([1, 1]))
    {'w': tensor([2.])}

    Shown in notebook ``sage_step_by_step``.
    """
    if not states:
        raise FedCoPLError("average_models got 0 models; expected at least one")
    names = list(states[0])
    if any(list(state) != names for state in states):
        raise FedCoPLError("the clients' models have different parameters; expected one architecture for all")
    mean = {}
    for name in names:
        stacked = torch.stack([state[name] for state in states])
        if stacked.is_floating_point():
            mean[name] = aggregate(stacked, weights)
        else:
            mean[name] = aggregate(stacked.double(), weights).to(stacked.dtype)
    return mean


@torch.no_grad()
def model_scores(
    model: nn.Module, images: UInt8[Tensor, "n 3 h w"], statistics: ChannelStatistics
) -> Float[Tensor, "n c"]:
    """Scores of many images by a model in evaluation mode, in bounded portions; its mode is put back.

    Args:
        model: the model.
        images: uint8 images on the model's device, [n, 3, h, w].
        statistics: what to normalise with, on the same device.

    Raises:
        FedCoPLError: scores that are NaN or infinite, as of a model that training led astray.

    >>> model_scores(draw_resnet8(10), images, channel_statistics(dataset, "test")).shape[1]
    10
    """
    was_training = model.training
    if was_training:
        model.eval()
    portions = [model(normalise(part, statistics.mean, statistics.std)) for part in images.split(IMAGES_PER_FORWARD)]
    if was_training:
        model.train()
    scores = torch.cat(portions)
    check_logits(scores)
    return scores


@torch.no_grad()
def recalibrate(model: nn.Module, images: UInt8[Tensor, "n 3 h w"], statistics: ChannelStatistics) -> dict[str, Tensor]:
    """Running statistics of batch normalisation measured anew on some images; the model keeps them.

    Args:
        model: the model, whose parameters stay.
        images: uint8 images on its device, [n, 3, h, w].
        statistics: what to normalise with.

    Returns:
        The new buffers by name: plain averages over portions of equal size.

    >>> sorted(recalibrate(model, images, statistics))[0]
    'norm.num_batches_tracked'
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    before = [(norm.momentum, norm.training) for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average over the portions
    portions = max(len(images) // IMAGES_PER_FORWARD, 1)
    for part in images.tensor_split(portions):
        model(normalise(part, statistics.mean, statistics.std))
    for norm, (momentum, _) in zip(norms, before, strict=True):
        norm.momentum = momentum
    model.train(was_training)
    return {name: buffer.clone() for name, buffer in model.named_buffers()}
