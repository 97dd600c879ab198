"""The steps on a card in a few minutes: both papers', in fp32, TF32 and bf16, beside the plain forms."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch

from fedcopl_lab._card import tf32_in
from fedcopl_lab.extras.bench.prompt_step import bench_step
from fedcopl_lab.extras.bench.rates import measure_rates
from fedcopl_lab.extras.bench.sage_step import bench_sage

PRECISIONS = ("fp32", "tf32", "bf16")
CLIENTS = (1, 5)
"""Clients that share a forward pass."""


def bench_card(device: str = "cuda", small: bool = False, repeats: int = 10) -> Iterator[dict[str, Any]]:
    """Time steps of FedCoPL at the sizes of DTD and CIFAR-100, alone and with clients stacked, and of SAGE.

    ``device="cpu"`` and the ``small`` models try the bench itself. Gives one row per form as it is measured: form,
    classes, dtype, clients, seconds of a step, GFLOP/s, the card's own rate for matrix products, share of it, seconds
    of the plain form.

    >>> next(bench_card("cpu", small=True, repeats=1))["form"]
    'FedCoPL'
    """
    backbone, batch = ("tiny", 8) if small else ("ViT-B-32", 64)
    width, labelled, unlabelled = (0.25, 4, 8) if small else (4.0, 128, 256)
    for classes in (47, 100):
        for timing, _, _ in bench_step([backbone], [classes], PRECISIONS, batch, repeats, device):
            yield {"form": "FedCoPL", "classes": classes, "clients": 1} | _of(asdict(timing))
        for precision in PRECISIONS:
            for clients in CLIENTS:
                with tf32_in(matrices=precision == "tf32"):
                    rates = measure_rates(backbone, classes, batch, device, precision, repeats, clients)
                seconds = clients * (batch * rates.image_step + rates.text_step)
                peak = clients * (batch * rates.image_bytes + rates.text_bytes)
                yield {"form": "FedCoPL, clients stacked", "classes": classes, "dtype": precision, "clients": clients,
                       "seconds": seconds, "bytes": peak}  # fmt: skip
    for sage in bench_sage(width, PRECISIONS, labelled, unlabelled, repeats, device):
        yield {"form": "SAGE", "clients": 1} | _of(asdict(sage))


def _of(timing: dict[str, Any]) -> dict[str, Any]:
    """The columns that both papers' timings have."""
    names = ("dtype", "seconds", "seconds_plain", "speed_up", "gflop_per_second", "ceiling", "share_of_ceiling")
    return {name: timing[name] for name in names} | {"torch": torch.__version__}
