"""The two forms of SAGE's local step that ``bench sage`` times, and how far apart they end."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedcopl_lab.data import normalise, strong_view, weak_view
from fedcopl_lab.extras.bench.plain_sage import PlainImages, Sample, plain_batches, plain_step
from fedcopl_lab.methods import RECIPES, SemiSetting
from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._local_task import LocalTask
from fedcopl_lab.methods._semi_state import copied
from fedcopl_lab.models import ResNet8


class PlainForm:
    """The plain form: batches from two loader workers, one after the other."""

    def __init__(self, setting: SemiSetting, samples: Sequence[Sample]) -> None:
        self.config = setting.config
        memory_format = torch.contiguous_format
        self.model, self.global_model = (setting.new_model().to(memory_format=memory_format) for _ in range(2))
        self.model.train()
        self.global_model.eval()
        self.start = copied(self.model.state_dict())
        config = setting.config
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
        )
        dataset = PlainImages(setting.images, samples, setting.training, config.cutout)
        self.batches = plain_batches(dataset, samples)
        self.labels = iter([setting.labels[sample.labelled] for sample in samples])
        self.views: tuple[Tensor, ...] = ()

    def step(self) -> None:
        """The next sample's step, loader time included."""
        labelled, weak, strong = (part.to(self.config.device) for part in next(self.batches))
        self.views = (labelled, weak, strong)
        labels = next(self.labels)
        plain_step(self.model, self.global_model, self.optimiser, (labelled, weak, strong), labels, self.config)


class OurForm:
    """Our form: one client's task, whose batches are made on the device."""

    def __init__(self, setting: SemiSetting, samples: Sequence[Sample]) -> None:
        self.setting, self.samples = setting, samples
        self.start = dict(setting.new_model().state_dict())
        self.task = LocalTask(setting, RECIPES["SAGE"], 0, 0, self.start)
        # the task's own models may serve another form's task, so this one gets models of its own
        self.task.model = setting.placed_model(self.start).train()
        self.task.global_model = setting.placed_model(self.start).eval().requires_grad_(False)
        if setting.config.compile:
            self.task.model.compile()
            self.task.global_model.compile()
        self.task.optimiser = self.task.sgd(self.task.model.parameters())

    @property
    def model(self) -> ResNet8:
        """The model in training."""
        return self.task.model

    def batch(self, index: int) -> Batch:
        """A sample's views."""
        sample, setting = self.samples[index], self.setting
        images, statistics_ = setting.images, setting.training
        labelled = weak_view(images[sample.labelled], sample.labelled_draws)
        pool = images[sample.pool]
        weak, strong = (
            weak_view(pool, sample.weak_draws),
            strong_view(pool, sample.strong_draws, setting.config.cutout),
        )
        views = (normalise(part, statistics_.mean, statistics_.std) for part in (labelled, weak, strong))
        one, two, three = views
        return Batch(labelled=one, labels=setting.labels[sample.labelled], weak=two, strong=three, places=sample.pool)

    def step(self, index: int) -> None:
        """A sample's step, views included."""
        self.task.recipe.step(self.task, self.batch(index))


def view_difference(plain: PlainForm, ours: OurForm) -> float:
    """Largest difference of the first sample's normalised views."""
    batch = ours.batch(0)
    assert batch.weak is not None
    assert batch.strong is not None
    both = zip(plain.views, (batch.labelled, batch.weak, batch.strong), strict=True)
    return max(float((a - b).abs().max()) for a, b in both)


def change_apart(model: nn.Module, reference: nn.Module, start: dict[str, Tensor]) -> float:
    """Largest difference of two models' parameters, relative to the largest change of the reference's."""
    pairs = [
        (mine.detach().double(), theirs.detach().double(), start[name].double())
        for (name, mine), theirs in zip(model.named_parameters(), reference.parameters(), strict=True)
    ]
    largest = max(float((theirs - before).abs().max()) for _, theirs, before in pairs)
    return max(float((mine - theirs).abs().max()) for mine, theirs, _ in pairs) / largest


def exact_step(setting: SemiSetting, plain: PlainForm, sample: Sample) -> ResNet8:
    """A model after the plain form's first step, computed in float64 from the same views."""
    model, global_model = (setting.placed_model(plain.start).double() for _ in range(2))
    config = setting.config
    optimiser = torch.optim.SGD(
        model.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )
    labelled, weak, strong = (part.double() for part in plain.views)
    labels = setting.labels[sample.labelled]
    plain_step(model.train(), global_model.eval(), optimiser, (labelled, weak, strong), labels, config)
    return model
