"""What the FedCoPL paper does not have and a reader asks next."""

from typing import Any

from fedcopl_lab.config import AUTHORS_MODE
from fedcopl_lab.paper.items._columns import (
    ALL_SPLITS,
    FEDCOPL,
    ONE_SPLIT,
    SMOKE_DIFFERS,
    before_training,
    grid,
    with_labels,
)
from fedcopl_lab.paper.items._item import Cell, Item
from fedcopl_lab.paper.items._main import ACCURACIES, LABELS

SURFACE_LEVELS = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
SHOTS_TRIED = (1, 2, 4, 8, 16, 24)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_NOT_IN_PAPER = "Not in the paper."

QUIRKS: dict[str, dict[str, Any]] = {
    "paper mode": {},
    "no weight decay": {"weight_decay": 0.0},
    **{
        name: {field: AUTHORS_MODE[field]}
        for name, field in {
            "one momentum buffer for all clients": "momentum_state",
            "allocation rounded as released": "allocation",
            "fallback quota for unseen classes": "unseen_class",
            "weights: images selected": "weight_by",
            "released partition": "partition_mode",
        }.items()
    },
    "all of the released code's": {"mode": "authors"},
}

_UPLOADS: dict[str, dict[str, Any]] = {
    "counts as they are": {},
    "each count × (1 ± 0.5)": {"count_noise": "half"},
    "all counts equal": {"count_noise": "uniform"},
    "clients shuffled": {"count_noise": "shuffled"},
}


_CONTROLS: dict[str, dict[str, Any]] = {
    "FedCoPL, labels made once": {"refresh_every": 0},
    "PromptFL + TRUE LABELS": {"method": "PromptFL", "labeller": "true"},
    "FedOTP + TRUE LABELS": {"method": "FedOTP", "labeller": "true"},
}
_MILD: dict[str, dict[str, Any]] = {"IID": {"scheme": "iid"}, "β = 0.5": {"beta": 0.5}}


def _controls(profile: str) -> list[Cell]:
    known = FEDCOPL | with_labels(("PromptFL", "FedOTP"), ("FPL",))
    mild = FEDCOPL | with_labels(("PromptFL",), ("FPL",))
    return [*grid(profile, mild, _MILD), *grid(profile, known | _CONTROLS, ALL_SPLITS)]


def _surface(profile: str) -> list[Cell]:
    rows = {f"τ2 = {level:g}": {"q_ent": level} for level in SURFACE_LEVELS}
    return grid(profile, rows, {f"{level:g}": {"q_conf": level} for level in SURFACE_LEVELS}, "q_conf", "q_ent")


def _spread(profile: str) -> list[Cell]:
    rows = before_training(profile) | with_labels(("PromptFL",), ("FPL", "CPL", "CoPL")) | FEDCOPL
    columns = {"new partition for each seed": {}, "one partition, new prompts": {"seed_scope": "prompts"}}
    return grid(profile, rows, columns)


def _uploads(profile: str) -> list[Cell]:
    noisy = [
        cell
        for kind in ("Laplace", "Gaussian")
        for cell in grid(
            profile,
            {f"{kind} noise": {"count_noise": kind.lower()}},
            {f"{epsilon:g}": {"epsilon": epsilon} for epsilon in EPSILONS},
            "epsilon",
        )
    ]
    return [*grid(profile, _UPLOADS, {"no ε": {}}, "epsilon"), *noisy]


def _traffic(profile: str) -> list[Cell]:
    return grid(profile, FEDCOPL | with_labels(("PromptFL", "pFedPrompt", "FedOTP"), ("CoPL",)), ONE_SPLIT)


OURS: tuple[Item, ...] = (
    Item(
        id="fedcopl_ours_fpl_shots",
        source="ours",
        title="How much FPL's budget matters",
        question="Does PromptFL + FPL fall behind because it was given too few or too many images?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="sweep",
        notebook="fedcopl_main_table1",
        cells=lambda profile: grid(
            profile,
            with_labels(("PromptFL",), ("FPL",)),
            {str(shots): {"shots": shots} for shots in SHOTS_TRIED},
            "shots",
        ),
        differs=("Not in the paper, which gives FPL's budget nowhere.",),
        axis="FPL's shots per class and client",
        field="shots",
    ),
    Item(
        id="fedcopl_ours_surface",
        source="ours",
        title="τ1 and τ2 together",
        question="Is there a pair of levels that neither of the paper's two cuts passes through, and that is better?",
        reads="final",
        metrics=("accuracy", "label_accuracy", "n_selected"),
        drawing="surface",
        notebook="fedcopl_ours_surface",
        cells=_surface,
        differs=("The paper cuts this surface along its two middle lines only.", SMOKE_DIFFERS),
        axis="τ1, level of the confidence filter",
        field="q_conf",
    ),
    Item(
        id="fedcopl_ours_quirks",
        source="ours",
        title="What the released code does otherwise",
        question="Which of the released code's differences from the paper changes the result?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_ours_quirks",
        cells=lambda profile: grid(profile, QUIRKS, ONE_SPLIT),
        differs=(
            _NOT_IN_PAPER,
            "One switch at a time. As released the script trains nothing; these rows do what it sets out to do.",
        ),
        references=("paper mode",),
    ),
    Item(
        id="fedcopl_ours_spread",
        source="ours",
        title="Spread over seeds and partitions",
        question="Which differences between methods are larger than their noise?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="spread",
        notebook="fedcopl_ours_spread",
        cells=_spread,
        differs=("The paper prints no spread at all; its three trials share one partition.", SMOKE_DIFFERS),
        seeds=tuple(range(6)),
    ),
    Item(
        id="fedcopl_ours_controls",
        source="ours",
        title="Controls: true labels, labels made once, milder skew",
        question="What do wrong labels cost, what does relabelling bring, and does FedCoPL's lead grow with skew?",
        reads="final",
        metrics=(*ACCURACIES, *LABELS),
        drawing="dots",
        notebook="fedcopl_ours_controls",
        cells=_controls,
        differs=(
            _NOT_IN_PAPER,
            "Rows with TRUE LABELS use labels that no method may use; they belong to no comparison of methods.",
            "The claims about labels, personalisation and skew are judged with these runs.",
        ),
        own=("FedCoPL", "FedCoPL, labels made once"),
    ),
    Item(
        id="fedcopl_ours_uploads",
        source="ours",
        title="What the uploaded counts reveal",
        question="How well can a client's true classes be read off its upload, and what does noise on it cost?",
        reads="labels",
        metrics=("upload_distance", "upload_distance_global", "label_accuracy", "accuracy"),
        drawing="uploads",
        notebook="fedcopl_ours_uploads",
        cells=_uploads,
        differs=(
            "The paper claims privacy here and measures nothing.",
            "ε is of one upload; over the label phases of a run the budgets add up.",
        ),
        axis="ε of one upload",
        field="epsilon",
    ),
    Item(
        id="fedcopl_ours_traffic",
        source="ours",
        title="Accuracy against bytes sent",
        question="What does a client get for the bytes that it sends?",
        reads="rounds",
        metrics=("accuracy", "bytes_up"),
        drawing="traffic",
        notebook="federation",
        cells=_traffic,
        differs=(
            "The paper claims less communication than sharing both prompts and draws no such figure.",
            "Bytes of prompts and counts by formula, which the notebook finds equal to what is sent; envelopes and "
            "what a network adds come on top.",
            SMOKE_DIFFERS,
        ),
    ),
)
