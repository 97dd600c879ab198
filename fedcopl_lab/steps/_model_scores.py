"""Scores of many images by a whole model, and its batch statistics."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from fedcopl_lab.data import ChannelStatistics, normalise
from fedcopl_lab.steps._confidence import check_logits

IMAGES_PER_FORWARD = 512


@torch.no_grad()
def model_scores(
    model: nn.Module, images: UInt8[Tensor, "n channels h w"], statistics: ChannelStatistics
) -> Float[Tensor, "*clients n c"]:
    """Scores of many images by a model in evaluation mode, in batches of 512; its mode is restored.

    Args:
        model: the model, or several in one, whose images lie side by side as channels.
        images: uint8 images on the model's device, [n, 3, h, w].
        statistics: what to normalise with, on the same device.

    Raises:
        FedCoPLError: scores that are NaN or infinite, as after a training that diverged.

    >>> digits = lab.load_dataset("digits")
    >>> statistics = lab.data.channel_statistics(digits, "test")
    >>> model_scores(lab.draw_resnet8(10, channels=4), digits.images[:3], statistics).shape
    torch.Size([3, 10])
    """
    parts = images.split(IMAGES_PER_FORWARD)
    with in_mode(model, training=False):
        scores = torch.cat([model(normalise(part, statistics.mean, statistics.std)) for part in parts], dim=-2)
    check_logits(scores.flatten(end_dim=-2))
    return scores


@torch.no_grad()
def batch_scores(
    model: nn.Module, images: UInt8[Tensor, "n channels h w"], statistics: ChannelStatistics
) -> Float[Tensor, "*clients n c"]:
    """Scores of some images by a model that normalises them with their own statistics, as it does in training.

    Arguments are those of :func:`model_scores`; all images form one batch, and of fewer than two there are no
    statistics, so that the running ones are taken. The model's mode and running statistics stay as they are.

    >>> digits = lab.load_dataset("digits")
    >>> statistics = lab.data.channel_statistics(digits, "test")
    >>> batch_scores(lab.draw_resnet8(10, channels=4), digits.images[:3], statistics).shape
    torch.Size([3, 10])
    """
    if len(images) < 2:
        return model_scores(model, images, statistics)
    buffers = list(model.buffers())
    before = [buffer.clone() for buffer in buffers]
    with in_mode(model, training=True):
        scores: Tensor = model(normalise(images, statistics.mean, statistics.std)).clone()  # a CUDA graph overwrites it
    torch._foreach_copy_(buffers, before)
    check_logits(scores.flatten(end_dim=-2))
    return scores


@torch.no_grad()
def recalibrate(model: nn.Module, images: UInt8[Tensor, "n 3 h w"], statistics: ChannelStatistics) -> dict[str, Tensor]:
    """Measure the running statistics of batch normalisation again on some images; the model keeps them.

    Arguments are those of :func:`model_scores`. Returns the buffers by name: plain averages over equal batches.

    >>> digits = lab.load_dataset("digits")
    >>> statistics = lab.data.channel_statistics(digits, "test")
    >>> sorted(recalibrate(lab.draw_resnet8(10, channels=4), digits.images[:8], statistics))[0]
    'norm.num_batches_tracked'
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average over the batches
    with in_mode(model, training=True):
        for part in images.tensor_split(max(len(images) // IMAGES_PER_FORWARD, 1)):
            model(normalise(part, statistics.mean, statistics.std))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


@contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """A model in a mode and then back.

    >>> with in_mode(lab.draw_resnet8(10, channels=4), training=False): pass
    """
    was_training = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(was_training)
