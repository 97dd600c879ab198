"""What the parts of a run cost on this machine: measured, or from a rate that somebody gives."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.engine._memory import base_bytes, keep_freed_memory, profiled
from fedcopl_lab.extras.bench.flops import SHAPES, Shape
from fedcopl_lab.extras.bench.step import class_names, timed
from fedcopl_lab.models import CLIPBundle, PromptedCLIP, load_clip
from fedcopl_lab.models.layers import Layer
from fedcopl_lab.models.towers import ViTTower
from fedcopl_lab.seeding import torch_generator

TIMED_IMAGES = 16


@dataclass(frozen=True)
class Rates:
    """What this machine needs for one model and one number of classes.

    Attributes:
        image_step: seconds per image of a training step, forward and backward.
        text_step: seconds per client's training step for the text features of all classes, forward and backward.
        image_forward: seconds per image without gradients, from the stem's output.
        text_forward: seconds for the text features of all classes without gradients.
        stem: seconds per image up to the first prompted layer.
        image_bytes: largest tensor bytes per image of a training step.
        text_bytes: the same for the texts of a step.
        score_bytes: largest tensor bytes per image without gradients, the image itself included.
        base_bytes: the process before model and data.
        model_bytes: bytes of the frozen weights, with the copies that the fast form keeps.
        token_bytes: bytes kept per image of the data set, the stem's output.
    """

    image_step: float
    text_step: float
    image_forward: float
    text_forward: float
    stem: float
    image_bytes: float
    text_bytes: float
    score_bytes: float
    base_bytes: int
    model_bytes: int
    token_bytes: int

    def __repr__(self) -> str:
        return f"Rates({self.image_step * 1e3:.2f} ms per image and {self.text_step * 1e3:.1f} ms of text per step)"


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

    With one thread the clock is that of the process, so that others on the machine disturb less.

    Args:
        clip: model name.
        n_classes: classes whose texts are encoded.
        batch: images of the timed step, of each client.
        device: where.
        precision: of training.
        repeats: timed calls of each part; the median counts.
        clients: clients that share a forward pass.
        gflops: sustained GFLOP/s of another machine, which then replaces every measured time; None: measure.

    Raises:
        FedCoPLError: a model whose FLOPs are not known here, or a rate that is not positive.

    >>> measure_rates("tiny", 10).token_bytes
    6528
    """
    if clip not in SHAPES:
        raise FedCoPLError(f"the FLOPs of {clip!r} are not counted here; choose among {', '.join(SHAPES)}")
    if gflops is not None and not gflops > 0:
        raise FedCoPLError(f"rate={gflops}; expected a positive number of GFLOP/s")
    base = base_bytes()
    keep_freed_memory()
    bundle = load_clip(clip, device=device, weights="random")
    shape = SHAPES[clip]
    prompted, training = (
        PromptedCLIP(bundle.model, bundle.tokenizer, class_names(n_classes), n_text=shape.n_text, precision=kind)
        for kind in ("fp32", "bf16" if precision == "bf16" else "fp32")
    )  # fmt: skip
    generator = torch_generator(0, "plan", clip)
    side = bundle.image_size
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
    parts: tuple[Callable[[], Any], ...] = (image_step, text_step, image_forward, text_forward, stem)
    memory = [profiled(part, device)[0] for part in (image_step, text_step, image_forward, stem, plain)]
    if gflops is None:
        image_s, text_s, image_f, text_f, stem_s = (_median(part, device, repeats) for part in parts)
        seconds = (image_s / batch / clients, text_s / clients, image_f / batch, text_f, stem_s / batch)
    else:
        seconds = _by_flops(shape, prompted.own_lengths, gflops)
    return Rates(
        *seconds,
        image_bytes=memory[0] / batch / clients,
        text_bytes=memory[1] / clients,
        score_bytes=max(memory[2:]) / batch,
        base_bytes=base,
        model_bytes=_weights(bundle, prompted, training),
        token_bytes=tokens[0].nbytes,
    )


def _median(work: Callable[[], Any], device: str, repeats: int) -> float:
    return statistics.median(timed(work, device) for _ in range(repeats))


def _by_flops(shape: Shape, own_lengths: list[int], gflops: float) -> tuple[float, float, float, float, float]:
    many = 1000  # so that what is done once a step, not once an image, hardly counts
    image = shape.image_forward(many) / many
    text = shape.text_forward(own_lengths)
    steps = image + shape.image_backward(many) / many, text + shape.text_backward(own_lengths)
    flop = (*steps, image, text, 2 * shape.stem)
    return tuple(one / gflops / 1e9 for one in flop)  # type: ignore[return-value]


def _weights(bundle: CLIPBundle, *forms: PromptedCLIP) -> int:
    """Bytes of all weights, each counted once however many hold it."""
    held: list[Tensor] = list(bundle.model.parameters())
    for form in forms:
        towers = form.tower.layers if isinstance(form.tower, ViTTower) else []
        layers: list[Layer] = [*form.text_layers, *towers]
        held += [part for layer in layers for pair in (layer.qkv, layer.out, layer.up, layer.down) for part in pair]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in held}
    return sum(storages.values())
