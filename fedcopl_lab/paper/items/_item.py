"""What an item is: a table or figure, and the runs each of its cells needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from fedcopl_lab.config import PromptConfig, RunConfig

Reads = Literal["final", "first", "rounds", "labels", "pseudo_labels", "confidences", "reached", "theory", "split",
                "gate", "manifests", "nothing"]  # fmt: skip
"""What of each run an item takes: last round, first round, every round, every label phase and the last round; of
SAGE's runs what every round's pseudo-labels were worth, the confidences of the first rounds, the round in which the
column's accuracy is reached, the entropies of its theory, what says whether its regime was reached; the split; or what
stands in the manifests, or nothing."""

Drawing = Literal["overview", "statistics", "dots", "drift", "labels", "sweep", "lines", "surface", "skew", "spread",
                  "uploads", "confidences", "thresholds", "rounds", "curves", "reached", "kappa", "decay", "two_skews",
                  "theory", "traffic"]  # fmt: skip
"""Kinds of picture; the report has one drawing function for each."""

Role = Literal["own", "reference", "before training", "other"]
"""What a row is in its item: the paper's own method; what the others are read against and no rival; the same model
before any training; any other row."""

BEFORE_TRAINING = ("Zero-shot CLIP", "Prompted, before training")
"""Names of the rows without trained prompts."""

SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the committed measurements of ranked rows; each draws its own partition, prompts and batches."""

THREE_SEEDS = SEEDS[:3]
"""Seeds of sweeps and of what is not ranked: as many as the paper's trials."""


def changes_of(method: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changed settings, without those that the method does not have: zero-shot has no rounds."""
    return {name: value for name, value in changes.items() if (method, name) != ("zero-shot", "rounds")}


@cache
def _varied(
    config: RunConfig, seed: int, machine: Callable[[RunConfig], RunConfig] | None, *changes: tuple[str, Any]
) -> RunConfig:
    made = replace(config, seed=seed, **changes_of(config.method, dict(changes)))  # thousands, each checked when made
    return machine(made) if machine else made


def ways_on_cards(config: RunConfig) -> list[RunConfig]:
    """A run as it is and, in the profile ``paper``, as cards of any size compute it: with equal groups of clients."""
    if config.profile != "paper":
        return [config]
    on_card = replace(config, device="cuda")
    if not isinstance(on_card, PromptConfig) or on_card.momentum_state == "shared":
        return [config, on_card]
    groups = [n for n in range(1, config.n_clients + 1) if config.n_clients % n == 0]
    return [config, *(replace(on_card, clients_per_forward=n) for n in groups)]


@dataclass(frozen=True)
class Cell:
    """One row × column of a table, or one curve of a figure, before the seed is chosen.

    Attributes:
        series: row of the table or curve of the figure, such as ``"FedCoPL"``.
        column: column or panel, such as ``"β = 0.1"``.
        config: the run behind it, for seed 0.
        seeds: seeds of this cell alone; None takes the item's.
        swept: the setting that differs along the columns, such as ``"beta"`` or ``"kappa"``; empty for none.
        level: its value in this column; None where it has none, as β under the quantity split.
        row_level: the same of a setting that differs along the rows.
    """

    series: str
    column: str
    config: RunConfig
    seeds: tuple[int, ...] | None = None
    swept: str = ""
    level: float | int | None = None
    row_level: float | int | None = None


@dataclass(frozen=True)
class NotRun:
    """A cell of the paper that a profile cannot run.

    Attributes:
        column: column or panel, such as ``"K = 50"``.
        reason: why, in one sentence.
        dataset: name of the data set; empty where it is about all.
        swept: the setting that differs along the columns, as in :class:`Cell`.
        level: its value in this column.
    """

    column: str
    reason: str
    dataset: str = ""
    swept: str = ""
    level: float | None = None


Cells = Callable[[str], Sequence[Cell]]
"""Profile -> cells."""


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper, or one of ours beside it.

    Attributes:
        id: file name in ``figures/`` and name on the command line.
        source: where it stands in the paper, such as ``"main Table 1"``; ``"ours"`` for what it does not have.
        title: what it shows, in a few words.
        question: the question it answers, in one sentence.
        reads: what of each run it takes.
        metrics: names of the row values it takes.
        drawing: kind of its picture.
        notebook: the notebook that explains it.
        cells: profile -> its cells.
        differs: what differs from the paper's, one sentence each.
        axis: for a sweep, what the columns' numbers are.
        field: for a sweep, the setting they are values of.
        seeds: seeds it uses; None takes those asked for.
        not_run: profile -> columns of the paper that it cannot run.
        own: names of the rows that are a paper's own method.
        references: names of the rows that all others are read against and that are no rivals.
        ranked: whether its rows compete; those of a gate do not.
        claims: numbers of the claims that its picture lets a reader look at.
    """

    id: str
    source: str
    title: str
    question: str
    reads: Reads
    metrics: tuple[str, ...]
    drawing: Drawing
    notebook: str
    cells: Cells
    differs: tuple[str, ...]
    axis: str = ""
    field: str = ""
    seeds: tuple[int, ...] | None = None
    not_run: Callable[[str], Sequence[NotRun]] = lambda profile: ()
    own: tuple[str, ...] = ("FedCoPL", "SAGE")
    references: tuple[str, ...] = ("FedAvg-SL",)
    ranked: bool = True
    claims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        made = self.cells
        object.__setattr__(self, "cells", cache(lambda profile: tuple(made(profile))))  # hundreds of configurations

    @property
    def beyond(self) -> bool:
        """Whether it is ours, beside what the papers show."""
        return self.source == "ours"

    @property
    def metric(self) -> str:
        """The first of its metrics, which its picture and its tables show; empty where it has none."""
        return "".join(self.metrics[:1])

    def runs(
        self,
        profile: str,
        seeds: Sequence[int] = SEEDS,
        first: int | None = None,
        machine: Callable[[RunConfig], RunConfig] | None = None,
        **changes: Any,
    ) -> list[tuple[Cell, RunConfig]]:
        """Every (cell, run) of the item: its cells at each seed, with ``changes`` such as ``rounds``.

        ``first`` bounds the number of seeds of each cell: 1 for a quick look, 0 for none. ``machine`` makes each run
        what a machine computes: on a card, with as many clients in a forward pass as fit.
        """
        return [
            (cell, _varied(cell.config, s, machine, *changes.items()))
            for cell in self.cells(profile)
            for s in self.seeds_of(cell, seeds)[:first]
        ]

    def seeds_of(self, cell: Cell, seeds: Sequence[int] = SEEDS) -> Sequence[int]:
        """The seeds of a cell: those asked for, or the item's where it has its own.

        Where the cell has its own, those of them that were chosen, or its first.
        """
        chosen = tuple(dict.fromkeys(seeds)) if self.seeds is None else self.seeds
        if cell.seeds is None:
            return chosen
        return tuple(seed for seed in cell.seeds if seed in chosen) or cell.seeds[:1]

    def role(self, series: str) -> Role:
        """What a row of the item is.

        >>> find_items(["main Table 1"])[0].role("FedCoPL")
        'own'
        """
        if series in self.own:
            return "own"
        if series in self.references:
            return "reference"
        return "before training" if series in BEFORE_TRAINING else "other"

    def __repr__(self) -> str:
        return f"Item({self.id}: {self.source}, {self.title})"
