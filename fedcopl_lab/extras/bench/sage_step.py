"""``bench sage``: one local step of SAGE in the plain form and in ours, in one process, turn by turn."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import SageConfig, configure
from fedcopl_lab.data import draw_strong, draw_weak, normalise, strong_view, weak_view
from fedcopl_lab.engine import keep_freed_memory, return_freed_memory
from fedcopl_lab.extras.bench.plain_sage import PlainImages, Sample, plain_batches, plain_step
from fedcopl_lab.extras.bench.timing import DTYPES, check_counts, check_dtypes, hardware_of, matmul_rate, timed
from fedcopl_lab.methods import RECIPES, Batch, LocalTask, SemiSetting, copied
from fedcopl_lab.models import ResNet8
from fedcopl_lab.seeding import torch_generator

IMAGE_SIZE = 32


@dataclass(frozen=True)
class SageTiming:
    """One local step of SAGE, from uint8 images to new parameters, in both forms; a row of ``ours_bench_sage.csv``.

    The plain form uses Pillow in two workers, keeps the global model's graph, the default memory layout and
    glibc's default handling of freed memory. Ours runs in memory that the step before it has used, as in a round.
    """

    width: float  # of ResNet-8; 4 is the paper's
    dtype: str  # of our form's products; the plain form is always fp32
    labelled: int  # labelled images of the step
    unlabelled: int  # unlabelled images, each seen in a weak and a strong view
    seconds_plain: float  # median of the plain form
    seconds: float  # median of ours
    speed_up: float  # the first over the second
    seconds_views: float  # median of ours for the views alone
    gflop: float  # operations of our step's convolutions and products
    gflop_per_second: float  # our rate over the whole step, views included
    ceiling: float  # the machine's own rate for matrix products of that type, GFLOP/s
    share_of_ceiling: float  # the one over the other
    view_difference: float  # largest difference between the two forms' normalised views
    parameter_difference: float  # largest difference after one step, relative to the step's largest change
    error_plain: float | None  # the same between the plain form and a step in float64; None unless ``exact``
    error: float | None  # the same of our form
    channels_last: bool  # our form's memory layout
    compiled: bool  # whether our form's models were compiled
    device: str  # hardware class
    threads: int  # CPU threads
    repeats: int  # timed steps of each form

    def __str__(self) -> str:
        errors = ""
        if self.error is not None and self.error_plain is not None:
            errors = f"; from a step in float64: plain form {self.error_plain:.1e}, ours {self.error:.1e}"
        return (
            f"width {self.width:g} {self.dtype}: {self.seconds_plain:.3f} s -> {self.seconds:.3f} s, "
            f"{self.speed_up:.2f}x, {self.share_of_ceiling:.0%} of {self.ceiling:.0f} GFLOP/s that matrix "
            f"products reach, of which views {self.seconds_views:.3f} s; views differ by "
            f"{self.view_difference:.1e}, parameters by {self.parameter_difference:.1e} of the step{errors}"
        )


def bench_sage(
    width: float = 4.0,
    dtypes: Sequence[str] = DTYPES,
    labelled: int = 128,
    unlabelled: int = 256,
    repeats: int = 3,
    device: str = "cpu",
    channels_last: bool = True,
    compiled: bool = False,
    exact: bool = False,
) -> Iterator[SageTiming]:
    """Time one local step of SAGE in the plain form and in ours, on the embedded digits at 32x32 pixels.

    Args:
        width: of ResNet-8.
        dtypes, repeats, device: as in :func:`bench_step`; one timing for each type.
        labelled, unlabelled: images of a step, at most 1,000 of each.
        channels_last: our form's memory layout; the plain form has the default one.
        compiled: compile our form's models, which takes a C++ compiler and half a minute.
        exact: also take the step in float64 and tell both forms' distance to it; slow, and 10 GB at width 4.

    Raises:
        FedCoPLError: an unknown dtype, or numbers out of range.

    >>> next(bench_sage(width=0.25, dtypes=["fp32"], labelled=4, unlabelled=8, repeats=1)).view_difference < 1e-5
    True
    """
    check_dtypes(dtypes)
    if not dtypes:
        raise FedCoPLError("nothing to time; name at least one dtype")
    check_counts(labelled=labelled, unlabelled=unlabelled, repeats=repeats)
    if max(labelled, unlabelled) > 1000:
        raise FedCoPLError(f"a step of {labelled} + {unlabelled} images; the bench's digits carry up to 1000 of each")
    settings = {
        dtype: SemiSetting.of(configure(
            "paper", method="SAGE", dataset="digits", image_size=IMAGE_SIZE, n_clients=1, participation=1.0,
            scheme="iid", width=width, batch_size=labelled, unlabelled_batch_size=unlabelled, precision=dtype,
            device=device, channels_last=channels_last, compile=compiled,
        ))
        for dtype in dtypes
    }  # fmt: skip
    first = next(iter(settings.values()))
    samples = [_draw_sample(first, i) for i in range(repeats + 1)]
    plain = PlainForm(first, samples)
    ours = {dtype: OurForm(setting, samples) for dtype, setting in settings.items()}
    gflop = _gflop(SemiSetting.of(replace(first.config, compile=False)), samples)
    times: dict[str, list[float]] = {name: [] for name in ("plain", *dtypes)}
    ceilings: dict[str, list[float]] = {name: [] for name in dtypes}
    differences: dict[str, dict[str, float]] = {}
    errors: dict[str, float | None] = dict.fromkeys(("plain", *dtypes))
    for step in range(repeats + 1):  # the first is compared, the others are timed
        return_freed_memory()
        taken = timed(plain.step, device, time.perf_counter)
        if step:
            times["plain"].append(taken)
        for dtype, form in ours.items():
            keep_freed_memory()
            form.step(step)  # not timed: takes the memory again that the plain form's turn gave back
            if step:
                times[dtype].append(timed(partial(form.step, step), device, time.perf_counter))
                ceilings[dtype].append(matmul_rate(dtype, device))
            else:
                apart = change_apart(form.task.model, plain.model, form.start)
                differences[dtype] = {"view_difference": view_difference(plain, form), "parameter_difference": apart}
        if exact and not step:
            reference = exact_step(first, plain, samples[0])
            forms = {"plain": plain.model} | {dtype: form.task.model for dtype, form in ours.items()}
            errors = {name: change_apart(model, reference, plain.start) for name, model in forms.items()}
    median = {name: statistics.median(values) for name, values in times.items()}
    for dtype, form in ours.items():
        ceiling, rate = statistics.median(ceilings[dtype]), gflop / median[dtype]
        views = [timed(partial(form.views, 0), device, time.perf_counter) for _ in range(repeats)]
        yield SageTiming(
            width=width, dtype=dtype, labelled=labelled, unlabelled=unlabelled,
            seconds_plain=median["plain"], seconds=median[dtype], speed_up=median["plain"] / median[dtype],
            seconds_views=statistics.median(views),
            gflop=gflop, gflop_per_second=rate, ceiling=ceiling, share_of_ceiling=rate / ceiling,
            **differences[dtype], error_plain=errors["plain"], error=errors[dtype],
            channels_last=channels_last, compiled=compiled,
            device=hardware_of(device), threads=torch.get_num_threads(), repeats=repeats,
        )  # fmt: skip


class PlainForm:
    """The plain form: batches from two loader workers, one after the other."""

    def __init__(self, setting: SemiSetting, samples: Sequence[Sample]) -> None:
        self.config = setting.config
        default = torch.contiguous_format
        self.model = setting.new_model().to(memory_format=default).train()
        self.global_model = setting.new_model().to(memory_format=default).eval()
        self.start = copied(self.model.state_dict())
        self.optimiser = _sgd(self.model, setting.config)
        dataset = PlainImages(setting.images, samples, setting.training, setting.config.cutout)
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

    def views(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """A sample's labelled images, and its unlabelled ones in weak and in strong views."""
        sample, images, found = self.samples[index], self.setting.images, self.setting.training
        pool = images[sample.pool]
        labelled = weak_view(images[sample.labelled], sample.labelled_draws)
        weak = weak_view(pool, sample.weak_draws)
        strong = strong_view(pool, sample.strong_draws, self.setting.config.cutout)
        one, two, three = (normalise(part, found.mean, found.std) for part in (labelled, weak, strong))
        return one, two, three

    def step(self, index: int) -> None:
        """A sample's step, views included."""
        sample, (labelled, weak, strong) = self.samples[index], self.views(index)
        labels = self.setting.labels[sample.labelled]
        batch = Batch(labelled=labelled, labels=labels, weak=weak, strong=strong, places=sample.pool)
        with tf32_in(convolutions=self.setting.config.precision != "fp32"):
            self.task.step(batch)


