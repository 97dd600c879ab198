"""What a run will cost before it starts: steps, FLOPs, hours and memory, from rates measured on this machine."""

import math
from dataclasses import dataclass, replace

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig
from fedcopl_lab.data import counts_of, known_manifests, load_dataset, load_manifest, split_name
from fedcopl_lab.extras.bench.flops import SHAPES, Shape
from fedcopl_lab.extras.bench.rates import TIMED_IMAGES, Rates, SageRates, measure_rates, measure_sage_rates
from fedcopl_lab.methods import IMAGES_PER_FORWARD, RECIPES, VIEWS_AT_ONCE, pool_steps
from fedcopl_lab.steps import IMAGES_PER_FORWARD as SCORED_AT_ONCE

SELECTED_SHARE = 0.47
"""Pseudo-labelled share of the training images with both filters at their medians (an estimate)."""

_REPORTS = 2  # of pool images: by the model a client starts from and by its trained one
_MODELS = 6  # in training, frozen, merged, sums in float64, and the stored state

Sizes = tuple[int, int, int, int]


@dataclass(frozen=True)
class RunPlan:
    """The cost of one run."""

    steps: int  # optimiser steps over all clients and rounds
    images_trained: int  # images that pass forward and backward
    images_scored: int  # images that pass forward only, for labels and tests
    flop: float  # that the exact form cannot avoid; of SAGE's methods those of their convolutions and products
    seconds: float  # estimated time
    bytes: float  # estimated largest memory of the process; images mapped from a file do not count

    def __repr__(self) -> str:
        size = f"{self.flop / 1e12:.1f} TFLOP, {self.seconds:.0f} s, {self.bytes / 1e9:.1f} GB"
        return f"RunPlan({self.steps} steps, {size})"


def plan_run(
    config: RunConfig,
    rates: Rates | SageRates | None = None,
    *,
    gflops: float | None = None,
    repeats: int = 3,
    sizes: Sizes | None = None,
    selected_share: float = SELECTED_SHARE,
) -> RunPlan:
    """Estimate one run of either paper; clients are taken as equally large.

    Args:
        config: the run.
        rates: known rates of its model; None measures this machine for a second or a few.
        gflops: sustained GFLOP/s of another machine, instead of measured times.
        repeats: timed calls where rates are measured.
        sizes: training images, test images, classes and side of an image; None takes those of the data set.
        selected_share: pseudo-labelled share of the training images, of a FedCoPL run.

    Raises:
        FedCoPLError: a data set whose size, or a model whose FLOPs, are not known here; a rate that is not positive.

    >>> plan_run(lab.configure("smoke"), gflops=20.0).steps
    160
    """
    if isinstance(config, SageConfig):
        sizes = sizes or data_sizes(config.dataset, config.image_size)
        found = measure_sage_rates(config, sizes[3], gflops, repeats) if rates is None else rates
        assert isinstance(found, SageRates)
        return _plan_sage(config, found, sizes)
    assert isinstance(config, PromptConfig)
    shape = shape_of(config)
    sizes = sizes or data_sizes(config.dataset)
    if rates is None:
        rates = measure_rates(
            config.clip, sizes[2], device=config.device, precision=config.precision, repeats=repeats, gflops=gflops,
            batch=config.batch_size if config.clip.startswith("tiny") else TIMED_IMAGES,
            clients=min(config.clients_per_forward, config.n_clients),
        )  # fmt: skip
    assert isinstance(rates, Rates)
    return _plan_prompts(config, rates, shape, sizes, selected_share)


def data_sizes(name: str, image_size: int | None = None) -> Sizes:
    """Training images, test images, classes and side of an image; a named set need not be on this machine.

    Args:
        name: a set, a part of one such as ``"cifar10:300"``, or ``"folder:PATH"``.
        image_size: side to which images are resized; None: their own.

    >>> data_sizes("cifar10:300")
    (250, 50, 10, 32)
    """
    if name.startswith("folder:"):
        dataset = load_dataset(name, image_size=image_size)
        return len(dataset.train_indices), len(dataset.test_indices), dataset.n_classes, dataset.images.shape[-1]
    known = known_manifests("dataset")
    part = split_name(name, known)
    if part.whole not in known:
        raise FedCoPLError(f"the size of data set {name!r} is not known here; choose among {', '.join(known)}")
    manifest = load_manifest(part.whole)
    n_train, n_test = counts_of(part, manifest.n_train, manifest.n_test)
    return n_train, n_test, len(manifest.classes), image_size or manifest.image_size[0]


