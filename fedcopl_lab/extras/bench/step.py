"""``bench step``: one training step in the plain form and in ours, in one process, turn by turn."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.engine._memory import keep_freed_memory, profiled
from fedcopl_lab.extras.bench.flops import SHAPES
from fedcopl_lab.extras.bench.plain_prompted import PlainPromptedCLIP
from fedcopl_lab.extras.bench.timing import StepTiming
from fedcopl_lab.models import PromptedCLIP, load_clip
from fedcopl_lab.seeding import torch_generator

BACKBONES = ("ViT-B-32", "ViT-B-16")
CLASSES = (10, 47, 100, 200)
DTYPES = ("fp32", "bf16")
_COLOURS = ("red", "blue", "green", "dark", "bright", "striped", "dotted", "spotted", "golden", "grey")
_THINGS = ("bird", "cat", "dog", "truck", "ship", "plane", "tree", "stone", "river", "house",
           "street", "field", "cloud", "flower", "leaf", "bridge", "tower", "boat", "horse", "fish")  # fmt: skip


def bench_step(
    backbones: Sequence[str] = BACKBONES,
    classes: Sequence[int] = CLASSES,
    dtypes: Sequence[str] = DTYPES,
    batch: int = 64,
    repeats: int = 5,
    device: str = "cpu",
) -> Iterator[tuple[StepTiming, dict[str, float], dict[str, float]]]:
    """Time one training step (forward and backward) in the plain form and in ours.

    Both start from what training starts from: the plain form from pixels, ours from the cached stem output.

    Args:
        backbones: ``"ViT-B-32"``, ``"ViT-B-16"`` or ``"tiny"``.
        classes: numbers of classes, 1 to 200.
        dtypes: ``"fp32"`` and ``"bf16"``, of our form; the plain form is always fp32.
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

    The command is ``fedcopl-lab bench step``.
    """
    _check(backbones, classes, dtypes, batch, repeats)
    keep_freed_memory()
    for backbone in backbones:
        clip = load_clip(backbone, device=device, weights="random")
        generator = torch_generator(0, "bench", backbone)
        images = torch.randn(batch, 3, clip.image_size, clip.image_size, generator=generator).to(device)
        for count in classes:
            names = class_names(count)
            labels = torch.randint(count, (batch,), generator=generator).to(device)
            plain = PlainPromptedCLIP(clip.model, clip.tokenizer, names)
            shape = SHAPES[backbone]
            ours = {
                dtype: PromptedCLIP(clip.model, clip.tokenizer, names, n_text=shape.n_text, precision=dtype)
                for dtype in dtypes
            }
            first = ours[dtypes[0]]
            prompts = [prompt.requires_grad_() for prompt in first.initial_prompts(generator)]
            tokens = first.image_tokens(images)
            forms = {"plain": _step(plain, images, labels, prompts)}
            forms |= {dtype: _step(form, tokens, labels, prompts) for dtype, form in ours.items()}
            yield from _cell(backbone, count, batch, repeats, device, forms, first.own_lengths)


def class_names(count: int) -> list[str]:
    """Names of one to three words, as those of the papers' sets: 3 to 5 own tokens."""
    names = list(_THINGS)
    names += [f"{colour} {thing}" for colour in _COLOURS for thing in _THINGS]
    return [f"small {name}" if i % 5 == 4 else name for i, name in enumerate(names)][:count]


def matmul_rate(dtype: str, device: str = "cpu", seconds: float = 0.5) -> float:
    """Best rate of products of the sizes that the towers have, GFLOP/s: the ceiling of a step."""
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    best = 0.0
    for rows, inner, columns in ((3200, 768, 3072), (3200, 3072, 768), (3200, 768, 2304)):
        a, b = (
            torch.randn(rows, inner, device=device, dtype=kind),
            torch.randn(columns, inner, device=device, dtype=kind),
        )
        product = partial(F.linear, a, b)
        timed(product, device)
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            best = max(best, 2e-9 * rows * inner * columns / timed(product, device))
    return best


Step = Callable[[], tuple[Tensor, tuple[Tensor, ...]]]