def view_difference(plain: PlainForm, ours: OurForm) -> float:
    """Largest difference of the first sample's normalised views."""
    both = zip(plain.views, ours.views(0), strict=True)
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
    labelled, weak, strong = (part.double() for part in plain.views)
    labels, optimiser = setting.labels[sample.labelled], _sgd(model, setting.config)
    plain_step(model.train(), global_model.eval(), optimiser, (labelled, weak, strong), labels, setting.config)
    return model


def _sgd(model: nn.Module, config: SageConfig) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)


def _gflop(setting: SemiSetting, samples: Sequence[Sample]) -> float:
    """Operations of one step, counted beside the timed ones: counting keeps a compiled model from being compiled."""
    form = OurForm(setting, samples)
    with FlopCounterMode(display=False) as counter:
        form.step(0)
    return float(counter.get_total_flops()) / 1e9


def _draw_sample(setting: SemiSetting, step: int) -> Sample:
    config, generator = setting.config, torch_generator(0, "bench sage", step)
    n, n_u = config.batch_size, config.unlabelled_batch_size
    few, pool = setting.labelled(0), setting.pool(0)
    return Sample(
        labelled=few[torch.randint(len(few), (n,), generator=generator).to(few.device)],
        pool=pool[torch.randperm(len(pool), generator=generator)[:n_u].to(pool.device)],
        labelled_draws=draw_weak(n, IMAGE_SIZE, generator),
        weak_draws=draw_weak(n_u, IMAGE_SIZE, generator),
        strong_draws=draw_strong(n_u, IMAGE_SIZE, generator),
    )
