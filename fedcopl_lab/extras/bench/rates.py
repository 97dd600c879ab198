"""What the parts of a run cost on this machine: measured, or computed from a given rate of another machine."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import ChannelStatistics, channel_statistics, load_dataset, partition
from fedcopl_lab.engine import base_bytes, keep_freed_memory, profiled
from fedcopl_lab.extras.bench.flops import SHAPES, Shape
from fedcopl_lab.extras.bench.prompt_step import class_names
from fedcopl_lab.extras.bench.timing import median_time, timed
from fedcopl_lab.methods import LocalTask, SemiMethod, SemiSetting
from fedcopl_lab.methods.sage_client import exact_convolutions
from fedcopl_lab.models import CLIPBundle, PromptedCLIP, load_clip
from fedcopl_lab.models.layers import Layer
from fedcopl_lab.models.towers import ViTTower
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import model_scores

TIMED_IMAGES = 16
TIMED_LABELLED, TIMED_UNLABELLED = 32, 64
"""Images of SAGE's timed step at most; the time of a larger one is taken in proportion."""

_SCORED = 64


@dataclass(frozen=True)
class Rates:
    """What this machine needs for one CLIP and one number of classes: seconds and bytes."""

    image_step: float  # seconds per image of a training step, forward and backward
    text_step: float  # seconds per client's step for the text features of all classes, forward and backward
    image_forward: float  # seconds per image without gradients, from the stem's output
    text_forward: float  # seconds for the text features of all classes without gradients
    stem: float  # seconds per image up to the first prompted layer
    image_bytes: float  # largest tensor bytes per image of a training step
    text_bytes: float  # the same for the texts of a step
    score_bytes: float  # largest tensor bytes per image without gradients, the image itself included
    base_bytes: int  # the process before model and data
    model_bytes: int  # the frozen weights, with the copies that the fast form keeps
    token_bytes: int  # kept per image of the data set: the stem's output


@lru_cache(maxsize=16)
def measure_rates(
    clip: str,
    n_classes: int,
    batch: int = TIMED_IMAGES,
    device: str = "cpu",
    precision: str = "fp32",
    repeats: int = 3,
    clients: int = 1,
    gflops: float | None = None,
) -> Rates:
    """Time the parts of a run on this machine, with random weights.

    ``clients`` share a forward pass of ``batch`` images each; the median of ``repeats`` calls counts. ``gflops``, the
    sustained GFLOP/s of another machine, replaces every measured time. A model whose FLOPs are not known here is an
    error.

    >>> measure_rates("tiny", 10, repeats=1).token_bytes
    4352
    """
    if clip not in SHAPES:
        raise FedCoPLError(f"the FLOPs of {clip!r} are not counted here; choose among {', '.join(SHAPES)}")
    _check_rate(gflops)
    base = base_bytes()
    keep_freed_memory()
    bundle, shape = load_clip(clip, device=device, weights="random"), SHAPES[clip]
    prompted, training = (
        PromptedCLIP(bundle.model, bundle.tokenizer, class_names(n_classes), n_text=shape.n_text, precision=kind)
        for kind in ("fp32", "bf16" if precision == "bf16" else "fp32")
    )  # fmt: skip
    generator, side = torch_generator(0, "plan", clip), bundle.image_size
    images = torch.randint(0, 256, (batch, 3, side, side), dtype=torch.uint8, generator=generator)
    text, visual = prompted.initial_prompts(generator)
    texts, visuals = (torch.stack([prompt] * clients).requires_grad_() for prompt in (text, visual))
    tokens = prompted.image_tokens(bundle.to_input(images))

    def image_step() -> Any:
        features = training.image_features([tokens] * clients, visuals)
        return torch.autograd.grad(torch.stack([one.sum() for one in features]).sum(), visuals)

    def text_step() -> Any:
        return torch.autograd.grad(training.text_features(texts).sum(), texts)

    image_forward = torch.no_grad()(lambda: prompted.image_features(tokens, visual))
    text_forward = torch.no_grad()(lambda: prompted.text_features(text))
    stem = torch.no_grad()(lambda: prompted.image_tokens(bundle.to_input(images)))
    plain = torch.no_grad()(lambda: bundle.model.encode_image(bundle.to_input(images)))
    memory = [profiled(part, device)[0] for part in (image_step, text_step, image_forward, stem, plain)]
    parts: dict[str, tuple[Callable[[], Any], int]] = {  # what is timed, and how many units of it a call does
        "image_step": (image_step, batch * clients), "text_step": (text_step, clients),
        "image_forward": (image_forward, batch), "text_forward": (text_forward, 1), "stem": (stem, batch),
    }  # fmt: skip
    if gflops is None:
        seconds = {name: median_time(part, device, repeats) / unit for name, (part, unit) in parts.items()}
    else:
        flop = zip(parts, _flop_of_parts(shape, prompted.own_lengths), strict=True)
        seconds = {name: one / gflops / 1e9 for name, one in flop}
    return Rates(
        **seconds,
        image_bytes=memory[0] / batch / clients,
        text_bytes=memory[1] / clients,
        score_bytes=max(memory[2:]) / batch,
        base_bytes=base,
        model_bytes=_weight_bytes(bundle, prompted, training),
        token_bytes=tokens[0].nbytes,
    )


