"""Rows of made-up runs; nothing here was measured."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedcopl_lab._files import to_json
from fedcopl_lab.config import PromptConfig, RunConfig

Rows = list[dict[str, Any]]
World = Callable[[PromptConfig], Rows | None]

TRUE = [[40, 10, 0], [0, 10, 40]]
"""Two clients, three classes: the true counts of every made-up run that says nothing else."""


def write_run(folder: Path, config: RunConfig, rows: Rows, split: dict[str, Any] | None = None) -> None:
    """A complete run, as a store holds it."""
    last = {name: value for name, value in rows[-1].items() if not isinstance(value, dict | list)}
    files = {"config": config.as_dict(), "result": last} | {f"rounds/{row['round']:04d}": row for row in rows}
    (folder / "rounds").mkdir(parents=True)
    for name, content in (files | ({"split": split} if split else {})).items():
        (folder / f"{name}.json").write_text(to_json(content))


def jitter(config: PromptConfig, size: float = 0.05) -> float:
    """Small noise that differs between runs and seeds and is the same in every test run."""
    return size * (zlib.crc32(to_json(config.as_dict()).encode()) % 1001 / 500 - 1)


def label_phase(percent: float = 80.0, **changes: Any) -> dict[str, Any]:
    """The label counts of one phase, right in about the given percent; ``changes`` replace entries."""

    def share(counts: list[list[int]]) -> list[list[float]]:
        return [[n * percent / 100 for n in row] for row in counts]

    phase: dict[str, Any] = {"true": TRUE}
    for name in ("predicted", "filtered", "selected", "uploaded"):
        phase[name] = changes.pop(name, TRUE)
        phase[f"{name}_correct"] = share(phase[name])
    return phase | {"kept": {"jaccard": [0.9, 0.8]}, "accuracy_at": {"20%": [percent / 100, None]}} | changes


def rounds(
    accuracies: Sequence[float], phases: Sequence[dict[str, Any]] = (label_phase(), label_phase()), **last: Any
) -> Rows:
    """Rows of a run with these accuracies in percent; label phases in the first and the last round."""
    rows = []
    for number, accuracy in enumerate(accuracies, start=1):
        share = accuracy / 100
        row: dict[str, Any] = {
            "round": number, "accuracy": share, "accuracy_global": share, "participants": [0, 1], "bytes_up": 100,
            "clients": {"accuracy": [share, share], "label_accuracy": [0.8, 0.8]},
        }  # fmt: skip
        for part in ("text", "visual"):
            row |= {f"drift_{part}": 0.6, f"cosine_{part}": 0.2, f"move_{part}": 1.0}
        rows.append(row)
    for place, phase in zip((0, -1), phases, strict=True):
        rows[place]["labels"] = phase
    rows[-1] |= last
    return rows
