"""``bench sage``: one local step of SAGE in the plain form and in ours, in one process, turn by turn."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import SageConfig, configure
from fedcopl_lab.data import draw_strong, draw_weak
from fedcopl_lab.engine._memory import keep_freed_memory, return_freed_memory
from fedcopl_lab.extras.bench.plain_sage import Sample
from fedcopl_lab.extras.bench.sage_forms import OurForm, PlainForm, change_apart, exact_step, view_difference
from fedcopl_lab.extras.bench.step import matmul_rate
from fedcopl_lab.methods import SemiSetting
from fedcopl_lab.seeding import torch_generator

IMAGE_SIZE = 32
DTYPES = ("fp32", "bf16")


@dataclass(frozen=True)
class SageTiming:
    """One local step of SAGE, from uint8 images to new parameters, in both forms.

    Attributes:
        width: of ResNet-8; 4 is the paper's.
        dtype: of our form's products; the plain form is always fp32.
        labelled: labelled images of the step.
        unlabelled: unlabelled images, each seen in a weak and a strong view.
        seconds_plain: median of the plain form: Pillow in two workers, the global model's graph kept, default
            memory layout, glibc's default handling of freed memory.
        seconds: median of ours, in memory that the step before it has used, as in a round.
        speed_up: the first over the second.
        seconds_views: median of ours for the views alone.
        gflop: operations of our step's convolutions and products.
        gflop_per_second: our rate over the whole step, views included.
        ceiling: the machine's own rate for matrix products of that type, GFLOP/s.
        share_of_ceiling: the one over the other.
        view_difference: largest difference between the two forms' normalised views.
        parameter_difference: largest difference between parameters after one step from the same start with
            the same random numbers, relative to the largest change of the step.
        error_plain: the same between the plain form and a step in float64; None unless ``exact``.
        error: the same of our form.
        channels_last: our form's memory layout.
        compiled: whether our form's models were compiled.
        device: hardware class.
        threads: CPU threads.
        repeats: timed steps of each form.
    """

    width: float
    dtype: str
    labelled: int
    unlabelled: int
    seconds_plain: float
    seconds: float
    speed_up: float
    seconds_views: float
    gflop: float
    gflop_per_second: float
    ceiling: float
    share_of_ceiling: float
    view_difference: float
    parameter_difference: float
    error_plain: float | None
    error: float | None
    channels_last: bool
    compiled: bool
    device: str
    threads: int
    repeats: int

    def __repr__(self) -> str:
        return (
            f"SageTiming(width {self.width:g} {self.dtype}: {self.speed_up:.2f}x, "
            f"{self.share_of_ceiling:.0%} of the ceiling)"
        )

    def row(self) -> dict[str, Any]:
        """The fields by name, for a table."""
        return asdict(self)


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
        dtypes: ``"fp32"`` and ``"bf16"``, of our form.
        labelled: labelled images of a step.
        unlabelled: unlabelled images of a step, at most 1,000.
        repeats: timed steps of each form, after one that is not timed.
        device: ``"cpu"`` or ``"cuda"``.
        channels_last: our form's memory layout; the plain form has the default one.
        compiled: compile our form's models, which takes a C++ compiler and half a minute.
        exact: also take the step in float64 and tell both forms' distance to it; slow, and 10 GB at width 4.

    Returns:
        One timing per dtype.

    Raises:
        FedCoPLError: an unknown dtype, or numbers out of range.

    >>> next(bench_sage(width=0.25, dtypes=["fp32"], labelled=4, unlabelled=8, repeats=1)).view_difference < 1e-5
    True

    The command is ``fedcopl-lab bench sage``.
    """
    _check(dtypes, labelled, unlabelled, repeats)
    configs = {
        dtype: replace(
            _config(width, dtype, labelled, unlabelled, device), channels_last=channels_last, compile=compiled
        )
        for dtype in dtypes
    }
    setting = SemiSetting.of(next(iter(configs.values())))
    samples = [_sample(setting, i) for i in range(repeats + 1)]
    plain = PlainForm(setting, samples)
    ours = {dtype: OurForm(SemiSetting.of(config), samples) for dtype, config in configs.items()}
    times: dict[str, list[float]] = {name: [] for name in ("plain", *dtypes)}
    ceilings: dict[str, list[float]] = {name: [] for name in dtypes}
    gflop = _gflop(SemiSetting.of(replace(setting.config, compile=False)), samples)
    differences: dict[str, tuple[float, float]] = {}
    errors: dict[str, float | None] = dict.fromkeys(("plain", *dtypes))
    for step in range(repeats + 1):  # the first is compared, the others are timed
        return_freed_memory()
        taken = _timed(plain.step, device)
        if step:
            times["plain"].append(taken)
        for dtype, form in ours.items():
            keep_freed_memory()
            form.step(step)  # not timed: takes the memory again that the plain form's turn gave back
            if step:
                times[dtype].append(_timed(partial(form.step, step), device))
                ceilings[dtype].append(matmul_rate(dtype, device))
            else:
                differences[dtype] = view_difference(plain, form), change_apart(form.model, plain.model, form.start)
        if exact and not step:
            reference = exact_step(setting, plain, samples[0])
            forms = {"plain": plain.model} | {dtype: form.model for dtype, form in ours.items()}
            errors = {name: change_apart(model, reference, plain.start) for name, model in forms.items()}
    median = {name: statistics.median(values) for name, values in times.items()}
    for dtype, form in ours.items():
        ceiling, rate = statistics.median(ceilings[dtype]), gflop / median[dtype]
        yield SageTiming(
            width=width, dtype=dtype, labelled=labelled, unlabelled=unlabelled,
            seconds_plain=median["plain"], seconds=median[dtype], speed_up=median["plain"] / median[dtype],
            seconds_views=statistics.median(_timed(partial(form.batch, 0), device) for _ in range(repeats)),
            gflop=gflop, gflop_per_second=rate, ceiling=ceiling, share_of_ceiling=rate / ceiling,
            view_difference=differences[dtype][0], parameter_difference=differences[dtype][1],
            error_plain=errors["plain"], error=errors[dtype],
            channels_last=channels_last, compiled=compiled,
            device=torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
            threads=torch.get_num_threads(), repeats=repeats,
        )  # fmt: skip


