"""``bench step``: one training step of prompts in the plain form and in ours, in one process, turn by turn."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.engine import keep_freed_memory, profiled
from fedcopl_lab.extras.bench.flops import SHAPES
from fedcopl_lab.extras.bench.plain_prompted import PlainPromptedCLIP
from fedcopl_lab.extras.bench.timing import (
    DTYPES,
    check_counts,
    check_dtypes,
    hardware_of,
    load_average,
    matmul_rate,
    process_clock,
    timed,
)
from fedcopl_lab.models import PromptedCLIP, load_clip
from fedcopl_lab.seeding import torch_generator

_COLOURS = "red blue green dark bright striped dotted spotted golden grey"
_THINGS = (
    "bird cat dog truck ship plane tree stone river house street field cloud flower leaf bridge tower boat horse fish"
)
_SHARES = {
    "matmul": ("matrix products",),
    "attention": ("attention",),
    "norms": ("norms", "activation"),
    "copies": ("copies",),
    "other": ("rest",),
}

Result = tuple[Tensor, tuple[Tensor, ...]]  # logits, gradients of the prompts
Step = Callable[[], Result]


@dataclass(frozen=True)
class StepTiming:
    """One training step of both forms; a row of ``ours_bench_step.csv``."""

    backbone: str  # model, with random weights of a fixed seed
    classes: int  # number of classes C
    dtype: str  # of our form's matrix products; the plain form is always fp32
    batch: int  # images in the step
    seconds_plain: float  # median of the plain form
    seconds: float  # median of ours
    speed_up: float  # the first over the second
    memory_plain: int  # largest tensor bytes alive during the plain step
    memory: int  # the same of ours
    memory_ratio: float  # ours over plain
    logit_difference: float  # largest difference between the logits of both
    gradient_difference: float  # largest difference of a prompt's gradient, relative to its largest entry
    minimal_gflop: float  # what no exact form can avoid
    gflop_per_second: float  # that over our seconds
    ceiling: float  # the machine's own rate for matrix products of that type, GFLOP/s
    share_of_ceiling: float  # the one over the other
    matmul: float  # share of our time in matrix products
    attention: float  # in attention
    norms: float  # in normalisation and activation
    copies: float  # in copies and casts
    other: float  # in all else, such as sums and Python
    device: str  # hardware class
    threads: int  # CPU threads
    repeats: int  # timed steps of each form
    clock: str  # "cpu": seconds of this process; "wall" where several threads or a GPU work
    load: float  # the machine's load average when the cell began, 1 for one busy core

    def __str__(self) -> str:
        return (
            f"{self.backbone} {self.classes:>3} classes {self.dtype}: {self.seconds_plain:.3f} s -> "
            f"{self.seconds:.3f} s, {self.speed_up:.2f}x, memory x{self.memory_ratio:.2f}, logits differ by "
            f"{self.logit_difference:.1e}, {self.gflop_per_second:.0f} of {self.ceiling:.0f} GFLOP/s "
            f"({self.share_of_ceiling:.0%})\n    {self.reason}"
        )

    @property
    def reason(self) -> str:
        """Where the rest of the ceiling goes, in one sentence."""
        shares = {
            "attention over few tokens": self.attention,
            "norms and activations": self.norms,
            "copies and casts": self.copies,
            "sums and starting operations": self.other,
        }
        lost = ", ".join(f"{share:.0%} {name}" for name, share in sorted(shares.items(), key=lambda part: -part[1]))
        products = self.gflop_per_second / (self.matmul + self.attention) / self.ceiling
        return (
            f"{self.matmul:.0%} of the time are the layers' matrix products; what must be computed runs at "
            f"{products:.0%} of the ceiling in them, and the rest moves more memory than it computes: {lost}"
        )


def bench_step(
    backbones: Sequence[str] = ("ViT-B-32", "ViT-B-16"),
    classes: Sequence[int] = (10, 47, 100, 200),
    dtypes: Sequence[str] = DTYPES,
    batch: int = 64,
    repeats: int = 5,
    device: str = "cpu",
) -> Iterator[tuple[StepTiming, dict[str, float], dict[str, float]]]:
    """Time a training step, forward and backward: the plain form from pixels, ours from the cached stem output.

    Args:
        backbones: ``"ViT-B-32"``, ``"ViT-B-16"`` or ``"tiny"``.
        classes: numbers of classes, 1 to 220.
        dtypes: ``"fp32"``, ``"tf32"`` and ``"bf16"``, of our form; the plain form is always fp32.
        batch: images in a step.
        repeats: timed steps of each form, after one that is not timed.
        device: ``"cpu"`` or ``"cuda"``.

    Returns:
        One timing per cell as it is measured, with seconds by kind of operation of the plain form and of ours.

    Raises:
        FedCoPLError: an unknown backbone or type, or numbers out of range.

    >>> timing, _, _ = next(bench_step(["tiny"], [10], ["fp32"], batch=8, repeats=1))
    >>> timing.logit_difference < 1e-4
    True
    """
    _check(backbones, classes, dtypes, batch, repeats)
    keep_freed_memory()
    for backbone in backbones:
        clip = load_clip(backbone, device=device, weights="random")
        n_text = SHAPES[backbone].n_text
        generator = torch_generator(0, "bench", backbone)
        images = torch.randn(batch, 3, clip.image_size, clip.image_size, generator=generator).to(device)
        for count in classes:
            names = class_names(count)
            labels = torch.randint(count, (batch,), generator=generator).to(device)
            plain = PlainPromptedCLIP(clip.model, clip.tokenizer, names)
            ours = {
                dtype: PromptedCLIP(
                    clip.model, clip.tokenizer, names, n_text=n_text, precision="bf16" if dtype == "bf16" else "fp32"
                )
                for dtype in dtypes
            }
            first = ours[dtypes[0]]
            prompts = [prompt.requires_grad_() for prompt in first.initial_prompts(generator)]
            tokens = first.image_tokens(images)
            forms: dict[str, Step] = {"plain": partial(_train_step, plain, images, labels, prompts)}
            forms |= {
                dtype: tf32_in(matrices=dtype == "tf32")(partial(_train_step, form, tokens, labels, prompts))
                for dtype, form in ours.items()
            }
            gflop = SHAPES[backbone].step(batch, first.own_lengths) / 1e9
            cell = {"backbone": backbone, "classes": count, "batch": batch, "minimal_gflop": gflop}
            yield from _time_cell(cell, forms, repeats, device)


def class_names(count: int) -> list[str]:
    """Names of one to three words, as those of the papers' sets: 3 to 5 own tokens."""
    names = _THINGS.split() + [f"{colour} {thing}" for colour in _COLOURS.split() for thing in _THINGS.split()]
    return [f"small {name}" if i % 5 == 4 else name for i, name in enumerate(names)][:count]


