"""SAGE's tables: accuracies at two label ratios, hard and soft labels, rounds to an accuracy, its parts."""

from collections.abc import Callable, Mapping
from typing import Any

from fedcopl_lab.config import KAPPA_STAR
from fedcopl_lab.paper.items._item import Cell, Item
from fedcopl_lab.paper.items._sage_columns import (
    ALL_METHODS,
    BY_ALPHA,
    FEW_SEEDS,
    PARTITION,
    REPEATED,
    SMOKE_DIFFERS,
    Settings,
    analysed_set,
    cells,
    on_analysed_set,
    on_sets,
    rows_of,
)

CONVERGING = ("FixMatch-LPL", "FixMatch-GPL", "FedLabel", "FedDB", "FedDure", "SAGE")
"""The methods of SAGE's tables of rounds."""

TARGETS: Mapping[str, tuple[int, ...]] = {"smoke": (20, 30, 40, 50), "mini": (20, 30, 40, 50)}
PAPER_TARGETS = (30, 40, 45, 50)
_LONG_RUN = {"paper": {"rounds": 600}}  # the printed tables go up to round 562, beyond the stated 500

KAPPAS = {"smoke": (2.0, 6.0, 10.0, 18.0), "mini": (2.0, 6.0, 10.0, 18.0)}
_PAPER_KAPPAS = tuple(float(value) for value in range(2, 21, 2))
NO_KAPPA = "no κ"

PARTS: dict[str, Settings] = {
    "FixMatch-LPL (neither)": {"method": "FixMatch-LPL"},
    "without CPG": {"method": "SAGE", "use_cpg": False},
    "without CDSC": {"method": "SAGE", "use_cdsc": False},
    "fixed weight 0.5": {"method": "SAGE", "fixed_weight": 0.5},
    "SAGE": {"method": "SAGE"},
}
LABEL_SHARES = {f"{share:.0%}".replace("%", " %"): {"label_share": share} for share in (0.05, 0.1, 0.2)}
_SECOND_HAND = (
    "The printed numbers are second-hand: ProxyFL (arXiv 2602.21078) reprints this comparison; the main paper's own "
    "text was not available."
)


def _compared(label_share: float) -> Callable[[str], list[Cell]]:
    def made(profile: str) -> list[Cell]:
        columns = {name: {**there, "label_share": label_share} for name, there in on_sets(profile).items()}
        return cells(profile, ALL_METHODS, columns)

    return made


def _hard_and_soft(profile: str) -> list[Cell]:
    rows: dict[str, Settings] = {
        f"{name}, {target}": {"method": name, "target": target} for name in REPEATED for target in ("hard", "soft")
    }
    return cells(profile, rows, on_sets(profile, sets=(analysed_set(profile),)))


def targets(profile: str) -> tuple[int, ...]:
    """Accuracies in percent that the tables of rounds ask for: the paper's, or lower ones for small runs."""
    return TARGETS.get(profile, PAPER_TARGETS)


def long_runs(profile: str, column: str) -> dict[str, Settings]:
    """The column of one α with rounds enough for the highest target."""
    return on_analysed_set(profile, {column: {**BY_ALPHA[column], **_LONG_RUN.get(profile, {})}})


def _reaching(column: str) -> Callable[[str], list[Cell]]:
    def made(profile: str) -> list[Cell]:
        long = {**BY_ALPHA[column], **_LONG_RUN.get(profile, {})}
        columns = on_sets(profile, {f"{target} %": long for target in targets(profile)}, (analysed_set(profile),))
        levels = dict(zip(columns, map(float, targets(profile)), strict=True))
        return cells(profile, rows_of(CONVERGING), columns, "target", levels)

    return made


def kappas(profile: str) -> list[float]:
    """The decay rates that a profile runs, in rising order; κ* is one of them."""
    return sorted({*KAPPAS.get(profile, _PAPER_KAPPAS), KAPPA_STAR})


def _kappas(profile: str) -> list[Cell]:
    (there,) = on_analysed_set(profile, {"α = 1": BY_ALPHA["α = 1"]}).values()
    swept = {f"{kappa:.4g}": {**there, "kappa": kappa} for kappa in kappas(profile)}
    others = rows_of(("FixMatch-LPL", "FixMatch-GPL"))
    return [
        *cells(profile, rows_of(("SAGE",)), swept, "kappa"),
        *cells(profile, others, {NO_KAPPA: there}, "kappa", {}),
    ]


def _parts(profile: str) -> list[Cell]:
    return cells(profile, PARTS, on_analysed_set(profile, {"α = 0.1": BY_ALPHA["α = 0.1"]}))


