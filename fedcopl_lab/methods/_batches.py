"""A client's batches: which images each step takes, their views, and the labels that these got."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab._card import onto
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import draw_strong, draw_weak, normalise, strong_view, weak_view
from fedcopl_lab.methods._sage_setting import SemiSetting, pool_steps
from fedcopl_lab.steps import IMAGES_PER_FORWARD

VIEWS_AT_ONCE = 2048
"""Images that are augmented together, over several steps: many small operations cost more than few large ones."""


@dataclass(frozen=True, repr=False)
class Batch:
    """One step's images, normalised, with what is known about them.

    Attributes:
        labelled: weak views of labelled images, [b, 3, h, w].
        labels: their classes, [b].
        labelled_strong: strong views of the same images; None unless the recipe asks.
        weak: weak views of unlabelled images, [b_u, 3, h, w]; None for methods without a pool.
        strong: strong views of the same images.
        places: where these images are in the client's pool, [b_u].
        global_: scores of the weak views by the round's global model, where they are known already, [b_u, C].
    """

    labelled: Float[Tensor, "b 3 h w"]
    labels: Int[Tensor, "b"]
    labelled_strong: Float[Tensor, "b 3 h w"] | None = None
    weak: Float[Tensor, "b_u 3 h w"] | None = None
    strong: Float[Tensor, "b_u 3 h w"] | None = None
    places: Int[Tensor, "b_u"] | None = None
    global_: Float[Tensor, "b_u c"] | None = None

    @property
    def pool_views(self) -> tuple[Tensor, Tensor, Tensor]:
        """Weak views, strong views and places of the unlabelled images.

        Raises:
            FedCoPLError: the recipe uses no pool.
        """
        if self.weak is None or self.strong is None or self.places is None:
            raise FedCoPLError("this step needs unlabelled images and got none; set uses_pool=True in its Recipe")
        return self.weak, self.strong, self.places

    @property
    def joint_views(self) -> tuple[Tensor, ...]:
        """What one forward pass scores together: labelled views, and weak and strong ones where there is a pool."""
        return (self.labelled,) if self.weak is None else (self.labelled, *self.pool_views[:2])


@dataclass(frozen=True, repr=False)
class ViewLabels:
    """Pseudo-labels of one or more steps, one row per weak view."""

    places: Int[Tensor, "n"]  # where the images are in the client's pool
    local: Float[Tensor, "n c"]  # scores by the model in training
    global_: Float[Tensor, "n c"] | None  # scores by the round's global model, or None
    target: Float[Tensor, "n c"]  # what the strong view was trained towards
    weight: Float[Tensor, "n"]  # lambda
    used: Bool[Tensor, "n"]  # whether the view counted

    @classmethod
    def joined(cls, parts: Sequence["ViewLabels"]) -> "ViewLabels":
        """Several one after the other; without the global model's scores where a part has none."""
        joined: dict[str, Any] = {}
        for name in (one.name for one in fields(cls)):
            values = [getattr(part, name) for part in parts]
            joined[name] = None if any(value is None for value in values) else torch.cat(values)
        return cls(**joined)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return f"ViewLabels({len(self)} weak views, {int(self.used.sum())} labelled)"


@dataclass(frozen=True)
class BatchSource:
    """Draws the batches of one client, one local epoch at a time."""

    setting: SemiSetting
    labelled: Tensor  # positions of its labelled images, [n_l]
    pool: Tensor  # positions of its unlabelled pool, [n_u]
    labelled_strong: bool = False  # make strong views of labelled images too
    score: Callable[[Tensor], Tensor] | None = None  # the global model's, of weak views of many steps; None makes none

    def labelled_only(self, generator: torch.Generator) -> Iterator[Batch]:
        """An epoch of labelled images: drawn with replacement, or one pass over them without."""
        config = self.setting.config
        n, size = len(self.labelled), config.batch_size
        if config.supervised_schedule == "labelled_epochs":
            rows = list(torch.randperm(n, generator=generator).split(size))
        else:
            steps = pool_steps(config, len(self.pool))
            rows = list(torch.randint(n, (steps, size), generator=generator))
        for places in rows:
            chosen = self.labelled[onto(places, self.labelled.device)]
            views, strong = self._views(chosen, generator, self.labelled_strong)
            yield Batch(labelled=views, labels=self.setting.labels[chosen], labelled_strong=strong)

    def both(self, generator: torch.Generator) -> Iterator[Batch]:
        """An epoch of labelled images drawn with replacement and of unlabelled ones drawn without."""
        size, size_u = self.setting.config.batch_size, self.setting.config.unlabelled_batch_size
        steps = pool_steps(self.setting.config, len(self.pool))
        rows = torch.randint(len(self.labelled), (steps, size), generator=generator)
        rows_u = _without_replacement(len(self.pool), steps, size_u, generator)
        together = max(VIEWS_AT_ONCE // size_u, 1)
        for part, part_u in zip(rows.split(together), rows_u.split(together), strict=True):
            chosen = self.labelled[onto(part.flatten(), self.labelled.device)]
            labelled, labelled_strong = self._views(chosen, generator, self.labelled_strong)
            places = onto(part_u.flatten(), self.pool.device)
            weak, strong = self._views(self.pool[places], generator, True)
            of_labelled = (labelled, self.setting.labels[chosen], labelled_strong)
            of_pool = (weak, strong, places, _scored(weak, size_u, self.score))
            columns = [_split(values, size, len(part)) for values in of_labelled]
            columns += [_split(values, size_u, len(part)) for values in of_pool]
            for step in zip(*columns, strict=True):
                yield Batch(*step)

    def _views(self, chosen: Tensor, generator: torch.Generator, strong: bool) -> tuple[Tensor, Tensor | None]:
        """Normalised weak views of images, and strong ones where they are wanted."""
        images = self.setting.images[chosen]
        config, statistics = self.setting.config, self.setting.training
        draws = len(images), images.shape[-1], generator, config.flip
        weak = normalise(weak_view(images, draw_weak(*draws)), statistics.mean, statistics.std)
        if not strong:
            return weak, None
        views = strong_view(images, draw_strong(*draws), config.cutout)
        return weak, normalise(views, statistics.mean, statistics.std)


def _scored(weak: Tensor, size: int, score: Callable[[Tensor], Tensor] | None) -> Tensor | None:
    """Scores in portions of whole steps of that size."""
    if score is None:
        return None
    return torch.cat([score(part) for part in weak.split(max(IMAGES_PER_FORWARD // size, 1) * size)])


def _split(values: Tensor | None, size: int, steps: int) -> Sequence[Any]:
    """One entry for each step."""
    return [None] * steps if values is None else values.split(size)


def _without_replacement(n: int, steps: int, size: int, generator: torch.Generator) -> Int[Tensor, "steps size"]:
    """Rows of a shuffled pool, whole batches only; shuffled again when they run out."""
    per_pass = n // size
    passes = -(-steps // per_pass)
    rows = [torch.randperm(n, generator=generator)[: per_pass * size].view(per_pass, size) for _ in range(passes)]
    return torch.cat(rows)[:steps]
