"""SAGE's local step as one would first write it: Pillow image by image in two workers, then one plain step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import PAD_SHARE, ChannelStatistics, StrongDraws, WeakDraws, holes
from fedcopl_lab.extras.bench.pillow_views import plain_strong, plain_weak
from fedcopl_lab.models import ResNet8

WORKERS = 2


@dataclass(frozen=True, repr=False)
class Sample:
    """The images and random numbers of one step, for either form.

    Attributes:
        labelled: positions of the labelled images, [b].
        pool: positions of the unlabelled ones, [b_u].
        labelled_draws: their weak views.
        weak_draws: weak views of the unlabelled ones.
        strong_draws: their strong views.
    """

    labelled: Tensor
    pool: Tensor
    labelled_draws: WeakDraws
    weak_draws: WeakDraws
    strong_draws: StrongDraws


class PlainImages(torch.utils.data.Dataset[tuple[Tensor, ...]]):
    """One item per image and step: its view or views, normalised, made with Pillow."""

    def __init__(self, images: Tensor, samples: Sequence[Sample], statistics: ChannelStatistics, cutout: str) -> None:
        self.images = images.cpu().numpy()
        self.size = images.shape[-1]
        self.mean, self.std = (part.cpu()[:, None, None] for part in (statistics.mean, statistics.std))
        self.items = [item for sample in samples for item in _items(sample, self.size, cutout)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        position, weak, strong = self.items[index]
        image = Image.fromarray(np.ascontiguousarray(self.images[position].transpose(1, 2, 0)))
        pad = self.size // PAD_SHARE
        views = [plain_weak(image, *weak, pad=pad)]
        if strong is not None:
            views.append(plain_strong(image, strong, pad))
        return tuple(self._tensor(view) for view in views)

    def _tensor(self, view: Image.Image) -> Tensor:
        levels = torch.from_numpy(np.asarray(view).copy()).permute(2, 0, 1).contiguous().float() / 255
        return (levels - self.mean) / self.std


def plain_batches(dataset: PlainImages, samples: Sequence[Sample]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(labelled, weak, strong) of one step after the other, loaded ahead by two worker processes."""
    groups, first = [], 0
    for sample in samples:
        for count in (len(sample.labelled), len(sample.pool)):
            groups.append(list(range(first, first + count)))
            first += count
    loader: Any = iter(DataLoader(dataset, batch_sampler=groups, num_workers=WORKERS))
    for (labelled,) in loader:
        weak, strong = next(loader)
        yield labelled, weak, strong


def plain_step(
    model: ResNet8,
    global_model: ResNet8,
    optimiser: torch.optim.Optimizer,
    views: tuple[Tensor, Tensor, Tensor],
    labels: Tensor,
    config: SageConfig,
) -> None:
    """One SAGE step: the global model's graph is kept, memory is in the default layout, all in float32."""
    labelled, weak, strong = views
    x, w, s = model(torch.cat([labelled, weak, strong])).split([len(labelled), len(weak), len(strong)])
    p, q = w.detach().softmax(dim=1), global_model(weak).softmax(dim=1)
    c_l, k_l = p.max(dim=1)
    c_g, k_g = q.max(dim=1)
    weight = torch.exp(-config.kappa * (c_l - c_g).abs())[:, None]
    e_l, e_g = (F.one_hot(k, p.shape[1]).to(p.dtype) for k in (k_l, k_g))
    target = torch.where((c_l >= config.threshold)[:, None], weight * e_l + (1 - weight) * e_g, e_g).detach()
    used = (c_l >= config.threshold) | (c_g >= config.threshold)
    divergence = F.kl_div(s.log_softmax(dim=1), target, reduction="none").sum(dim=1)
    loss = F.cross_entropy(x, labels) + config.lambda_u * (divergence * used).mean()
    optimiser.zero_grad()
    torch.autograd.backward([loss])
    optimiser.step()


def _items(
    sample: Sample, size: int, cutout: str
) -> Iterator[tuple[int, tuple[bool, int, int], dict[str, Any] | None]]:
    for i, position in enumerate(sample.labelled.tolist()):
        yield position, _weak(sample.labelled_draws, i), None
    draws = sample.strong_draws
    edges = torch.stack(holes(draws, size, cutout), dim=1)
    slots = [part.tolist() for part in (draws.operations, draws.levels, draws.negative, draws.applied)]
    for i, position in enumerate(sample.pool.tolist()):
        flip, down, right = _weak(draws.weak, i)
        operations = list(zip(*(slot[i] for slot in slots), strict=True))
        strong = {"flip": flip, "down": down, "right": right, "operations": operations, "hole": edges[i].tolist()}
        yield position, _weak(sample.weak_draws, i), strong


def _weak(draws: WeakDraws, i: int) -> tuple[bool, int, int]:
    return bool(draws.flip[i]), int(draws.down[i]), int(draws.right[i])