def _label_shares(profile: str) -> list[Cell]:
    (there,) = on_analysed_set(profile, {"α = 0.1": BY_ALPHA["α = 0.1"]}).values()
    return cells(
        profile, rows_of(REPEATED), {name: {**there, **own} for name, own in LABEL_SHARES.items()}, "label_share"
    )


def _rounds_table(number: str, source: str, column: str, **more: Any) -> Item:
    return Item(
        id=f"sage_{number}",
        source=source,
        title=f"Rounds to an accuracy at {column}",
        question="Does SAGE need fewer rounds than the others to reach an accuracy?",
        reads="reached",
        metrics=("rounds_needed", "censored", "speed_up", "rounds_needed_smoothed", "censored_smoothed"),
        drawing="reached",
        notebook="sage_convergence",
        cells=_reaching(column),
        differs=(
            SMOKE_DIFFERS,
            FEW_SEEDS,
            "The digits' targets are lower, 20 to 50 %. A run that never gets there is counted as censored, not left "
            "out. Beside the first round at or above a target stands the first whose mean over 5 rounds is.",
            *more.get("differs", ()),
        ),
        axis="test accuracy",
    )


_TABLE: dict[str, Any] = {"reads": "final", "metrics": ("accuracy",), "drawing": "dots"}

SAGE_TABLES: tuple[Item, ...] = (
    Item(
        id="sage_main_table1",
        source="main Table 1",
        title="Accuracy with 10 % labels",
        question="Is SAGE the best of thirteen methods when a tenth of the images has a label?",
        notebook="sage_main_table1",
        cells=_compared(0.1),
        differs=(SMOKE_DIFFERS, FEW_SEEDS, PARTITION, _SECOND_HAND),
        **_TABLE,
    ),
    _rounds_table(
        "main_rounds", "main convergence table", "α = 1", differs=(_SECOND_HAND, "Its 45 % column is not reprinted.")
    ),
    Item(
        id="sage_main_parts",
        source="main ablation",
        title="SAGE without each of its parts",
        question="Do collaborative generation (CPG) and soft correction (CDSC) each add accuracy?",
        notebook="sage_parts",
        cells=_parts,
        differs=(SMOKE_DIFFERS, "The main paper's ablation tables were not available; rows and split are our choice."),
        **_TABLE,
    ),
    Item(
        id="sage_supp_table5",
        source="supplement Table 5",
        title="Hard and soft pseudo-labels",
        question="Does it pay to train towards probabilities instead of a class?",
        notebook="sage_parts",
        cells=_hard_and_soft,
        differs=(SMOKE_DIFFERS, "The paper has one run per cell; here each seed draws its own partition."),
        **_TABLE,
    ),
    _rounds_table("supp_table6", "supplement Table 6", "α = 0.1"),
    _rounds_table("supp_table7", "supplement Table 7", "α = 0.5"),
    Item(
        id="sage_supp_table8",
        source="supplement Table 8",
        title="Accuracy with 20 % labels",
        question="Is SAGE the best of thirteen methods when a fifth of the images has a label?",
        notebook="sage_supp_table8",
        cells=_compared(0.2),
        differs=(
            SMOKE_DIFFERS,
            FEW_SEEDS,
            PARTITION,
            "FedAvg-SL, which reads every label, is one run for both label ratios, as in the paper.",
        ),
        **_TABLE | {"metrics": ("accuracy", "gain")},
    ),
    Item(
        id="sage_supp_fig14",
        source="supplement Fig. 14",
        title="Accuracy against κ",
        question="Is κ* = ln 2 / 0.05 better than other decay rates, and does any κ beat one model's labels?",
        reads="final",
        metrics=("accuracy",),
        drawing="kappa",
        notebook="sage_kappa",
        cells=_kappas,
        differs=(SMOKE_DIFFERS, "The paper's range of κ is not readable; smoke runs 2, 6, 10 and 18 beside κ*."),
        axis="κ, decay rate of λ",
        field="kappa",
    ),
)

SAGE_OURS: tuple[Item, ...] = (
    Item(
        id="sage_ours_labels",
        source="ours",
        title="Fewer and more labels",
        question="How do SAGE and one-model labels fare with 5, 10 and 20 % labels?",
        notebook="sage_supp_table8",
        cells=_label_shares,
        differs=("The paper speaks of fewer labels too, but shows 10 and 20 % only.", SMOKE_DIFFERS),
        axis="labelled share",
        **_TABLE,
    ),
)
