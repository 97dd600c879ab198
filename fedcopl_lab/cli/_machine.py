"""What a command finds out about its machine: a card to compute on, and data that can be fetched before the runs."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig

Machine = Callable[[RunConfig], RunConfig]
"""Makes a run what a machine computes."""

ASK_ABOVE = 5e9
"""Bytes of downloads that nobody is asked about."""

_SLACK = 0.5e9  # stands for files whose size no manifest knows


def chosen_device(given: str | None, profile: str) -> str:
    """The device that was asked for; else, for the profile ``paper``, a CUDA card where there is one; else the CPU.

    >>> chosen_device(None, "smoke")
    'cpu'
    """
    if given or profile != "paper":
        return given or "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def on_this_machine(device: str) -> Machine:
    """What makes a run one of a device of this machine.

    Runs of the profile ``paper`` get as many clients in a forward pass as a card has room for.
    """
    size = _gigabytes(device) if device.startswith("cuda") else 0.0

    def changed(config: RunConfig) -> RunConfig:
        there = replace(config, device=device)
        if not size or config.profile != "paper":
            return there
        from fedcopl_lab.extras.bench.plan import on_card

        return on_card(there, size)

    return changed


def _gigabytes(device: str) -> float:
    import torch

    from fedcopl_lab._card import memory_of

    return memory_of(device) / 1e9 if torch.cuda.is_available() else 0.0


def fetch_missing(configs: Sequence[RunConfig], agreed: bool = False) -> None:
    """Fetch data sets and weights of some runs that are not here; says what has to be placed by hand, and where.

    Does not ask before more than 5 GB when that is ``agreed``.

    Raises:
        FedCoPLError: nobody agreed to a large download, or a file did not arrive.
    """
    from fedcopl_lab.data import download_of, get, known_manifests, split_name, state_of

    sets = known_manifests("dataset")
    names = {split_name(config.dataset, sets).whole for config in configs}
    names |= {c.clip for c in configs if isinstance(c, PromptConfig) and c.weights == "pretrained"}
    names &= {*sets, *known_manifests("weights")}
    missing = [download_of(name) for name in sorted(names) if state_of(name) in ("absent", "partly")]
    for one in missing:
        for file in one.files:
            if not file.urls and not (one.folder / file.name).exists():
                print(f"{one.name}: place {file.name} in {one.folder} by hand: {file.by_hand}")
    wanted = [one for one in missing if any(file.urls for file in one.files)]
    if not wanted:
        return
    from fedcopl_lab.models.openai_weights import OFFLINE

    if os.environ.get(OFFLINE):
        return
    size = sum(file.size or _SLACK for one in wanted for file in one.files if file.urls)
    print(f"to fetch, about {size / 1e9:.1f} GB: {', '.join(one.name for one in wanted)}")
    if size > ASK_ABOVE and not agreed and not _agrees():
        raise FedCoPLError("nothing was fetched; say --yes, or fetch single sets with `fedcopl-lab data get NAME`")
    for one in wanted:
        get(one.name)


def _agrees() -> bool:
    return sys.stdin.isatty() and input("fetch all of it? [y/N] ").strip().lower() in ("y", "yes")
