"""What a run will cost before it starts, from rates measured on this machine, and what of a card, from its shapes."""

import math
from dataclasses import dataclass, replace
from itertools import product

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, configure
from fedcopl_lab.data import counts_of, known_manifests, load_dataset, load_manifest, split_name
from fedcopl_lab.extras.bench.flops import SHAPES, PoolShape, Shape
from fedcopl_lab.extras.bench.rates import TIMED_IMAGES, Rates, SageRates, measure_rates, measure_sage_rates
from fedcopl_lab.methods import IMAGES_PER_FORWARD, RECIPES, VIEWS_AT_ONCE, pool_steps
from fedcopl_lab.paper import PAPER_SETS
from fedcopl_lab.steps import IMAGES_PER_FORWARD as SCORED_AT_ONCE

SELECTED_SHARE = 0.47
"""Pseudo-labelled share of the training images with both filters at their medians (an estimate)."""

_REPORTS = 2  # of pool images: by the model a client starts from and by its trained one
_MODELS = 6  # in training, frozen, merged, sums in float64, and the stored state

USABLE = 0.9
"""Share of a card that a run may take: the rest is for the driver and for gaps between tensors."""

_FLOAT = 4  # bytes
_EMBED = 512  # width of the space that images and texts share; 1024 for RN50 alone
_CONTEXT = 0.7e9  # CUDA itself and its libraries
_WEIGHTS = {"ViT-B-32": 0.9e9, "ViT-B-16": 0.9e9, "RN50": 0.6e9}  # with the copies that the fast form keeps
_KEPT_PER_TOKEN = 13  # widths that a frozen layer keeps for its backward pass: sums, Q, K, V, mixed, and an MLP of four
_RESNET8_IMAGE = 2.75e6  # bytes that a training step of SAGE keeps per image of 32 x 32 at width 4

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
    contexts = 2 if config.like in ("FedOTP", "FedPGP") else 1
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
    n_train, n_test, n_classes, side = sizes
    clients, per_class = config.clients_per_round, config.labelled_per_class
    visits = config.rounds * clients
    everyone = config.label_fraction * n_train if per_class is None else n_classes * per_class
    labelled = max(round(everyone / config.n_clients), 1)  # of a client
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


@dataclass(frozen=True)
class CardPlan:
    """What one run takes of a card."""

    gigabytes: float  # at most, on the card
    clients_per_forward: int  # the most clients that share a forward pass there
    in_memory: float  # gigabytes of image tokens that wait in the machine's pinned memory instead
    fits: bool

    def __repr__(self) -> str:
        return f"CardPlan({self.gigabytes:.1f} GB, {self.says})"

    @property
    def says(self) -> str:
        """What to do, in words.

        >>> CardPlan(10.0, 5, 0.0, True).says
        'fits, clients_per_forward=5'
        """
        if not self.fits:
            return "too large: choose a smaller batch_size"
        where = f", {self.in_memory:.0f} GB of tokens in pinned memory" if self.in_memory else ""
        together = f", clients_per_forward={self.clients_per_forward}" if self.clients_per_forward > 1 else ""
        return f"fits{together}{where}"


def plan_card(config: RunConfig, gigabytes: int | float) -> CardPlan:
    """What a run takes of a card of so many gigabytes, with as many clients in a forward pass as fit.

    Tokens of more than half the card wait in pinned memory, as :class:`PromptSetting` keeps them.

    Args:
        config: the run.
        gigabytes: memory of the card.

    Raises:
        FedCoPLError: a data set or a model whose sizes are not known here.

    >>> plan_card(lab.configure("paper", dataset="dtd"), 24).fits
    True
    """
    if isinstance(config, SageConfig):
        return _sage_on_card(config, gigabytes, data_sizes(config.dataset, config.image_size))
    assert isinstance(config, PromptConfig)
    sizes, shape = data_sizes(config.dataset), shape_of(config)
    tokens = (sizes[0] + sizes[1]) * shape.image_tokens * shape.image_width * _FLOAT
    in_memory = tokens > gigabytes * 1e9 / 2
    fixed = _CONTEXT + _WEIGHTS.get(config.clip, 0.0) + (0 if in_memory else tokens) + _features(config, shape, sizes)
    fixed += IMAGES_PER_FORWARD * _forward(shape)
    client = config.batch_size * _kept(shape) + _texts(config, shape, sizes[2])
    most = 1 if config.momentum_state == "shared" else config.n_clients
    counts = [n for n in range(1, most + 1) if most % n == 0]  # equal groups
    fitting = [n for n in counts if fixed + n * client <= USABLE * gigabytes * 1e9]
    together = max(fitting, default=1)
    return CardPlan((fixed + together * client) / 1e9, together, tokens / 1e9 if in_memory else 0.0, bool(fitting))


