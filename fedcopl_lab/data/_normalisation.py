"""Channel statistics that SAGE's images are normalised with, in training and in tests."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from fedcopl_lab.data._datasets import Dataset
from fedcopl_lab.data._manifests import load_manifest


@dataclass(frozen=True)
class ChannelStatistics:
    """Mean and deviation of each channel, of levels in [0, 1]."""

    mean: Float[Tensor, "3"]  # [3]
    std: Float[Tensor, "3"]  # [3]

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
    if (norm, part) == ("authors", "train") or (norm, dataset.name) == ("matched", "cifar10"):
        of_cifar10 = load_manifest("cifar10").normalisation
        assert of_cifar10 is not None
        return ChannelStatistics(torch.tensor(of_cifar10.mean), torch.tensor(of_cifar10.std))
    published = dataset.manifest.normalisation if dataset.name == dataset.manifest.name else None
    if published is not None:
        return ChannelStatistics(torch.tensor(published.mean_at_test), torch.tensor(published.std_at_test))
    levels = dataset.images[dataset.train_indices].double() / 255
    mean, std = levels.mean(dim=(0, 2, 3)), levels.std(dim=(0, 2, 3), correction=0)
    return ChannelStatistics(mean=mean.float(), std=std.float())


def normalise(
    images: UInt8[Tensor, "n 3 h w"], mean: Float[Tensor, "3"], std: Float[Tensor, "3"]
) -> Float[Tensor, "n 3 h w"]:
    """Levels 0..255 to (level / 255 - mean) / std by channel, float32."""
    scale, shift = 1 / (255 * std), -mean / std
    return images.float() * scale[:, None, None] + shift[:, None, None]
