"""The runs behind each of FedCoPL's tables and figures, and of ours beside them: rows and columns by profile."""

from collections.abc import Iterable, Mapping

from fedcopl_lab.config import AUTHORS_MODE
from fedcopl_lab.paper.items._fedcopl_columns import (
    ALL_SPLITS,
    BASELINES,
    DIRICHLET,
    FEDCOPL,
    ONE_SPLIT,
    QUANTITY,
    SETS,
    SETS_OF_MINI,
    START,
    TRUE_LABELS,
    Columns,
    at_equal_bytes,
    before_training,
    data_columns,
    grid,
    with_labels,
)
from fedcopl_lab.paper.items._item import THREE_SEEDS, Cell, Cells, NotRun

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.44, 0.46, 0.48, 0.5, 0.52, 0.54, 0.56, 0.6, 0.7, 0.8, 0.9)
SURFACE_LEVELS = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
_FEWER_LEVELS = {"smoke": (0.1, 0.3, 0.5, 0.7, 0.9)}  # also levels of the paper's cuts, so that runs are shared
SHOTS_TRIED = {"smoke": (1, 4, 8, 16, 32, 64, 256)}  # the last leaves no image of the digits out
_SHOTS = (1, 2, 4, 8, 16, 24)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
JOINING = (0.5, 0.8, 1.0)
_OTHER_CLIPS = {"smoke": ("tiny-p1", "tiny-rn")}  # for ViT-B/16 and RN50