def on_card(config: RunConfig, gigabytes: int | float) -> RunConfig:
    """The run with as many clients in a forward pass as a card of so many gigabytes holds; SAGE's stay as they are.

    >>> on_card(lab.configure("paper", dataset="dtd"), 80).clients_per_forward
    10
    """
    if not isinstance(config, PromptConfig):
        return config
    return replace(config, clients_per_forward=plan_card(config, gigabytes).clients_per_forward)


def cards_markdown() -> str:
    """FedCoPL's runs of the papers' sizes on cards of 24 and 80 GB, and a run of SAGE.

    >>> cards_markdown().splitlines()[2]
    '| ViT-B-32 | dtd | 20.8 GB, 10 clients together | 20.8 GB, 10 clients together |'
    """
    lines = ["| model | data set | card of 24 GB | card of 80 GB |", "|---|---|---|---|"]
    for model, name in [*product(_WEIGHTS, (*PAPER_SETS.values(),)), ("ResNet-8", "SAGE")]:
        if name == "SAGE":
            config: RunConfig = configure("paper", method="SAGE")
        else:
            config = configure("paper", clip=model, dataset=name)
        cells = [_said(plan_card(config, gigabytes)) for gigabytes in (24, 80)]
        lines.append(f"| {model} | {config.dataset} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _said(plan: CardPlan) -> str:
    together = f", {plan.clients_per_forward} clients together" if plan.clients_per_forward > 1 else ""
    where = f", {plan.in_memory:.0f} GB of tokens in the machine's memory" if plan.in_memory else ""
    return f"{plan.gigabytes:.1f} GB{together}{where}"


def _kept(shape: Shape) -> int | float:
    """Bytes per image that a training step keeps, and one layer at work."""
    widths = 8 if isinstance(shape, PoolShape) else _KEPT_PER_TOKEN * shape.image_layers + 10
    return widths * shape.image_tokens * shape.image_width * _FLOAT


def _forward(shape: Shape) -> int | float:
    """Bytes per image of a forward pass without gradients; a ResNet's first maps are the largest."""
    largest = 6 * 64 * 112 * 112 if isinstance(shape, PoolShape) else 12 * shape.image_tokens * shape.image_width
    return largest * _FLOAT


def _texts(config: PromptConfig, shape: Shape, n_classes: int) -> int | float:
    own = n_classes * (6 + shape.n_visual)  # name, period, end token; the context's keys count beside them
    contexts = 2 if config.like == "FedOTP" else 1
    return contexts * (_KEPT_PER_TOKEN * shape.text_layers + 10) * own * shape.text_width * _FLOAT


def _features(config: PromptConfig, shape: Shape, sizes: Sizes) -> int | float:
    """Features of the test images, which all clients share; FedOTP's are of patches, each compared with all texts."""
    if config.like != "FedOTP":
        return sizes[1] * _EMBED * _FLOAT
    patches = shape.image_tokens - 1
    plans = 8 * IMAGES_PER_FORWARD * sizes[2] * patches * 2
    return (sizes[1] * patches * _EMBED + plans) * _FLOAT


def _sage_on_card(config: SageConfig, gigabytes: int | float, sizes: Sizes) -> CardPlan:
    side = sizes[3]
    images = config.batch_size + 2 * config.unlabelled_batch_size
    kept = _RESNET8_IMAGE * (config.width / 4) * (side / 32) ** 2 * (0.5 if config.precision == "bf16" else 1.0)
    models = 3 if config.method in ("FedMatch", "FedDure", "FedLabel", "FedLoKe") else 1
    views = 3 * VIEWS_AT_ONCE * 3 * side * side * _FLOAT * 3
    total = _CONTEXT + (sizes[0] + sizes[1]) * 3 * side * side + models * images * kept + views
    return CardPlan(total / 1e9, 1, 0.0, total <= USABLE * gigabytes * 1e9)
