"""What a run will cost before it starts: steps, FLOPs, hours and memory, from rates measured on this machine."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.engine._bench import class_names
from fedcopl_lab.engine._memory import keep_freed_memory, profiled
from fedcopl_lab.models import PromptedCLIP, load_clip
from fedcopl_lab.models._flops import SHAPES, Shape
from fedcopl_lab.seeding import torch_generator

SELECTED_SHARE = 0.47
"""Pseudo-labelled share of the training images with both filters at their medians (an estimate)."""

SIZES = {
    "digits": (1197, 600, 10),
    "dtd": (2820, 1692, 47),
    "resisc45": (6300, 25200, 45),
    "cub": (5994, 5794, 200),
    "ucf101": (7639, 3783, 101),
    "cifar10": (50000, 10000, 10),
    "cifar100": (50000, 10000, 100),
}
"""Training images, test images and classes of each data set."""

_TIMED_IMAGES = 16


@dataclass(frozen=True)
class Rates:
    """What this machine needs for one model and one number of classes.

    Attributes:
        image_step: seconds per image of a training step, forward and backward.
        text_step: seconds per training step for the text features of all classes, forward and backward.
        image_forward: seconds per image without gradients, from the stem's output.
        text_forward: seconds for the text features of all classes without gradients.
        stem: seconds per image up to the first prompted layer.
        image_bytes: largest tensor bytes per image of a training step.
        text_bytes: the same for the texts of a step.
        model_bytes: bytes of the frozen weights.
        token_bytes: bytes kept per image of the data set, the stem's output.
    """

    image_step: float
    text_step: float
    image_forward: float
    text_forward: float
    stem: float
    image_bytes: float
    text_bytes: float
    model_bytes: int
    token_bytes: int

    def __repr__(self) -> str:
        return f"Rates({self.image_step * 1e3:.2f} ms per image and {self.text_step * 1e3:.1f} ms of text per step)"


@dataclass(frozen=True)
class RunPlan:
    """The cost of one run.

    Attributes:
        steps: optimiser steps over all clients and rounds.
        images_trained: images that pass forward and backward.
        images_scored: images that pass forward only, for labels and tests.
        flop: floating-point operations that the exact form cannot avoid.
        seconds: estimated time.
        bytes: estimated largest memory: weights, cached tokens and one step.
    """

    steps: int
    images_trained: int
    images_scored: int
    flop: float
    seconds: float
    bytes: float

    def __repr__(self) -> str:
        size = f"{self.flop / 1e12:.1f} TFLOP, {self.seconds:.0f} s, {self.bytes / 1e9:.1f} GB"
        return f"RunPlan({self.steps} steps, {size})"


def plan_run(
    config: PromptConfig,
    rates: Rates,
    sizes: tuple[int, int, int] | None = None,
    selected_share: float = SELECTED_SHARE,
) -> RunPlan:
    """Estimate one run.

    Args:
        config: the run.
        rates: from :func:`measure_rates` with the same model and classes.
        sizes: training images, test images and classes; None takes those of the data set.
        selected_share: pseudo-labelled share of the training images.

    Returns:
        The plan; clients are taken as equally large, and FedOTP's transport is not counted.

    Raises:
        FedCoPLError: a data set whose size, or a model whose FLOPs, are not known here.

    >>> plan_run(configure("smoke"), measure_rates("tiny", 10)).steps
    420
    """
    n_train, n_test, n_classes = sizes or dataset_sizes(config.dataset)
    shape, own = shape_of(config), own_lengths(n_classes)
    clients = max(int(config.participation * config.n_clients), 1)
    per_client = math.ceil(selected_share * n_train / config.n_clients)
    epochs = config.rounds * config.local_epochs * clients
    steps, trained = epochs * math.ceil(per_client / config.batch_size), epochs * per_client
    phases = math.ceil(config.rounds / config.refresh_every) if config.refresh_every else min(config.rounds, 1)
    learns_text, learns_image = (part in config.trained for part in ("text", "visual"))
    encodings = config.rounds if "visual" in config.shared or not learns_image else 0
    scored = max(phases - 1, 0) * n_train + encodings * n_test + (n_train + n_test)
    if config.rounds and not encodings:  # every client has its own visual prompt
        scored += config.rounds * n_test + config.n_clients * n_test
    contexts = 2 if config.method == "FedOTP" else 1
    texts = contexts * config.n_clients * (config.rounds + max(phases - 1, 0)) + 1
    if not learns_image:  # a round encodes its images once
        scored += trained // config.local_epochs
    image_steps, text_steps = trained * learns_image, steps * contexts * learns_text
    everything = n_train + n_test
    flop = (
        shape.image_forward(image_steps) + shape.image_backward(image_steps)
        + text_steps * (shape.text_forward(own) + shape.text_backward(own))
        + shape.image_forward(scored) + texts * shape.text_forward(own) + 2 * everything * shape.stem
    )  # fmt: skip
    seconds = (
        image_steps * rates.image_step + text_steps * rates.text_step + scored * rates.image_forward
        + texts * rates.text_forward + 2 * everything * rates.stem
    )  # fmt: skip
    together = config.clients_per_forward
    step_bytes = together * (min(config.batch_size, per_client) * rates.image_bytes + rates.text_bytes)
    memory = rates.model_bytes + everything * rates.token_bytes + step_bytes
    return RunPlan(steps, trained, scored, float(flop), seconds, memory)


@lru_cache(maxsize=16)
def measure_rates(
    clip: str,
    n_classes: int,
    batch: int = _TIMED_IMAGES,
    device: str = "cpu",
    precision: str = "fp32",
    repeats: int = 3,
) -> Rates:
    """Time the parts of a run on this machine, with random weights.

    Args:
        clip: model name.
        n_classes: classes whose texts are encoded.
        batch: images of the timed step.
        device: where.
        precision: of training.
        repeats: timed calls of each part; the median counts.
    """
    keep_freed_memory()
    bundle = load_clip(clip, device=device, weights="random")
    shape = SHAPES[clip]
    prompted, training = (
        PromptedCLIP(bundle.model, bundle.tokenizer, class_names(n_classes), n_text=shape.n_text, precision=kind)
        for kind in ("fp32", "bf16" if precision == "bf16" else "fp32")
    )  # fmt: skip
    generator = torch_generator(0, "plan", clip)
    images = torch.randn(batch, 3, bundle.image_size, bundle.image_size, generator=generator).to(device)
    text, visual = (prompt.requires_grad_() for prompt in prompted.initial_prompts(generator))
    tokens = prompted.image_tokens(images)

    def scored(work: Callable[[], Tensor]) -> Callable[[], Any]:
        return torch.no_grad()(work)

    def image_step() -> Any:
        return torch.autograd.grad(training.image_features(tokens, visual).sum(), visual)

    def text_step() -> Any:
        return torch.autograd.grad(training.text_features(text).sum(), text)

    parts: tuple[Callable[[], Any], ...] = (
        image_step, text_step, scored(lambda: prompted.image_features(tokens, visual)),
        scored(lambda: prompted.text_features(text)), lambda: prompted.image_tokens(images),
    )  # fmt: skip
    image_s, text_s, image_f, text_f, stem = (_median(part, device, repeats) for part in parts)
    return Rates(
        image_step=image_s / batch,
        text_step=text_s,
        image_forward=image_f / batch,
        text_forward=text_f,
        stem=stem / batch,
        image_bytes=profiled(image_step, device)[0] / batch,
        text_bytes=float(profiled(text_step, device)[0]),
        model_bytes=sum(weight.nbytes for weight in bundle.model.parameters()),
        token_bytes=tokens[0].nbytes,
    )


def dataset_sizes(name: str) -> tuple[int, int, int]:
    """Training images, test images and classes of a data set by name."""
    if name not in SIZES:
        raise FedCoPLError(f"the size of data set {name!r} is not known here; choose among {', '.join(SIZES)}")
    return SIZES[name]


def own_lengths(n_classes: int) -> list[int]:
    """Own tokens of the classes, as long as those of the papers' sets on average."""
    return [4] * n_classes


def shape_of(config: PromptConfig) -> Shape:
    """The sizes of a run's model and prompts."""
    if config.clip not in SHAPES:
        raise FedCoPLError(f"the FLOPs of {config.clip!r} are not counted here; choose among {', '.join(SHAPES)}")
    known = SHAPES[config.clip]
    depth = known.visual_depth if config.visual_depth is None else config.visual_depth
    return Shape(
        known.image_tokens, known.image_width, known.image_layers, known.text_width, known.text_layers,
        n_text=config.n_text, n_visual=config.n_visual, visual_depth=depth, stem=known.stem * 2,
    )  # fmt: skip


def _median(work: Callable[[], Any], device: str, repeats: int) -> float:
    times = []
    for i in range(repeats + 1):
        start = time.perf_counter()
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        if i:
            times.append(time.perf_counter() - start)
    return statistics.median(times)
