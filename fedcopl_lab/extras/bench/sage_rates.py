"""What the parts of a semi-supervised run cost on this machine: measured with the method's own steps on noise."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import ChannelStatistics, channel_statistics, load_dataset, partition
from fedcopl_lab.engine._memory import base_bytes, keep_freed_memory, profiled
from fedcopl_lab.extras.bench.step import timed
from fedcopl_lab.methods import SemiMethod, SemiSetting
from fedcopl_lab.methods._local_task import LocalTask
from fedcopl_lab.methods.sage_client import exact_convolutions
from fedcopl_lab.steps import model_scores

TIMED_LABELLED, TIMED_UNLABELLED = 32, 64
"""Images of the timed step at most; the time of a larger one is taken in proportion."""

_SCORED = 64


@dataclass(frozen=True)
class SemiRates:
    """What this machine needs for one method at one size of model, image and step.

    Attributes:
        step: seconds of a local step, views included.
        score: seconds per image that is only scored.
        client: seconds of a client's round beside its steps and scores, and its share of the server's.
        step_flop: floating-point operations of the step's convolutions and products.
        score_flop: the same of a scored image.
        step_bytes: largest tensor bytes of a step.
        score_bytes: largest tensor bytes per image that is scored.
        model_bytes: bytes of the model's parameters and buffers.
        base_bytes: the process before model and data.
    """

    step: float
    score: float
    client: float
    step_flop: float
    score_flop: float
    step_bytes: float
    score_bytes: float
    model_bytes: int
    base_bytes: int

    def __repr__(self) -> str:
        return f"SemiRates({self.step * 1e3:.1f} ms per step, {self.score * 1e3:.2f} ms per scored image)"


def measure_semi_rates(config: SageConfig, side: int, gflops: float | None = None, repeats: int = 3) -> SemiRates:
    """Time a method's local step and the scoring of images, on noise of that size; a compiled run as if not compiled.

    With one thread the clock is that of the process, so that others on the machine disturb less.

    Args:
        config: the run.
        side: height and width of its images.
        gflops: sustained GFLOP/s of another machine, which then replaces every measured time; None: measure.
        repeats: timed steps; the median counts.

    Raises:
        FedCoPLError: a rate that is not positive.

    >>> measure_semi_rates(configure("smoke", method="SAGE"), side=8).model_bytes
    318440
    """
    if gflops is not None and not gflops > 0:
        raise FedCoPLError(f"rate={gflops}; expected a positive number of GFLOP/s")
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
def _measured(config: SageConfig, repeats: int) -> SemiRates:
    base = base_bytes()
    keep_freed_memory()
    device = config.device
    setting = _noise(config)
    method = SemiMethod(setting)
    state, _ = method.step(method.initial_state())  # not timed; FedMatch finds its helpers
    with exact_convolutions(config.precision):
        received = method.recipe.message(setting, state, [0])[0]
        task = LocalTask(setting, method.recipe, 0, state.round, state.model, received, state.memories.get(0))
        method.recipe.begin(task)
        model, images = setting.placed_model(state.model), setting.images[:_SCORED]

        def step() -> None:
            method.recipe.step(task, next(iter(task.batches())))

        def score() -> None:
            model_scores(model, images, setting.testing)

        counted = [_counted(part, device) for part in (step, score)]
        step_s, score_s = (statistics.median(timed(part, device) for _ in range(repeats)) for part in (step, score))
    score_s /= _SCORED
    round_s = timed(lambda: method.step(state), device)
    return SemiRates(
        step=step_s,
        score=score_s,
        client=max(round_s - config.n_clients * step_s - len(setting.tests) * score_s, 0.0) / config.n_clients,
        step_flop=counted[0][0],
        score_flop=counted[1][0] / _SCORED,
        step_bytes=counted[0][1],
        score_bytes=counted[1][1] / _SCORED,
        model_bytes=sum(value.nbytes for value in state.model.values()),
        base_bytes=base,
    )


def _noise(config: SageConfig) -> SemiSetting:
    """A setting whose images are noise, few but enough for a step of each client."""
    digits = load_dataset("digits")
    n_train = config.n_clients * max(config.unlabelled_batch_size, _SCORED)
    generator = torch.Generator().manual_seed(0)
    side = config.image_size or digits.images.shape[-1]
    images = torch.randint(0, 256, (len(digits), 3, side, side), dtype=torch.uint8, generator=generator)
    dataset = replace(
        digits, images=images, train_indices=digits.train_indices[:n_train], test_indices=digits.test_indices[:_SCORED]
    )
    federation = partition(dataset, "iid", config.n_clients, label_fraction=config.label_fraction)
    found = channel_statistics(dataset, "train")
    statistics_ = ChannelStatistics(mean=found.mean.to(config.device), std=found.std.to(config.device))
    device = config.device
    return SemiSetting(
        config, dataset, federation, images.to(device), dataset.labels.to(device), statistics_, statistics_
    )


def _counted(work: Callable[[], None], device: str) -> tuple[float, float]:
    """Floating-point operations and largest tensor bytes of some work."""
    with FlopCounterMode(display=False) as counter:
        peak, _ = profiled(work, device)
    return float(counter.get_total_flops()), float(peak)
