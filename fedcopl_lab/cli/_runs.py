"""``fedcopl-lab run`` and ``fedcopl-lab runs``: compute one, list, show, tidy."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import configure
from fedcopl_lab.store import Run, Store, runs

LISTED = [
    "key",
    "method",
    "labeller",
    "dataset",
    "scheme",
    "beta",
    "aggregate",
    "seed",
    "complete",
    "accuracy",
    "seconds",
]
ROUND_COLUMNS = [
    "round",
    "accuracy",
    "accuracy_sample_mean",
    "accuracy_global",
    "label_accuracy",
    "n_selected",
    "loss_last_epoch",
]


def run_one(options: argparse.Namespace) -> int:
    """Compute one configuration and show its rounds."""
    from fedcopl_lab.engine import run

    settings = parse_settings(options.settings)
    config = configure(
        options.profile,
        method=options.method,
        mode=options.mode,
        **{"seed": options.seed, "device": options.device, **settings},
    )
    _print_run(run(config))
    return 0


def list_runs(settings: Sequence[str]) -> int:
    """One line per stored run."""
    table = runs(**parse_settings(settings))
    if table.empty:
        print(f"no such run in {Store().root}")
        return 0
    shown = table[[name for name in LISTED if name in table]]
    print(shown.to_string(index=False, float_format=lambda v: f"{v:.3f}", na_rep="-"))
    return 0


def show_run(key: str) -> int:
    """Settings, rounds and environment of one run."""
    run = Store().find(key)
    for name, value in run.config.as_dict().items():
        print(f"{name:>16}  {value}")
    _print_run(run)
    if run.complete:
        there = run.environment
        print(f"{there['hardware']}, {there['threads']} thread(s), Python {there['python']}, {run.seconds:.1f} s")
    return 0


def remove_incomplete() -> int:
    """Delete runs that were never finished."""
    gone = Store().remove_incomplete()
    print(f"removed {len(gone)} unfinished run(s)" + (f": {', '.join(gone)}" if gone else ""))
    return 0


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """``["beta=0.05", "labeller=FPL"]`` -> ``{"beta": 0.05, "labeller": "FPL"}``; null is None."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise FedCoPLError(f"{pair!r} is no setting; expected NAME=VALUE, such as beta=0.05")
        try:
            settings[name] = text if name == "labeller" else json.loads(text)  # a labeller is called "true"
        except ValueError:
            settings[name] = text
    return settings


def _print_run(run: Run) -> None:
    print(run)
    rows = run.rows
    if rows.empty:
        return
    shown = rows[[name for name in ROUND_COLUMNS if name in rows]]
    print(shown.to_string(index=False, float_format=lambda v: f"{v:.3f}", na_rep="-"))
    print(f"stored in {run.path}")
