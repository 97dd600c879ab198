"""What a scheduler must set aside for a run."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig
from fedcopl_lab.extras.bench.rates import Rates, measure_rates
from fedcopl_lab.extras.bench.run_plan import dataset_sizes, plan_run

_UNPLANNED_BYTES = 2e9  # a run whose memory nobody counted; a smoke run of SAGE takes 0.7 GB


@dataclass(frozen=True)
class Needs:
    """Of one run.

    Attributes:
        cpus: threads.
        gpus: whole GPUs, 0 or 1.
        bytes: memory at most.
    """

    cpus: int
    gpus: int
    bytes: int


def needs_of(config: RunConfig) -> Needs:
    """CPUs, GPUs and memory of a run, from its plan.

    >>> needs_of(configure("smoke")).cpus
    1
    """
    memory = _UNPLANNED_BYTES
    if isinstance(config, PromptConfig):
        with suppress(FedCoPLError):  # a model or data set whose cost is not counted
            memory = plan_run(config, _rates(config.clip, config.dataset, config.device)).bytes
    return Needs(config.threads, int(config.device.startswith("cuda")), int(memory))


@lru_cache
def _rates(clip: str, dataset: str, device: str) -> Rates:
    return measure_rates(clip, dataset_sizes(dataset)[2], device=device, repeats=1)