def _check_rate(gflops: float | None) -> None:
    if gflops is not None and not gflops > 0:
        raise FedCoPLError(f"rate={gflops}; expected a positive number of GFLOP/s")


def _flop_of_parts(shape: Shape, own_lengths: list[int]) -> tuple[int | float, ...]:
    """FLOP of the parts that :class:`Rates` times, in its order."""
    many = 1000  # so that what is done once a step, not once an image, hardly counts
    image, text = shape.image_forward(many) / many, shape.text_forward(own_lengths)
    steps = image + shape.image_backward(many) / many, text + shape.text_backward(own_lengths)
    return (*steps, image, text, 2 * shape.stem)


def _weight_bytes(bundle: CLIPBundle, *forms: PromptedCLIP) -> int:
    """Bytes of all weights, each storage counted once."""
    held: list[Tensor] = list(bundle.model.parameters())
    for form in forms:
        towers = form.tower.layers if isinstance(form.tower, ViTTower) else []
        layers: list[Layer] = [*form.text_layers, *towers]
        held += [part for layer in layers for pair in (layer.qkv, layer.out, layer.up, layer.down) for part in pair]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in held}
    return sum(storages.values())


@dataclass(frozen=True)
class SageRates:
    """What this machine needs for one method of SAGE's table at one size of model, image and step."""

    step: float  # seconds of a local step, views included
    score: float  # seconds per image that is only scored
    client: float  # seconds of a client's round beside its steps and scores, and its share of the server's
    step_flop: float  # floating-point operations of the step's convolutions and products
    score_flop: float  # the same of a scored image
    step_bytes: float  # largest tensor bytes of a step
    score_bytes: float  # largest tensor bytes per image that is scored
    model_bytes: int  # the model's parameters and buffers
    base_bytes: int  # the process before model and data


def measure_sage_rates(config: SageConfig, side: int, gflops: float | None = None, repeats: int = 3) -> SageRates:
    """Time a method's local step and the scoring of images, on noise of that size; a compiled run as if not compiled.

    ``side`` is height and width of its images; the median of ``repeats`` steps counts. ``gflops``, the sustained
    GFLOP/s of another machine, replaces every measured time.

    >>> measure_sage_rates(lab.configure("smoke", method="SAGE"), side=8, repeats=1).model_bytes > 0
    True
    """
    _check_rate(gflops)
    factor = max(config.batch_size / TIMED_LABELLED, config.unlabelled_batch_size / TIMED_UNLABELLED, 1.0)
    found = _measured(_shrunk(config, side, factor), repeats)
    scaled = replace(found, **{name: getattr(found, name) * factor for name in ("step", "step_flop", "step_bytes")})
    if gflops is None:
        return scaled
    return replace(scaled, step=scaled.step_flop / gflops / 1e9, score=scaled.score_flop / gflops / 1e9, client=0.0)