WITH_FPL = with_labels(BASELINES, ("FPL",))
OTHER_TRAINERS = with_labels(("PromptFL", "pFedPrompt", "FedOTP"), ("FPL", "CoPL"))
ABLATION: Columns = {
    "PromptFL + FPL (printed as no part)": {"method": "PromptFL", "labeller": "FPL"},
    "no part": {"q_conf": None, "q_ent": None, "allocation": "none"},
    "allocation": {"q_conf": None, "q_ent": None},
    "entropy filter, allocation": {"q_conf": None},
    "confidence filter, allocation": {"q_ent": None},
    "all three (FedCoPL)": {},
}
AVERAGED: Columns = {
    "neither": {"aggregate": "none"},
    "text and visual": {"aggregate": "both"},
    "text only": {"aggregate": "text"},
    "visual only (FedCoPL)": {"aggregate": "visual"},
}
DRIFT_ROWS: Columns = {"visual averaged (FedCoPL)": {}, "both averaged": {"aggregate": "both"}}
LABELLERS: Columns = {
    name: {"method": "FedCoPL" if name == "CoPL" else "PromptFL", "labeller": name} for name in ("FPL", "CPL", "CoPL")
}
ALLOCATION: Columns = {
    "with global allocation": {"allocation": "paper"},
    "without: filtered sets": {"allocation": "none"},
}
QUIRKS: Columns = {
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
UPLOADS: Columns = {
    "counts as they are": {},
    "each count × (1 ± 0.5)": {"count_noise": "half"},
    "all counts equal": {"count_noise": "uniform"},
    "clients shuffled": {"count_noise": "shuffled"},
}
WITH_TRUE: Columns = {"PromptFL + TRUE LABELS": {"method": "PromptFL", **TRUE_LABELS}}
CONTROLS: Columns = {
    "FedCoPL, labels made once": {"refresh_every": 0},
    **WITH_TRUE,
    "FedOTP + TRUE LABELS": {"method": "FedOTP", **TRUE_LABELS},
}
RIVALS = ("LinearHead", "ClassMeans", "FedCOF")
TEXT_ALONE: Columns = {"PromptFL text, TRUE LABELS": {"method": "PromptFL", "modalities": "text", **TRUE_LABELS}}
MILDER: Columns = {"IID": {"scheme": "iid"}, "β = 0.5": {"beta": 0.5}}
CENTRAL: Columns = {"central": {"scheme": "iid", "n_clients": 1, "lr_schedule": "run"}}  # one long cosine
LABEL_SKEWS: Columns = {
    "(a) Dirichlet β = 0.1": ALL_SPLITS["β = 0.1"],
    "(b) Dirichlet β = 0.05": ALL_SPLITS["β = 0.05"],
    "(c) quantity, s = 0.2 C": ALL_SPLITS["quantity"],
}
PARTITIONS: Columns = {"new partition for each seed": {}, "one partition, new prompts": {"seed_scope": "prompts"}}

_FOUR_SETS = ("DTD", "RESISC45", "CUB", "UCF101")
_MORE_SKEWED: Columns = {"β = 0.05": ALL_SPLITS["β = 0.05"]}
_SWEPT_SETS = ("DTD", "RESISC45", "CIFAR-10", "CIFAR-100")
_CLIENTS = {"smoke": (5, 10, 20, 30), "mini": (5, 10, 30)}


def _on(rows: Columns, splits: Columns, sets: Iterable[str] = SETS, **splits_in: Columns) -> Cells:
    """The same rows in every profile, on the paper's data sets at each split, or at those of a profile by name."""
    return lambda profile: grid(profile, rows, data_columns(profile, splits, sets, splits_in))


def _compared(splits: Columns) -> Cells:
    """The paper's comparison of methods."""

    def cells(profile: str) -> list[Cell]:
        rows = before_training(profile) | with_labels(BASELINES, ("FPL", "CPL")) | FEDCOPL
        return grid(profile, rows, data_columns(profile, splits))

    return cells


def _on_backbone(clips: Mapping[str, str], sets: Iterable[str]) -> Cells:
    """A backbone table: profile -> its frozen model of that kind; a profile without one has no cells."""

    def cells(profile: str) -> list[Cell]:
        if profile not in clips:
            return []
        rows = before_training(profile) | WITH_FPL | FEDCOPL
        changed = {row: settings | {"clip": clips[profile]} for row, settings in rows.items()}
        return grid(profile, changed, data_columns(profile, ONE_SPLIT, sets))

    return cells


def _sweep_of(field: str) -> Cells:
    levels: Columns = {f"{level:.2f}": {field: level} for level in LEVELS}
    sets = _SWEPT_SETS
    return lambda profile: grid(profile, data_columns(profile, ONE_SPLIT, sets), levels, field, seeds=THREE_SEEDS)


def _clients_and_participation(profile: str) -> list[Cell]:
    clients = {f"K = {k}": {"n_clients": k} for k in _CLIENTS.get(profile, (5, 10, 30, 50))}
    joining = {f"R = {rate}": {"participation": rate} for rate in JOINING}
    made: list[Cell] = []
    for name, there in data_columns(profile, {"": ONE_SPLIT["β = 0.1"]}, ("DTD", "RESISC45", "CIFAR-10")).items():
        for swept, columns in (("n_clients", clients), ("participation", joining)):
            named = {name + setting: there | own for setting, own in columns.items()}
            made += grid(profile, WITH_FPL | FEDCOPL, named, swept, seeds=THREE_SEEDS)
    return made


def _surface(profile: str) -> list[Cell]:
    levels = _FEWER_LEVELS.get(profile, SURFACE_LEVELS)
    rows: Columns = {f"τ2 = {level:g}": {"q_ent": level} for level in levels}
    columns: Columns = {f"{level:g}": {"q_conf": level} for level in levels}
    return grid(profile, rows, columns, "q_conf", "q_ent", THREE_SEEDS)


def _spread(profile: str) -> list[Cell]:
    rows = before_training(profile) | with_labels(("PromptFL",), ("FPL", "CPL", "CoPL")) | FEDCOPL
    return grid(profile, rows, PARTITIONS)


def _controls(profile: str) -> list[Cell]:
    known = FEDCOPL | with_labels(("PromptFL", "FedOTP"), ("FPL",))
    mild = FEDCOPL | with_labels(("PromptFL",), ("FPL",)) | WITH_TRUE
    return [*grid(profile, mild, MILDER), *grid(profile, known | CONTROLS, ALL_SPLITS)]


def _gates(profile: str) -> list[Cell]:
    """True labels against the start: of the text prompt alone, and of both prompts under every skew."""
    encoders = {f"β = 0.1, {clip}": {"beta": 0.1, "clip": clip} for clip in _OTHER_CLIPS.get(profile, ())}
    skews = MILDER | ALL_SPLITS | encoders
    asked = ((START, CENTRAL | skews), (TEXT_ALONE, CENTRAL | {"IID": MILDER["IID"]}), (WITH_TRUE, skews))
    return [cell for rows, splits in asked for cell in grid(profile, rows, data_columns(profile, splits))]


def _uploads(profile: str) -> list[Cell]:
    made = grid(profile, UPLOADS, {"no ε": {}}, "epsilon", seeds=THREE_SEEDS)
    budgets: Columns = {f"{epsilon:g}": {"epsilon": epsilon} for epsilon in EPSILONS}
    for kind in ("Laplace", "Gaussian"):
        noisy: Columns = {f"{kind} noise": {"count_noise": kind.lower()}}
        made += grid(profile, noisy, budgets, "epsilon", seeds=THREE_SEEDS)
    return made


def _rivals(profile: str) -> list[Cell]:
    columns = data_columns(profile, ALL_SPLITS)
    made = grid(profile, before_training(profile) | with_labels(("PromptFL",), ("CoPL",)) | FEDCOPL, columns)
    for row, settings in with_labels(RIVALS, ("CoPL",)).items():
        made += at_equal_bytes(row, settings, columns, profile)
    return made


def _no_runs(profile: str) -> list[Cell]:
    return []


FEDCOPL_CELLS: dict[str, Cells] = {
    "fedcopl_main_fig1": _no_runs,
    "fedcopl_main_table1": _compared(DIRICHLET),
    "fedcopl_main_table2": _compared(QUANTITY),
    "fedcopl_main_table3": _on(OTHER_TRAINERS, ONE_SPLIT, (*_FOUR_SETS, "CIFAR-10"), mini=DIRICHLET),
    "fedcopl_main_table4": _on_backbone({"smoke": "tiny-p1", "paper": "ViT-B-16"}, _FOUR_SETS),
    "fedcopl_main_table5": _on(ABLATION, ONE_SPLIT, _FOUR_SETS, mini=DIRICHLET),
    "fedcopl_main_table6": _on(AVERAGED, ONE_SPLIT, _FOUR_SETS, mini=DIRICHLET),
    "fedcopl_main_fig2": _on(DRIFT_ROWS, ONE_SPLIT, ("CIFAR-10",)),
    "fedcopl_main_fig3": _clients_and_participation,
    "fedcopl_supp_table1": _no_runs,
    "fedcopl_supp_table2": _on_backbone(
        {"smoke": "tiny-rn", "paper": "RN50"}, ("DTD", "RESISC45", "UCF101", "CIFAR-10")
    ),
    "fedcopl_supp_table3": _on(LABELLERS, ALL_SPLITS),
    "fedcopl_supp_table4": _sweep_of("q_conf"),
    "fedcopl_supp_table5": _sweep_of("q_ent"),
    # on another of the paper's sets; where one set stands for all, under another split
    "fedcopl_supp_fig1": _on(DRIFT_ROWS, ONE_SPLIT, ("DTD",), smoke=_MORE_SKEWED, mini=_MORE_SKEWED),
    "fedcopl_supp_fig2": _on(DRIFT_ROWS, ONE_SPLIT, ("RESISC45",), smoke=QUANTITY, mini=QUANTITY),
    "fedcopl_supp_fig3": lambda profile: grid(profile, {"images": {"method": "zero-shot"}}, LABEL_SKEWS, seeds=(0,)),
    "fedcopl_supp_fig4": _on(ALLOCATION, ONE_SPLIT, _SWEPT_SETS, smoke=DIRICHLET, mini=DIRICHLET),
    "fedcopl_ours_fpl_shots": lambda profile: grid(
        profile,
        with_labels(("PromptFL",), ("FPL",)),
        {str(shots): {"shots": shots} for shots in SHOTS_TRIED.get(profile, _SHOTS)},
        "shots",
        seeds=THREE_SEEDS,
    ),
    "fedcopl_ours_surface": _surface,
    "fedcopl_ours_quirks": lambda profile: grid(profile, QUIRKS, ONE_SPLIT, seeds=THREE_SEEDS),
    "fedcopl_ours_spread": _spread,
    "fedcopl_ours_controls": _controls,
    "fedcopl_ours_gates": _gates,
    "fedcopl_ours_uploads": _uploads,
    "fedcopl_ours_traffic": lambda profile: grid(
        profile, FEDCOPL | with_labels(("PromptFL", "pFedPrompt", "FedOTP"), ("CoPL",)), ONE_SPLIT
    ),
    "fedcopl_ours_rivals": _rivals,
    "fedcopl_ours_newer": _on(with_labels(("PromptFL", "FedOTP", "FedPGP", "FedTPG"), ("CoPL",)) | FEDCOPL, ONE_SPLIT),
}
"""Item -> its cells in a profile."""

_ONE_CLIP = "there is only one small CLIP for photographs"
_NO_BACKBONE: dict[str, tuple[NotRun, ...]] = {"mini": (NotRun("all columns", _ONE_CLIP),)}
_TOO_LITTLE = "no draw of 1,001 gave all 50 clients 10 training and 5 test digits at β = 0.1"
_TOO_FEW = "1,500 training images are too few for 50 clients"
NOT_RUN: dict[str, dict[str, tuple[NotRun, ...]]] = {
    "fedcopl_main_table4": _NO_BACKBONE,
    "fedcopl_supp_table2": _NO_BACKBONE,
    "fedcopl_main_fig3": {
        "smoke": (NotRun("K = 50", _TOO_LITTLE, "digits", "n_clients", 50.0),),
        "mini": (NotRun("CIFAR-10, K = 50", _TOO_FEW, SETS_OF_MINI["CIFAR-10"]["dataset"], "n_clients", 50.0),),
    },
}
"""Item -> profile -> the paper's columns that it cannot run."""