def _step(form: Any, images: Tensor, labels: Tensor, prompts: list[Tensor]) -> Step:
    def step() -> tuple[Tensor, tuple[Tensor, ...]]:
        logits = form.logits(images, *prompts)
        return logits.detach(), torch.autograd.grad(F.cross_entropy(logits, labels), prompts)

    return step


def _cell(
    backbone: str, count: int, batch: int, repeats: int, device: str, forms: dict[str, Step], own_lengths: list[int]
) -> Iterator[tuple[StepTiming, dict[str, float], dict[str, float]]]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    results: dict[str, tuple[Tensor, tuple[Tensor, ...]]] = {}

    def noted(name: str) -> Callable[[], None]:
        return lambda: results.__setitem__(name, forms[name]())

    profiles = {name: profiled(noted(name), device) for name in forms}  # also the step that is not timed
    times: dict[str, list[float]] = {name: [] for name in forms}
    ceilings: dict[str, list[float]] = {name: [] for name in list(forms)[1:]}
    for _ in range(repeats):
        for name, step in forms.items():
            times[name].append(timed(step, device))
        for name, found in ceilings.items():
            found.append(matmul_rate(name, device, seconds=0.3))
    gflop = SHAPES[backbone].step(batch, own_lengths) / 1e9
    median = {name: statistics.median(values) for name, values in times.items()}
    logits, gradients = results["plain"]
    for dtype in ceilings:
        own_logits, own_gradients = results[dtype]
        ceiling, rate = statistics.median(ceilings[dtype]), gflop / median[dtype]
        yield (
            StepTiming(
                backbone=backbone,
                classes=count,
                dtype=dtype,
                batch=batch,
                seconds_plain=median["plain"],
                seconds=median[dtype],
                speed_up=median["plain"] / median[dtype],
                memory_plain=profiles["plain"][0],
                memory=profiles[dtype][0],
                memory_ratio=profiles[dtype][0] / profiles["plain"][0],
                logit_difference=float((own_logits - logits).abs().max()),
                gradient_difference=max(
                    float((a - b).abs().max() / b.abs().max()) for a, b in zip(own_gradients, gradients, strict=True)
                ),
                minimal_gflop=gflop,
                gflop_per_second=rate,
                ceiling=ceiling,
                share_of_ceiling=rate / ceiling,
                **_shares(profiles[dtype][1]),
                device=torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
                threads=torch.get_num_threads(),
                repeats=repeats,
                clock="cpu" if _clock(device) is time.process_time else "wall",
                load=load,
            ),
            profiles["plain"][1],
            profiles[dtype][1],
        )


def _shares(kinds: dict[str, float]) -> dict[str, float]:
    total = sum(kinds.values())
    parts = {"matmul": "matrix products", "attention": "attention", "copies": "copies", "other": "rest"}
    shares = {name: kinds.get(kind, 0.0) / total for name, kind in parts.items()}
    return shares | {"norms": (kinds.get("norms", 0.0) + kinds.get("activation", 0.0)) / total}


def _clock(device: str) -> Callable[[], float]:
    """Seconds of this process alone where it computes with one thread, so that other processes disturb less."""
    return time.process_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter


def timed(work: Callable[[], Any], device: str) -> float:
    """Seconds that a piece of work takes, the device's queue included."""
    clock = _clock(device)
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    start = clock()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return clock() - start


def _check(backbones: Sequence[str], classes: Sequence[int], dtypes: Sequence[str], batch: int, repeats: int) -> None:
    for backbone in backbones:
        if backbone not in SHAPES:
            raise FedCoPLError(f"backbone {backbone!r} is unknown; choose among {', '.join(SHAPES)}")
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise FedCoPLError(f"dtype {dtype!r} is unknown; choose among {', '.join(DTYPES)}")
    most = len(_THINGS) * (len(_COLOURS) + 1)
    for count in classes:
        if not 1 <= count <= most:
            raise FedCoPLError(f"classes={count}; expected 1 to {most}, which the bench has names for")
    for name, value in (("batch", batch), ("repeats", repeats)):
        if value < 1:
            raise FedCoPLError(f"{name}={value}; expected 1 or more")
    if not (backbones and classes and dtypes):
        raise FedCoPLError("nothing to time; name at least one backbone, number of classes and dtype")