def _shrunk(config: SageConfig, side: int, factor: float) -> SageConfig:
    """The run with as few clients and images as its method needs; what does not change its steps is made equal."""
    own: dict[str, Any] = {"threshold": 0.0}  # every image has a label: FedDure's regulator trains on labelled ones
    if config.method == "SAGE":  # runs that differ in these alone are measured once
        own |= {"kappa": 1.0, "fixed_weight": None, "use_cpg": True, "use_cdsc": True}
    if config.method == "FedMatch":
        own["fedmatch"] = replace(config.fedmatch, lookup_every=1)  # helpers from the second round on
    if config.method == "FedLabel":
        own["fedlabel"] = replace(config.fedlabel, burn_in=0)
    return replace(
        config, profile="plan", dataset="digits", image_size=side, seed=0, scheme="iid", alpha=None, label_fraction=0.5,
        labelled_per_class=None, labelled_in_pool=True, partition_mode="paper", norm="matched", participation=1.0,
        n_clients=config.fedmatch.helpers + 1 if config.method == "FedMatch" else 1, rounds=4, local_epochs=1,
        batch_size=max(round(config.batch_size / factor), 1),
        unlabelled_batch_size=max(round(config.unlabelled_batch_size / factor), 1),
        epoch_rule="one_pass", supervised_schedule="matched_iterations", steps_per_epoch=1, n_probe=0, compile=False,
        **own,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _measured(config: SageConfig, repeats: int) -> SageRates:
    base = base_bytes()
    keep_freed_memory()
    device, setting = config.device, _noise(config)
    method = SemiMethod(setting)
    state, _ = method.step(method.initial_state())  # not timed; FedMatch finds its helpers
    with exact_convolutions(config.precision):
        received = method.recipe.message(setting, state, [0])[0]
        task = LocalTask(setting, method.recipe, 0, state.round, state.model, received, state.memories.get(0))
        method.recipe.begin(task)
        model, images = setting.placed_model(state.model), setting.images[:_SCORED]

        def step() -> None:
            task.step(next(iter(task.batches())))

        def score() -> None:
            model_scores(model, images, setting.testing)

        (step_flop, step_bytes), (score_flop, score_bytes) = (_counted(part, device) for part in (step, score))
        step_s, score_s = (median_time(part, device, repeats) for part in (step, score))
    score_s /= _SCORED
    round_s = timed(lambda: method.step(state), device)
    rest_s = max(round_s - config.n_clients * step_s - len(setting.tests) * score_s, 0.0)
    model_bytes = sum(value.nbytes for value in state.model.values())
    per_image = (score_flop / _SCORED, step_bytes, score_bytes / _SCORED)
    return SageRates(step_s, score_s, rest_s / config.n_clients, step_flop, *per_image, model_bytes, base)


def _noise(config: SageConfig) -> SemiSetting:
    """A setting whose images are noise, few but enough for a step of each client."""
    digits, device = load_dataset("digits"), config.device
    n_train = 2 * config.n_clients * max(config.unlabelled_batch_size, _SCORED)  # shards differ in size
    generator = torch.Generator().manual_seed(0)
    side = config.image_size or digits.images.shape[-1]
    images = torch.randint(0, 256, (len(digits), 3, side, side), dtype=torch.uint8, generator=generator)
    dataset = replace(
        digits, images=images, train_indices=digits.train_indices[:n_train], test_indices=digits.test_indices[:_SCORED]
    )
    federation = partition(dataset, "iid", config.n_clients, label_fraction=config.label_fraction)
    found = channel_statistics(dataset, "train")
    on_device = ChannelStatistics(mean=found.mean.to(device), std=found.std.to(device))
    return SemiSetting(config, dataset, federation, images.to(device), dataset.labels.to(device), on_device, on_device)


def _counted(work: Callable[[], None], device: str) -> tuple[float, float]:
    """Floating-point operations and largest tensor bytes of some work."""
    with FlopCounterMode(display=False) as counter:
        peak, _ = profiled(work, device)
    return float(counter.get_total_flops()), float(peak)
