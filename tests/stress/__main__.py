"""``python tests/stress``: every part of the stress run, or some, counted into a CSV."""

# ruff: noqa: E402

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before anything is imported: a process with threads must not be forked

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import determinism
import faults
import fuzz
import kills
import load
import sweeps
import verbs
from findings import Finding, write_table

from fedcopl_lab.engine import environment

FEW_FAULTS = (
    "a corrupted row", "a wrong run key", "permission lost after the first round",
    "a state of another round", "a loss that is no number, prompts", "a holder that dies while seven others wait",
    "a client left without selected samples", "all clients of a round failing",
)  # fmt: skip

Part = Callable[[Path, bool, int], Iterable[Finding]]
PARTS: dict[str, Part] = {
    "determinism": lambda scratch, short, seed: determinism.matrix(scratch, short),
    "kills": lambda scratch, short, seed: kills.kill_everything(scratch, seed, 2 if short else 26),
    "ctrl-c": lambda scratch, short, seed: verbs.interrupt_all(scratch, seed, 1 if short else 5),
    "faults": lambda scratch, short, seed: faults.inject_all(scratch, FEW_FAULTS if short else None),
    "fuzz": lambda scratch, short, seed: fuzz.fuzz_all(scratch, seed, 40 if short else 500),
    "load": lambda scratch, short, seed: load.measure(scratch, short),
    "ray": lambda scratch, short, seed: sweeps.sweep_all(scratch, 4 if short else 40, timed=not short),
}


def main() -> int:
    """0 when everything is as promised, 1 when not."""
    parser = argparse.ArgumentParser(prog="python tests/stress", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--short", action="store_true", help="a few of each, as in the tests")
    parser.add_argument("--seed", type=int, default=0, help="of moments and inputs (default: 0)")
    parser.add_argument("--out", type=Path, help="the CSV")
    options = parser.parse_args()
    found: list[Finding] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        _own_places(Path(folder))
        for name in options.parts:
            since = time.monotonic()
            scratch = Path(folder) / name
            scratch.mkdir()
            for finding in PARTS[name](scratch, options.short, options.seed):
                print(finding, flush=True)
                found.append(finding)
            found.append(Finding(name, "all", "minutes", round((time.monotonic() - since) / 60, 2), "", True))
    found.append(_machine(time.monotonic() - start, options.seed))
    if options.out:
        write_table(options.out, found)
    failed = [finding for finding in found if not finding.passed]
    print(f"{len(found)} findings, {len(failed)} not as promised")
    return int(bool(failed))


def _own_places(folder: Path) -> None:
    """Nothing of the user's is read or written."""
    folder.chmod(0o755)
    os.environ["FEDCOPL_LAB_HOME"] = str(folder / "runs")
    os.environ["FEDCOPL_LAB_DATA"] = str(folder / "data")
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    os.environ.pop("FEDCOPL_LAB_PROFILE", None)


def _machine(seconds: float, seed: int) -> Finding:
    there = environment("cpu", 1)
    packages = ", ".join(f"{name} {there['packages'][name]}" for name in ("torch", "numpy"))
    note = f"{there['hardware']}, {there['cores']} cores, {platform.system()}, Python {there['python']}, {packages}"
    return Finding("machine", f"seed {seed}", "minutes", round(seconds / 60, 1), "", True, note)


if __name__ == "__main__":
    sys.exit(main())
