"""What a run will cost before it starts: steps, FLOPs, hours and memory, from rates measured on this machine."""

import math
from dataclasses import dataclass, replace

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.data import counts_of, load_dataset, split_name
from fedcopl_lab.extras.bench.flops import SHAPES, Shape
from fedcopl_lab.extras.bench.rates import Rates
from fedcopl_lab.methods._setting import IMAGES_PER_FORWARD

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


@dataclass(frozen=True)
class RunPlan:
    """The cost of one run.

    Attributes:
        steps: optimiser steps over all clients and rounds.
        images_trained: images that pass forward and backward.
        images_scored: images that pass forward only, for labels and tests.
        flop: floating-point operations that the exact form cannot avoid.
        seconds: estimated time.
        bytes: estimated largest memory of the process; images mapped from a file do not count.
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
    clients = config.clients_per_round
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
    # the stem runs once for the tokens and once for the zero-shot scores
    flop = (
        shape.image_forward(image_steps) + shape.image_backward(image_steps)
        + text_steps * (shape.text_forward(own) + shape.text_backward(own))
        + shape.image_forward(scored) + texts * shape.text_forward(own) + 4 * everything * shape.stem
    )  # fmt: skip
    seconds = (
        image_steps * rates.image_step + text_steps * rates.text_step + scored * rates.image_forward
        + texts * rates.text_forward + 2 * everything * rates.stem
    )  # fmt: skip
    memory: float = rates.base_bytes + rates.model_bytes + everything * rates.token_bytes
    memory += max(_training_bytes(config, rates, n_train, per_client), _scoring_bytes(config, rates, n_train, n_test))
    return RunPlan(steps, trained, scored, float(flop), seconds, memory)


def _training_bytes(config: PromptConfig, rates: Rates, n_train: int, selected: int) -> float:
    """A group of clients: each one's images, the pseudo-labelled of them once more, and one step."""
    together = min(config.clients_per_forward, config.n_clients)
    images = math.ceil(n_train / config.n_clients) + selected
    step = min(config.batch_size, selected) * rates.image_bytes + rates.text_bytes
    return together * (images * rates.token_bytes + step)


def _scoring_bytes(config: PromptConfig, rates: Rates, n_train: int, n_test: int) -> float:
    """The test images, or one client's training images, and one forward pass of some of them."""
    images = max(n_test, math.ceil(n_train / config.n_clients))
    return images * rates.token_bytes + min(IMAGES_PER_FORWARD, n_train + n_test) * rates.score_bytes


def dataset_sizes(name: str) -> tuple[int, int, int]:
    """Training images, test images and classes of a data set by name; of a part of one as well."""
    part = split_name(name, SIZES)
    if part.whole in SIZES:
        *sizes, n_classes = SIZES[part.whole]
        return *counts_of(part, *sizes), n_classes
    if name.startswith("folder:"):
        dataset = load_dataset(name)
        return len(dataset.train_indices), len(dataset.test_indices), dataset.n_classes
    raise FedCoPLError(f"the size of data set {name!r} is not known here; choose among {', '.join(SIZES)}")


def own_lengths(n_classes: int) -> list[int]:
    """Own tokens of the classes, as long as those of the papers' sets on average."""
    return [4] * n_classes


def shape_of(config: PromptConfig) -> Shape:
    """The sizes of a run's model and prompts."""
    if config.clip not in SHAPES:
        raise FedCoPLError(f"the FLOPs of {config.clip!r} are not counted here; choose among {', '.join(SHAPES)}")
    known = SHAPES[config.clip]
    depth = known.visual_depth if config.visual_depth is None else config.visual_depth
    return replace(known, n_text=config.n_text, n_visual=config.n_visual, visual_depth=depth)