def _train_step(form: Any, images: Tensor, labels: Tensor, prompts: list[Tensor]) -> Result:
    logits = form.logits(images, *prompts)
    return logits.detach(), torch.autograd.grad(F.cross_entropy(logits, labels), prompts)


def _time_cell(
    cell: dict[str, Any], forms: dict[str, Step], repeats: int, device: str
) -> Iterator[tuple[StepTiming, dict[str, float], dict[str, float]]]:
    """Profile each form once, then time all of them turn by turn."""
    load, results = load_average(), {}

    def keep(name: str) -> None:
        results[name] = forms[name]()

    profiles = {name: profiled(partial(keep, name), device) for name in forms}  # also the step that is not timed
    dtypes = list(forms)[1:]
    times: dict[str, list[float]] = {name: [] for name in forms}
    ceilings: dict[str, list[float]] = {name: [] for name in dtypes}
    for _ in range(repeats):
        for name, step in forms.items():
            times[name].append(timed(step, device))
        for name in dtypes:
            ceilings[name].append(matmul_rate(name, device, seconds=0.3))
    median = {name: statistics.median(values) for name, values in times.items()}
    (logits, gradients), (memory_plain, kinds_plain) = results["plain"], profiles["plain"]
    for dtype in dtypes:
        (own_logits, own_gradients), (memory, kinds) = results[dtype], profiles[dtype]
        ceiling, rate = statistics.median(ceilings[dtype]), cell["minimal_gflop"] / median[dtype]
        apart = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(own_gradients, gradients, strict=True)]
        spent = sum(kinds.values())
        shares: dict[str, Any] = {
            name: sum(kinds.get(part, 0.0) for part in parts) / spent for name, parts in _SHARES.items()
        }
        timing = StepTiming(
            **cell, **shares, dtype=dtype, seconds_plain=median["plain"], seconds=median[dtype],
            speed_up=median["plain"] / median[dtype], memory_plain=memory_plain, memory=memory,
            memory_ratio=memory / memory_plain, logit_difference=float((own_logits - logits).abs().max()),
            gradient_difference=max(apart), gflop_per_second=rate, ceiling=ceiling, share_of_ceiling=rate / ceiling,
            device=hardware_of(device), threads=torch.get_num_threads(), repeats=repeats,
            clock="cpu" if process_clock(device) is time.process_time else "wall", load=load,
        )  # fmt: skip
        yield timing, kinds_plain, kinds


def _check(backbones: Sequence[str], classes: Sequence[int], dtypes: Sequence[str], batch: int, repeats: int) -> None:
    for backbone in backbones:
        check_choice("backbone", backbone, SHAPES)
    check_dtypes(dtypes)
    most = len(class_names(1000))
    for count in classes:
        if not 1 <= count <= most:
            raise FedCoPLError(f"classes={count}; expected 1 to {most}, which the bench has names for")
    check_counts(batch=batch, repeats=repeats)
    if not (backbones and classes and dtypes):
        raise FedCoPLError("nothing to time; name at least one backbone, number of classes and dtype")