def shape_of(config: PromptConfig) -> Shape:
    """The sizes of a run's model and prompts."""
    if config.clip not in SHAPES:
        raise FedCoPLError(f"the FLOPs of {config.clip!r} are not counted here; choose among {', '.join(SHAPES)}")
    known = SHAPES[config.clip]
    depth = known.visual_depth if config.visual_depth is None else config.visual_depth
    return replace(known, n_text=config.n_text, n_visual=config.n_visual, visual_depth=depth)


def _plan_prompts(config: PromptConfig, rates: Rates, shape: Shape, sizes: Sizes, selected_share: float) -> RunPlan:
    """FedOTP's transport is not counted."""
    n_train, n_test, n_classes, _ = sizes
    own = [4] * n_classes  # own tokens of the classes, as long as those of the papers' sets on average
    clients, everything = config.clients_per_round, n_train + n_test
    per_client = math.ceil(selected_share * n_train / config.n_clients)
    epochs = config.rounds * config.local_epochs * clients
    steps, trained = epochs * math.ceil(per_client / config.batch_size), epochs * per_client
    phases = math.ceil(config.rounds / config.refresh_every) if config.refresh_every else min(config.rounds, 1)
    learns_text, learns_image = (part in config.trained for part in ("text", "visual"))
    encodings = config.rounds if "visual" in config.shared or not learns_image else 0
    scored = max(phases - 1, 0) * n_train + encodings * n_test + everything
    if config.rounds and not encodings:  # every client has its own visual prompt
        scored += config.rounds * n_test + config.n_clients * n_test
    contexts = 2 if config.method in ("FedOTP", "FedPGP") else 1
    texts = contexts * config.n_clients * (config.rounds + max(phases - 1, 0)) + 1
    if not learns_image:  # a round encodes its images once
        scored += trained // config.local_epochs
    image_steps, text_steps = trained * learns_image, steps * contexts * learns_text
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
    # in training one step of a group of clients; in scoring one forward pass of some images
    step = min(config.batch_size, per_client) * rates.image_bytes + rates.text_bytes
    training = min(config.clients_per_forward, config.n_clients) * step
    scoring = min(IMAGES_PER_FORWARD, everything) * rates.score_bytes
    memory = rates.base_bytes + rates.model_bytes + everything * rates.token_bytes + max(training, scoring)
    return RunPlan(steps, trained, scored, float(flop), seconds, memory)


def _plan_sage(config: SageConfig, rates: SageRates, sizes: Sizes) -> RunPlan:
    n_train, n_test, _, side = sizes
    clients = config.clients_per_round
    visits = config.rounds * clients
    everyone = config.label_fraction * n_train if config.labelled_per_class is None else 10 * config.labelled_per_class
    labelled = max(round(everyone / config.n_clients), 1)  # of a client; ten classes where a number per class is given
    pool = n_train // config.n_clients - (0 if config.labelled_in_pool else labelled)
    recipe = RECIPES[config.method]
    if config.supervised_schedule == "labelled_epochs" and not recipe.uses_pool:
        images = labelled if recipe.labels == "few" else n_train // config.n_clients
        per_epoch = math.ceil(images / config.batch_size)
    else:
        per_epoch = pool_steps(config, pool)
    steps = visits * config.local_epochs * per_epoch
    passes = (config.method == "FedDB") + (config.bn == "recalibrate")
    reported = _REPORTS * min(pool, config.n_probe) + config.n_probe
    scored = visits * (passes * pool + reported) + config.rounds * (n_test + config.n_probe)
    image_bytes = 3 * side * side
    views = 4 * image_bytes * max(VIEWS_AT_ONCE, config.unlabelled_batch_size) * 3
    largest = max(rates.step_bytes + views, rates.score_bytes * min(SCORED_AT_ONCE, n_test))
    return RunPlan(
        steps=steps,
        images_trained=steps * (config.batch_size + 2 * config.unlabelled_batch_size * recipe.uses_pool),
        images_scored=scored,
        flop=steps * rates.step_flop + scored * rates.score_flop,
        seconds=steps * rates.step + scored * rates.score + visits * rates.client,
        bytes=rates.base_bytes + (n_train + n_test) * image_bytes + (clients + _MODELS) * rates.model_bytes + largest,
    )
