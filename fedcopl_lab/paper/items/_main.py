"""FedCoPL's main paper: Tables 1 to 6, Figs. 1 to 3."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedcopl_lab.paper.items._columns import (
    BASELINES,
    DIRICHLET,
    FEDCOPL,
    ONE_SPLIT,
    QUANTITY,
    SETS_OF_MINI,
    SMOKE_DIFFERS,
    before_training,
    data_columns,
    grid,
    with_labels,
)
from fedcopl_lab.paper.items._item import Cell, Item, NotRun

ACCURACIES = ("accuracy", "accuracy_sample_mean", "accuracy_global")
LABELS = ("label_accuracy", "n_selected")
DRIFT = ("drift_text", "drift_visual", "cosine_text", "cosine_visual")

WITH_FPL = with_labels(BASELINES, ("FPL",))

PRESET = (
    "The paper does not say how the baselines were tuned. Here all trainers share FedCoPL's optimiser and rounds and "
    "train both prompts, which main Tables 3 and 6 imply for PromptFL."
)
SPREAD = (
    "The paper prints means of three trials that share one partition; here every seed draws its own partition, "
    "and the spread is printed."
)
SHOTS = (
    "FPL takes 8 images per class and client instead of 16: the share of the images that 16 are on CIFAR-100. "
    "The item on FPL's shots shows how much that matters."
)
RECONSTRUCTED = "pFedPrompt is a reconstruction from its abstract: it has no public code."

ABLATION: dict[str, dict[str, Any]] = {
    "PromptFL + FPL (printed as no part)": {"method": "PromptFL", "labeller": "FPL"},
    "no part": {"q_conf": None, "q_ent": None, "allocation": "none"},
    "allocation": {"q_conf": None, "q_ent": None},
    "entropy filter, allocation": {"q_conf": None},
    "confidence filter, allocation": {"q_ent": None},
    "all three (FedCoPL)": {},
}
AVERAGED: dict[str, dict[str, Any]] = {
    "neither": {"aggregate": "none"},
    "text and visual": {"aggregate": "both"},
    "text only": {"aggregate": "text"},
    "visual only (FedCoPL)": {"aggregate": "visual"},
}
DRIFT_ROWS: dict[str, dict[str, Any]] = {"visual averaged (FedCoPL)": {}, "both averaged": {"aggregate": "both"}}
DRIFT_OWN = ("visual averaged (FedCoPL)",)
DRIFT_DIFFERS = (
    SMOKE_DIFFERS,
    "The paper does not say what the text prompt's drift is measured from, since the server has none. "
    "Shown are FedCoPL, from each client's own previous prompt, and a run that averages both prompts.",
    "Its cosine distance is undefined; here it is the mean over pairs of clients of 1 - cos.",
)
_FOUR_SETS = ("DTD", "RESISC45", "CUB", "UCF101")
_CLIENTS = {"smoke": (5, 10, 20, 30), "mini": (5, 10, 30)}
_NOT_CARRIED = {
    "smoke": "no draw of 1,001 gave all 50 clients 10 training and 5 test digits at β = 0.1",
    "mini": "5,000 training images are too few for 50 clients",
}
_JOINING = (0.5, 0.8, 1.0)


def compared(profile: str) -> dict[str, dict[str, Any]]:
    """The rows of the paper's comparison of methods."""
    return before_training(profile) | with_labels(BASELINES, ("FPL", "CPL")) | FEDCOPL


def on_backbone(clips: Mapping[str, str], sets: Iterable[str]) -> Callable[[str], list[Cell]]:
    """The cells of a backbone table.

    Args:
        clips: profile -> its frozen model of that kind; a profile without one has no cells.
        sets: the paper's data sets.
    """

    def cells(profile: str) -> list[Cell]:
        if profile not in clips:
            return []
        rows = before_training(profile) | WITH_FPL | FEDCOPL
        changed = {row: settings | {"clip": clips[profile]} for row, settings in rows.items()}
        return grid(profile, changed, data_columns(profile, ONE_SPLIT, sets))

    return cells


def no_backbone(profile: str) -> list[NotRun]:
    """Why a profile has no backbone table."""
    if profile != "mini":
        return []
    return [NotRun("all columns", "there is only one small CLIP for photographs")]


def _fig3(profile: str) -> list[Cell]:
    clients = {f"K = {k}": {"n_clients": k} for k in _CLIENTS.get(profile, (5, 10, 30, 50))}
    joining = {f"R = {r}": {"participation": r} for r in _JOINING}
    made: list[Cell] = []
    for name, there in data_columns(profile, {"": ONE_SPLIT["β = 0.1"]}, ("DTD", "RESISC45", "CIFAR-10")).items():
        for swept, columns in (("n_clients", clients), ("participation", joining)):
            named = {name + setting: there | own for setting, own in columns.items()}
            made += grid(profile, WITH_FPL | FEDCOPL, named, swept)
    return made


def _fig3_not_run(profile: str) -> list[NotRun]:
    if profile not in _NOT_CARRIED:
        return []
    name, data = {"smoke": ("", "digits"), "mini": ("CIFAR-10, ", SETS_OF_MINI["CIFAR-10"]["dataset"])}[profile]
    return [NotRun(f"{name}K = 50", _NOT_CARRIED[profile], data, "n_clients", 50.0)]


