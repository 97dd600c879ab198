"""Every table and figure that can be regenerated, and the runs each of its cells needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import RunConfig, configure, did_you_mean

Reads = Literal["final", "rounds", "split", "nothing"]

SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the committed measurements; each draws its own partition, prompts and batches."""


@dataclass(frozen=True)
class Cell:
    """One row × column of a table, or one curve of a figure, before the seed is chosen.

    Attributes:
        series: row of the table or curve of the figure, such as ``"FedCoPL"``.
        column: column or panel, such as ``"β = 0.1"``.
        config: the run behind it, for seed 0.
    """

    series: str
    column: str
    config: RunConfig


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper, or one of ours beside it.

    Attributes:
        id: file name in ``figures/`` and name on the command line.
        source: where it stands in the paper, such as ``"main Table 1"``; ``"ours"`` for what it does not have.
        title: what it shows, in a few words.
        question: the question it answers, in one sentence.
        reads: what of each run it takes: last round, every round, the split, or nothing.
        metrics: names of the row values it takes.
        notebook: the notebook that explains it.
        cells: profile -> its cells.
        differs: what differs from the paper's, one sentence each.
        seeds: seeds it uses; None takes those asked for.
    """

    id: str
    source: str
    title: str
    question: str
    reads: Reads
    metrics: tuple[str, ...]
    notebook: str
    cells: Callable[[str], Sequence[Cell]]
    differs: tuple[str, ...]
    seeds: tuple[int, ...] | None = None

    def runs(self, profile: str, seeds: Sequence[int] = SEEDS, **changes: Any) -> list[tuple[Cell, RunConfig]]:
        """Every (cell, run) of the item: its cells at each seed, with ``changes`` such as ``device``."""
        chosen = self.seeds if self.seeds is not None else seeds
        return [(cell, replace(cell.config, seed=s, **changes)) for cell in self.cells(profile) for s in chosen]

    def __repr__(self) -> str:
        return f"Item({self.id}: {self.source}, {self.title})"


ACCURACIES = ("accuracy", "accuracy_sample_mean", "accuracy_global")
LABELS = ("label_accuracy", "n_selected")
DRIFT = ("drift_text", "drift_visual", "cosine_text", "cosine_visual")
SKEWS: dict[str, dict[str, Any]] = {"β = 0.1": {"beta": 0.1}, "β = 0.05": {"beta": 0.05}}
QUANTITY: dict[str, Any] = {"scheme": "quantity"}

SMOKE_DIFFERS = (
    "The smoke profile runs 1,797 real handwritten digits and a small CLIP trained on printed glyphs, "
    "not the paper's six data sets and OpenAI's ViT-B/32: compare orders and gaps, never the numbers."
)


def _table1(profile: str) -> list[Cell]:
    methods: dict[str, dict[str, Any]] = {
        "Zero-shot CLIP": {"method": "zero-shot"},
        "PromptFL + FPL": {"method": "PromptFL", "labeller": "FPL"},
        "PromptFL + CoPL": {"method": "PromptFL", "labeller": "CoPL"},
        "FedCoPL": {"method": "FedCoPL"},
    }
    return [
        Cell(name, column, configure(profile, **method, **skew))
        for name, method in methods.items()
        for column, skew in SKEWS.items()
    ]


def _table6(profile: str) -> list[Cell]:
    names = {
        "none": "neither",
        "both": "text and visual",
        "text": "text only",
        "visual": "visual only (FedCoPL)",
    }
    return [Cell(name, "β = 0.1", configure(profile, aggregate=parts)) for parts, name in names.items()]


def _fig2(profile: str) -> list[Cell]:
    return [
        Cell("visual averaged (FedCoPL)", "β = 0.1", configure(profile)),
        Cell("both averaged", "β = 0.1", configure(profile, aggregate="both")),
    ]


def _label_skew(profile: str) -> list[Cell]:
    panels = {"(a) Dirichlet β = 0.1": SKEWS["β = 0.1"], "(b) Dirichlet β = 0.05": SKEWS["β = 0.05"],
              "(c) quantity, s = 0.2 C": QUANTITY}  # fmt: skip
    return [Cell("images", panel, configure(profile, method="zero-shot", **skew)) for panel, skew in panels.items()]


def _allocation(profile: str) -> list[Cell]:
    series = {"with global allocation": "paper", "without: filtered sets": "none"}
    return [
        Cell(name, column, configure(profile, allocation=mode, **skew))
        for name, mode in series.items()
        for column, skew in SKEWS.items()
    ]


def _fpl_shots(profile: str) -> list[Cell]:
    return [
        Cell("PromptFL + FPL", str(shots), configure(profile, method="PromptFL", fpl_shots=shots))
        for shots in (1, 2, 4, 8, 16, 24)
    ]


ITEMS: tuple[Item, ...] = (
    Item(
        id="fedcopl_main_fig1",
        source="main Fig. 1",
        title="How data and prompts flow",
        question="What stays on a client, what goes to the server, and what comes back?",
        reads="nothing",
        metrics=(),
        notebook="fedcopl_main_fig1",
        cells=lambda profile: (),
        differs=("Our own drawing of the same method, not the paper's figure.",),
    ),
    Item(
        id="fedcopl_main_table1",
        source="main Table 1",
        title="Accuracy under Dirichlet label skew",
        question="Does FedCoPL beat zero-shot CLIP and PromptFL when clients see different classes?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        notebook="fedcopl_main_table1",
        cells=_table1,
        differs=(
            SMOKE_DIFFERS,
            "The row PromptFL + CoPL is from main Table 3; PromptProx, pFedPrompt, FedOPT and the labeller CPL "
            "are not in this version.",
            "FPL takes 8 images per class and client instead of 16: the share of the images that 16 are on "
            "CIFAR-100. The item on FPL's shots shows how much that matters.",
            "The paper prints means of three trials that share one partition; here every seed draws its own "
            "partition, and the spread is printed.",
        ),
    ),
    Item(
        id="fedcopl_main_table6",
        source="main Table 6",
        title="Which prompts the server averages",
        question="Is it right to share the visual prompt and keep the text prompt at home?",
        reads="final",
        metrics=ACCURACIES,
        notebook="fedcopl_main_table6",
        cells=_table6,
        differs=(
            SMOKE_DIFFERS,
            "All four rows differ in nothing but the averaging. In the paper the row with both prompts equals "
            "PromptFL + CoPL of Table 3 in every cell.",
        ),
    ),
    Item(
        id="fedcopl_main_fig2",
        source="main Fig. 2",
        title="Drift of text and visual prompts",
        question="Do the clients' text prompts move apart more than their visual prompts?",
        reads="rounds",
        metrics=DRIFT,
        notebook="fedcopl_main_fig2",
        cells=_fig2,
        differs=(
            SMOKE_DIFFERS,
            "The paper does not say what the text prompt's drift is measured from, since the server has none. "
            "Shown are FedCoPL, from each client's own previous prompt, and a run that averages both prompts.",
            "Its cosine distance is undefined; here it is the mean over pairs of clients of 1 - cos.",
        ),
    ),
    Item(
        id="fedcopl_supp_fig3",
        source="supplement Fig. 3",
        title="Label skew of the clients",
        question="Which client holds how many images of which class?",
        reads="split",
        metrics=("train",),
        notebook="fedcopl_supp_fig3",
        cells=_label_skew,
        differs=("Digits on 5 clients instead of CIFAR-10 on 10; the drawing rules are the paper's.",),
        seeds=(0,),
    ),
    Item(
        id="fedcopl_supp_fig4",
        source="supplement Fig. 4",
        title="Pseudo-label accuracy with and without global allocation",
        question="Are the pseudo-labels better because the server balances the classes?",
        reads="rounds",
        metrics=("label_accuracy", "accuracy"),
        notebook="fedcopl_supp_fig4",
        cells=_allocation,
        differs=(
            SMOKE_DIFFERS,
            'The paper does not define "without". Here it is a run of its own that trains on the filtered sets; '
            "the notebook also shows both sets of one run.",
        ),
    ),
    Item(
        id="fedcopl_ours_fpl_shots",
        source="ours",
        title="How much FPL's budget matters",
        question="Does PromptFL + FPL fall behind because it was given too few or too many images?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        notebook="fedcopl_main_table1",
        cells=_fpl_shots,
        differs=("Not in the paper, which gives FPL's budget nowhere.",),
    ),
)


def find_items(names: Sequence[str] | None = None) -> tuple[Item, ...]:
    """The items of these ids or sources, or all.

    Raises:
        FedCoPLError: an unknown name, with the known ones.

    >>> find_items(["main Table 1"])[0].id
    'fedcopl_main_table1'
    """
    if not names:
        return ITEMS
    by_name = {name: item for item in ITEMS for name in (item.id, item.source.lower()) if name != "ours"}
    for name in names:
        if name.lower() not in by_name:
            known = ", ".join(item.id for item in ITEMS)
            raise FedCoPLError(f"unknown item {name!r}{did_you_mean(name, by_name)}; known: {known}")
    return tuple(dict.fromkeys(by_name[name.lower()] for name in names))
