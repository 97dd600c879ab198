"""``fedcopl-lab doctor``: what is there and what is missing, in words."""

import argparse
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import check_writable
from fedcopl_lab.store import Store

ENOUGH_DISK_GB = 1.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """``doctor`` has no options."""
    parser.set_defaults(command=lambda options: check_machine())


def check_machine() -> int:
    """Print one line per check; 1 when something that ``make reproduce`` needs is missing."""
    checks: dict[str, Callable[[], str]] = {
        "Python": lambda: sys.version.split()[0], "packages": _packages, "torch and torchvision": _torch_pair,
        "GPU": _gpu, "data: digits": _digits, "data: papers' sets": _paper_sets,
        "weights: tiny": partial(_embedded, "tiny"), "weights: mini-traits": partial(_embedded, "mini-traits"),
        "weights: SAGE's start": _start, "weights: OpenAI CLIP": _openai_weights, "run store": _store, "disk": _disk,
    }  # fmt: skip
    failed = 0
    for name, check in checks.items():
        try:
            mark, text = "ok", check()
        except _MissingError as missing:
            mark, text = "--", str(missing)
        except Exception as error:  # whatever is broken, the other checks still have something to say
            mark, text, failed = "NO", " ".join(str(error).split()), failed + 1
        print(f"[{mark}] {name:<22} {text}")
    failures = f"{failed} check(s) failed; see the lines marked NO."
    print(f"\n{failures if failed else 'Everything the smoke profile needs is there.'}")
    return 1 if failed else 0


class _MissingError(Exception):
    """Not there, and not needed for the smoke profile."""


def _packages() -> str:
    wanted = [Requirement(line) for line in requires("fedcopl-lab") or []]
    core = [need for need in wanted if need.marker is None or need.marker.evaluate({"extra": ""})]
    wrong = []
    for need in core:
        try:
            if not need.specifier.contains(version(need.name), prereleases=True):
                wrong.append(f"{need.name} {version(need.name)} (wants {need.specifier})")
        except PackageNotFoundError:
            wrong.append(f"{need.name} (not installed)")
    if wrong:
        raise FedCoPLError(f"{', '.join(wrong)}; run `make clean test` or pip install -r requirements.lock")
    return f"all {len(core)} are installed"


def _torch_pair() -> str:
    import torch
    import torchvision  # fails here when it was built for another torch

    return f"torch {torch.__version__}, torchvision {torchvision.__version__}"


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise _MissingError("none that torch can use; everything here runs on the CPU, the paper profile wants a GPU")
    return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))


def _digits() -> str:
    from fedcopl_lab.data import load_dataset

    return f"{load_dataset('digits')!r}, checksum right"


def _paper_sets() -> str:
    from fedcopl_lab.data import known_manifests, state_of

    missing = [name for name in known_manifests("dataset") if name != "digits" and state_of(name) != "here"]
    if missing:
        raise _MissingError(f"{', '.join(missing)} not here; needed by the profiles mini (cifar10) and paper: "
                            "`fedcopl-lab data get NAME`")  # fmt: skip
    return "all are here"


def _embedded(name: str) -> str:
    from fedcopl_lab.models import load_clip

    return f"sha256 {load_clip(name).sha256[:12]}… as in its manifest"


def _start() -> str:
    from fedcopl_lab.models.resnet8 import START, start_resnet8

    start_resnet8(START, n_classes=10, channels=32)
    return f"{START}, checksum right"


def _openai_weights() -> str:
    from fedcopl_lab.models.openai_weights import OPENAI_MODELS, find_weights

    there = []
    for name in OPENAI_MODELS:
        with suppress(FedCoPLError):
            there.append(f"{name} at {_short(find_weights(name))}")
    if not there:
        raise _MissingError("none here; needed by the paper profile only, load_clip('ViT-B-32') says where to put them")
    return f"{', '.join(there)}; checked against the pinned sha256 when loaded"


def _store() -> str:
    store = Store()
    check_writable(store.root)
    stored = store.runs()
    return f"{len(stored)} runs, {sum(not run.complete for run in stored)} unfinished, in {_short(store.root)}"


def _disk() -> str:
    free = shutil.disk_usage(Store().root).free / 1e9
    if free < ENOUGH_DISK_GB:
        raise FedCoPLError(f"{free:.1f} GB free; the smoke profile wants {ENOUGH_DISK_GB:g} GB: free some space")
    return f"{free:.0f} GB free"


def _short(path: Path) -> str:
    home = Path.home()
    return str("~" / path.relative_to(home)) if home != Path("/") and path.is_relative_to(home) else str(path)