MAIN: tuple[Item, ...] = (
    Item(
        id="fedcopl_main_fig1",
        source="main Fig. 1",
        title="How data and prompts flow",
        question="What stays on a client, what goes to the server, and what comes back?",
        reads="nothing",
        metrics=(),
        drawing="overview",
        notebook="fedcopl_main_fig1",
        cells=lambda profile: (),
        differs=("Our own drawing of the same method, not the paper's figure.",),
    ),
    Item(
        id="fedcopl_main_table1",
        source="main Table 1",
        title="Accuracy under Dirichlet label skew",
        question="Does FedCoPL beat zero-shot CLIP and the other trainers when clients see different classes?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_main_table1",
        cells=lambda profile: grid(profile, compared(profile), data_columns(profile, DIRICHLET)),
        differs=(SMOKE_DIFFERS, PRESET, RECONSTRUCTED, SHOTS, SPREAD),
    ),
    Item(
        id="fedcopl_main_table2",
        source="main Table 2",
        title="Accuracy under quantity skew",
        question="Does the order of the methods stay when each client owns a fifth of the classes?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_main_table1",
        cells=lambda profile: grid(profile, compared(profile), data_columns(profile, QUANTITY)),
        differs=(SMOKE_DIFFERS, PRESET, RECONSTRUCTED, SHOTS, SPREAD),
    ),
    Item(
        id="fedcopl_main_table3",
        source="main Table 3",
        title="Cooperative pseudo-labels for other trainers",
        question="Do CoPL's labels help trainers other than FedCoPL?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_main_table3",
        cells=lambda profile: grid(
            profile,
            with_labels(("PromptFL", "pFedPrompt", "FedOTP"), ("FPL", "CoPL")),
            data_columns(profile, ONE_SPLIT, ("DTD", "RESISC45", "CUB", "UCF101", "CIFAR-10")),
        ),
        differs=(SMOKE_DIFFERS, RECONSTRUCTED, SHOTS),
    ),
    Item(
        id="fedcopl_main_table4",
        source="main Table 4",
        title="A backbone with smaller patches",
        question="Does the order of the methods stay when the image tower has four times the patches?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_backbones",
        cells=on_backbone({"smoke": "tiny-p1", "paper": "ViT-B-16"}, _FOUR_SETS),
        differs=(SMOKE_DIFFERS, "The small ViT with patches of one pixel stands for ViT-B/16.", RECONSTRUCTED, SHOTS),
        not_run=no_backbone,
    ),
    Item(
        id="fedcopl_main_table5",
        source="main Table 5",
        title="What the filters and the allocation add",
        question="Which of confidence filter, entropy filter and global allocation does FedCoPL need?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_main_table5",
        cells=lambda profile: grid(profile, ABLATION, data_columns(profile, ONE_SPLIT, _FOUR_SETS)),
        differs=(
            SMOKE_DIFFERS,
            "The paper's row without any part equals PromptFL + FPL in every column, which is another method: here "
            "that run has its own row, and “no part” is FedCoPL trained on every image as CLIP labels it.",
        ),
        own=("all three (FedCoPL)",),
    ),
    Item(
        id="fedcopl_main_table6",
        source="main Table 6",
        title="Which prompts the server averages",
        question="Is it right to share the visual prompt and keep the text prompt at home?",
        reads="final",
        metrics=ACCURACIES,
        drawing="dots",
        notebook="fedcopl_main_table6",
        cells=lambda profile: grid(profile, AVERAGED, data_columns(profile, ONE_SPLIT, _FOUR_SETS)),
        differs=(
            SMOKE_DIFFERS,
            "All four rows differ in nothing but the averaging. In the paper the row with both prompts equals "
            "PromptFL + CoPL of Table 3 in every cell.",
        ),
        own=("visual only (FedCoPL)",),
    ),
    Item(
        id="fedcopl_main_fig2",
        source="main Fig. 2",
        title="Drift of text and visual prompts",
        question="Do the clients' text prompts move apart more than their visual prompts?",
        reads="rounds",
        metrics=DRIFT,
        drawing="drift",
        notebook="fedcopl_main_fig2",
        cells=lambda profile: grid(profile, DRIFT_ROWS, data_columns(profile, ONE_SPLIT, ("CIFAR-10",))),
        differs=DRIFT_DIFFERS,
        own=DRIFT_OWN,
    ),
    Item(
        id="fedcopl_main_fig3",
        source="main Fig. 3",
        title="More clients, and fewer that join",
        question="How does each method bear more clients, and rounds that only some clients join?",
        reads="final",
        metrics=("accuracy", "label_accuracy"),
        drawing="lines",
        notebook="fedcopl_main_fig3",
        cells=_fig3,
        differs=(
            SMOKE_DIFFERS,
            "The paper's clients are 5, 10, 30 and 50; the digits carry 30 at most, and 20 is ours.",
            PRESET,
            RECONSTRUCTED,
        ),
        not_run=_fig3_not_run,
    ),
)
