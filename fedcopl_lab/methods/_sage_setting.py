"""The fixed surroundings of a semi-supervised run: images on the device, who holds which, what normalises them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import (
    ChannelStatistics,
    Dataset,
    Federation,
    channel_statistics,
    load_dataset,
    partition,
    restore_federation,
)
from fedcopl_lab.methods.protocol import draw_participants
from fedcopl_lab.models import ResNet8, blank_copy, load_values, placed, start_resnet8
from fedcopl_lab.seeding import torch_generator

_AUTHORS_COPIES = 2000  # the released code counts a labelled image as often as its sampler repeats it
_AUTHORS_SEED = 7  # of the released code's one stream of participants


def pool_steps(config: SageConfig, n_pool: int) -> int:
    """Optimiser steps of a local epoch over a pool of that many images."""
    batch = config.batch_size if config.epoch_rule == "authors" else config.unlabelled_batch_size
    steps = n_pool // batch
    return steps if config.steps_per_epoch is None else min(steps, config.steps_per_epoch)


def sage_participants(config: SageConfig, round_index: int) -> list[int]:
    """The clients of the round after so many, in the order of their visits.

    With the authors' partition they come, as in the released code, from one legacy stream of seed 7 for all rounds, in
    the order drawn; else from the run's own seed, in rising order.

    >>> sage_participants(lab.configure("paper", method="SAGE", mode="authors"), 0)[:3]
    [1, 17, 2]
    """
    if config.partition_mode != "authors":
        return draw_participants(config, config.seed, round_index)
    stream = np.random.RandomState(_AUTHORS_SEED + config.seed)
    draws = [stream.choice(config.n_clients, config.clients_per_round, replace=False) for _ in range(round_index + 1)]
    found: list[int] = draws[-1].tolist()
    return found


def sage_weight(config: SageConfig, n_labelled: int, n_pool: int) -> int:
    """A client's weight in the mean, from its labelled images and the size of its pool (SAGE Alg. 1).

    >>> sage_weight(lab.configure("smoke", method="SAGE"), n_labelled=12, n_pool=100)
    112
    """
    if config.weight_by == "uniform":
        return 1
    return (_AUTHORS_COPIES if config.weight_by == "authors" else 1) * n_labelled + n_pool


@dataclass(frozen=True, repr=False)
class SemiSetting:
    """What stays the same over the rounds of a run.

    Attributes:
        config: the run.
        dataset: images, labels (of the pool for reporting only) and class names.
        federation: which client holds which images.
        images: all images on the device, uint8, [n_all, 3, h, w].
        labels: their classes on the device, [n_all].
        training: what training images are normalised with.
        testing: what test images are normalised with.
    """

    config: SageConfig
    dataset: Dataset
    federation: Federation
    images: UInt8[Tensor, "n_all 3 h w"]
    labels: Int[Tensor, "n_all"]
    training: ChannelStatistics
    testing: ChannelStatistics

    @classmethod
    def of(cls, config: SageConfig, split: dict[str, Any] | None = None) -> "SemiSetting":
        """Load the data that a configuration names, and share them out or take a stored split.

        Raises:
            FedCoPLError: data that are not there, or a client that would train 0 steps.
        """
        dataset = load_dataset(config.dataset, image_size=config.image_size)
        federation = restore_federation(dataset, split) if split else _draw_federation(dataset, config)
        device = config.device
        images = _images_on(config.dataset, dataset.sha256, config.image_size, device)
        norms = (_on(channel_statistics(dataset, part, config.norm), device) for part in ("train", "test"))
        setting = cls(config, dataset, federation, images, dataset.labels.to(device), *norms)
        setting._check_steps()
        return setting

    def labelled(self, client: int, everything: bool = False) -> Int[Tensor, "n"]:
        """Positions of a client's labelled images; with ``everything`` of all its training images."""
        return self.federation.indices(client, "train" if everything else "labelled").to(self.config.device)

    def pool(self, client: int) -> Int[Tensor, "n"]:
        """Positions of a client's unlabelled pool."""
        indices = self.federation.indices
        pool = indices(client, "train") if self.config.labelled_in_pool else indices(client, "unlabelled")
        return pool.to(self.config.device)

    def scored_pool(self, client: int) -> Int[Tensor, "n"]:
        """Positions of the pool's images that the log reads: all, or ``n_probe`` fixed ones of a large pool."""
        return self._fixed(self.pool(client), "reported pool images", client)

    @property
    def tests(self) -> Int[Tensor, "n"]:
        """Positions of the test images."""
        return self.dataset.test_indices.to(self.config.device)

    @property
    def probes(self) -> Int[Tensor, "n"]:
        """Positions of a few fixed test images, on which local models are compared before they are merged."""
        return self._fixed(self.tests, "probe images").sort().values

    def _fixed(self, positions: Int[Tensor, "n_all"], purpose: str, *parts: int) -> Int[Tensor, "n"]:
        """``n_probe`` of some positions in their order, or all where there are no more; the same at every call."""
        order = torch.randperm(len(positions), generator=torch_generator(self.config.seed, purpose, *parts))
        return positions[order[: self.config.n_probe].sort().values.to(positions.device)]

    def steps_per_epoch(self, client: int) -> int:
        """Optimiser steps of a local epoch over the pool; 0 is refused when the setting is made."""
        return pool_steps(self.config, len(self.pool(client)))

    def new_model(self) -> ResNet8:
        """The model that the run starts from."""
        config, generator = self.config, torch_generator(self.config.seed, "initial model")
        model = start_resnet8(config.start, self.dataset.n_classes, config.channels, generator, config.bn_momentum)
        return placed(model, config.device, config.channels_last)

    def placed_model(self, state: Mapping[str, Tensor]) -> ResNet8:
        """A model with these parameters and buffers, on the run's device, in its memory layout."""
        config = self.config
        model = blank_copy(
            self.dataset.n_classes, config.channels, config.bn_momentum, config.device, config.channels_last
        )
        load_values(model, state)
        return model

    def _check_steps(self) -> None:
        config = self.config
        for client in range(config.n_clients):
            n_pool = len(self.pool(client))
            if n_pool < config.unlabelled_batch_size or not self.steps_per_epoch(client):
                raise FedCoPLError(
                    f"client {client} has {n_pool} unlabelled images, too few for one step of {config.batch_size} "
                    f"labelled and {config.unlabelled_batch_size} unlabelled ones; choose smaller batches, fewer "
                    "clients, a larger alpha or scheme='pairwise_balanced'"
                )

    def __repr__(self) -> str:
        return f"SemiSetting({self.config.label})"


def _draw_federation(dataset: Dataset, config: SageConfig) -> Federation:
    return partition(
        dataset,
        config.scheme,
        config.n_clients,
        alpha=config.alpha,
        label_fraction=config.label_fraction,
        labelled_per_class=config.labelled_per_class,
        seed=config.seed,
        mode=config.partition_mode,
    )


def _on(statistics: ChannelStatistics, device: str) -> ChannelStatistics:
    return ChannelStatistics(mean=statistics.mean.to(device), std=statistics.std.to(device))


@lru_cache(maxsize=2)
def _images_on(name: str, _sha256: str, image_size: int | None, device: str) -> Tensor:
    """One copy per process and content on the device, shared by its runs."""
    images = load_dataset(name, image_size=image_size).images
    return images.contiguous() if device == "cpu" else images.to(device)
