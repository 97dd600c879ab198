"""A client's batches: which images each step takes, their views, and the labels that these got."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedcopl_lab._card import onto
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import StrongDraws, WeakDraws, draw_strong, draw_weak, normalise, strong_view, weak_view
from fedcopl_lab.methods._sage_setting import SemiSetting, pool_steps
from fedcopl_lab.steps import IMAGES_PER_FORWARD

VIEWS_AT_ONCE = 2048
"""Images of a client augmented together, over several steps: many small operations cost more than few large ones."""


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
class _Portion:
    """The images that some steps take, and the random numbers of their views."""

    places: Tensor  # in the client's labelled images or in its pool, [n]
    chosen: Tensor  # positions in the data set, [n]
    size: int  # images of a step
    weak: WeakDraws
    strong: StrongDraws | None  # where strong views are wanted

    def by_step(self, *columns: Tensor | None) -> list[Sequence[Any]]:
        """Of each column one entry for each step."""
        steps = len(self.chosen) // self.size
        return [[None] * steps if values is None else values.split(self.size) for values in columns]


@dataclass(frozen=True)
class BatchSource:
    """Draws the batches of one client's local epochs; every random number comes from its generator."""

    setting: SemiSetting
    labelled: Tensor  # positions of its labelled images, [n_l]
    pool: Tensor  # positions of its unlabelled pool, [n_u]
    generator: torch.Generator
    uses_pool: bool = True
    labelled_strong: bool = False  # make strong views of labelled images too
    score: Callable[[Tensor], Tensor] | None = None  # the global model's, of weak views of many steps; None makes none

    def portions(self) -> Iterator[tuple[_Portion, ...]]:
        """Labelled images, and where they are used as many steps' images of the pool."""
        for _ in range(self.setting.config.local_epochs):
            yield from self._both() if self.uses_pool else self._labelled_only()

    def steps(self, portions: Sequence[_Portion], views: Sequence[Sequence[Tensor | None]]) -> list[Batch]:
        """The batches of such portions, whose views are made."""
        labelled, *of_pool = portions
        weak, strong, _ = views[0]
        columns = labelled.by_step(weak, self.setting.labels[labelled.chosen], strong)
        for portion, (weak, strong, scores) in zip(of_pool, views[1:], strict=True):
            columns += portion.by_step(weak, strong, portion.places, scores)
        return [Batch(*step) for step in zip(*columns, strict=True)]

    def _labelled_only(self) -> Iterator[tuple[_Portion]]:
        """An epoch of labelled images: drawn with replacement, or one pass over them without."""
        config = self.setting.config
        n, size = len(self.labelled), config.batch_size
        if config.supervised_schedule == "labelled_epochs":
            rows = list(torch.randperm(n, generator=self.generator).split(size))
        else:
            steps = pool_steps(config, len(self.pool))
            rows = list(torch.randint(n, (steps, size), generator=self.generator))
        for places in rows:
            yield (self._portion(self.labelled, places[None], self.labelled_strong),)

    def _both(self) -> Iterator[tuple[_Portion, _Portion]]:
        """An epoch of labelled images drawn with replacement and of unlabelled ones drawn without."""
        size, size_u = self.setting.config.batch_size, self.setting.config.unlabelled_batch_size
        steps = pool_steps(self.setting.config, len(self.pool))
        rows = torch.randint(len(self.labelled), (steps, size), generator=self.generator)
        rows_u = _without_replacement(len(self.pool), steps, size_u, self.generator)
        together = max(VIEWS_AT_ONCE // size_u, 1)
        for part, part_u in zip(rows.split(together), rows_u.split(together), strict=True):
            yield self._portion(self.labelled, part, self.labelled_strong), self._portion(self.pool, part_u, True)

    def _portion(self, images: Tensor, rows: Int[Tensor, "steps size"], strong: bool) -> _Portion:
        places = onto(rows.flatten(), images.device)
        draws = len(places), self.setting.images.shape[-1], self.generator, self.setting.config.flip
        weak = draw_weak(*draws)
        return _Portion(places, images[places], rows.shape[1], weak, draw_strong(*draws) if strong else None)


def batches_of(sources: Sequence[BatchSource]) -> Iterator[tuple[Batch, ...]]:
    """All local epochs of clients with equal steps and one global model, a batch of each at a time.

    Views of all clients are made and scored at once.
    """
    for portions in zip(*(source.portions() for source in sources), strict=True):
        kinds = zip(zip(*portions, strict=True), (None, sources[0].score), strict=False)
        views = [_views(sources[0].setting, alike, score) for alike, score in kinds]
        of_clients = zip(sources, portions, zip(*views, strict=True), strict=True)
        yield from zip(*[source.steps(own, made) for source, own, made in of_clients], strict=True)


def _views(
    setting: SemiSetting, portions: Sequence[_Portion], score: Callable[[Tensor], Tensor] | None
) -> list[tuple[Tensor | None, ...]]:
    """Of each portion normalised weak views, strong ones and scores of the weak ones, where these are wanted."""
    images, statistics = setting.images[torch.cat([one.chosen for one in portions])], setting.training
    normalised = partial(normalise, mean=statistics.mean, std=statistics.std)
    weak, strong, scores = normalised(weak_view(images, WeakDraws.joined([one.weak for one in portions]))), None, None
    if draws := [one.strong for one in portions if one.strong is not None]:
        strong = normalised(strong_view(images, StrongDraws.joined(draws), setting.config.cutout))
    if score is not None:
        whole_steps = max(IMAGES_PER_FORWARD // portions[0].size, 1) * portions[0].size
        scores = torch.cat([score(part) for part in weak.split(whole_steps)])
    sizes = [len(one.chosen) for one in portions]
    columns = [[None] * len(sizes) if one is None else one.split(sizes) for one in (weak, strong, scores)]
    return list(zip(*columns, strict=True))


def _without_replacement(n: int, steps: int, size: int, generator: torch.Generator) -> Int[Tensor, "steps size"]:
    """Rows of a shuffled pool, whole batches only; shuffled again when they run out."""
    per_pass = n // size
    passes = -(-steps // per_pass)
    rows = [torch.randperm(n, generator=generator)[: per_pass * size].view(per_pass, size) for _ in range(passes)]
    return torch.cat(rows)[:steps]
