"""Channel means and deviations that SAGE's images are normalised with, in training and in tests."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from fedcopl_lab.data._datasets import Dataset

_TRAINING = ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))  # of CIFAR-10, used for all sets by the code

# what the released code normalises test images with
_TESTS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "cinic10": ((0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587)),
}


@dataclass(frozen=True)
class ChannelStatistics:
    """Mean and deviation of each channel, of levels in [0, 1].

    Attributes:
        mean: [3].
        std: [3].
    """

    mean: Float[Tensor, "3"]
    std: Float[Tensor, "3"]

    def __repr__(self) -> str:
        return f"ChannelStatistics(mean {self.mean.tolist()}, std {self.std.tolist()})"


def channel_statistics(
    dataset: Dataset, part: Literal["train", "test"], norm: Literal["matched", "authors"] = "matched"
) -> ChannelStatistics:
    """The constants that training or test images are normalised with.

    Args:
        dataset: the data set; sets without published constants take those of their training images.
        part: training or test images.
        norm: ``"matched"``: one pair for both parts. ``"authors"``: CIFAR-10's constants in training, another
            pair in tests, as the released code.

    >>> channel_statistics(load_dataset("digits"), "train", "authors").mean.tolist()[0]
    0.49140000343322754

    Shown in notebook ``sage_step_by_step``.
    """
    if dataset.name == "cifar10" and norm == "matched":
        return _pair(_TRAINING)
    if norm == "authors" and part == "train":
        return _pair(_TRAINING)
    return _pair(_TESTS[dataset.name]) if dataset.name in _TESTS else _measured(dataset)


def _pair(constants: tuple[tuple[float, ...], tuple[float, ...]]) -> ChannelStatistics:
    return ChannelStatistics(mean=torch.tensor(constants[0]), std=torch.tensor(constants[1]))


def _measured(dataset: Dataset) -> ChannelStatistics:
    levels = dataset.images[dataset.train_indices].double() / 255
    mean, std = levels.mean(dim=(0, 2, 3)), levels.std(dim=(0, 2, 3), correction=0)
    return ChannelStatistics(mean=mean.float(), std=std.float())