def _gflop(setting: SemiSetting, samples: Sequence[Sample]) -> float:
    """Operations of one step, counted beside the timed ones: counting keeps a compiled model from being compiled."""
    form = OurForm(setting, samples)
    with FlopCounterMode(display=False) as counter:
        form.step(0)
    return float(counter.get_total_flops()) / 1e9


def _config(width: float, dtype: str, labelled: int, unlabelled: int, device: str) -> SageConfig:
    return configure(
        "paper", method="SAGE", dataset="digits", image_size=IMAGE_SIZE, n_clients=1, participation=1.0, scheme="iid",
        width=width, batch_size=labelled, unlabelled_batch_size=unlabelled, precision=dtype, device=device,
    )  # fmt: skip


def _sample(setting: SemiSetting, step: int) -> Sample:
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


def _timed(work: Callable[[], Any], device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _check(dtypes: Sequence[str], labelled: int, unlabelled: int, repeats: int) -> None:
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise FedCoPLError(f"dtype {dtype!r} is unknown; choose among {', '.join(DTYPES)}")
    if not dtypes:
        raise FedCoPLError("nothing to time; name at least one dtype")
    for name, value in (("labelled", labelled), ("unlabelled", unlabelled), ("repeats", repeats)):
        if value < 1:
            raise FedCoPLError(f"{name}={value}; expected 1 or more")
    if max(labelled, unlabelled) > 1000:
        raise FedCoPLError(f"a step of {labelled} + {unlabelled} images; the bench's digits carry up to 1000 of each")
