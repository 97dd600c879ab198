"""The runs behind each of SAGE's tables and figures: rows and columns by profile."""

from collections.abc import Mapping

from fedcopl_lab.config import KAPPA_STAR
from fedcopl_lab.paper.items._item import Cell, Cells
from fedcopl_lab.paper.items._sage_columns import (
    ALL_METHODS,
    BY_ALPHA,
    REPEATED,
    Settings,
    analysed_set,
    cells,
    labelled,
    on_analysed_set,
    on_sets,
    rows_of,
)

CONVERGING = ("FixMatch-LPL", "FixMatch-GPL", "FedLabel", "FedDB", "FedDure", "SAGE")
"""The methods of SAGE's tables of rounds."""

TARGETS: Mapping[str, tuple[int, ...]] = {"smoke": (40, 55, 70, 80), "mini": (20, 30, 40, 50)}
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
LABEL_SHARES = (0.05, 0.1, 0.2)
REFERENCE = "FedAvg-SL"
_DIRICHLET_ALPHA = {"smoke": 0.3}  # at 0.1 a client of the digits gets 17 images, too few for a step


def compared_columns(profile: str, share: float) -> dict[str, Settings]:
    """The columns of the main tables: every set and α, with that labelled share."""
    return {name: {**there, **labelled(profile, share)} for name, there in on_sets(profile).items()}


def _compared(share: float) -> Cells:
    def made(profile: str) -> list[Cell]:
        rows = {name: row for name, row in ALL_METHODS.items() if name != REFERENCE}
        made = cells(profile, rows, compared_columns(profile, share), most=5 if share == 0.1 else 3)
        # the fully labelled reference does not read the label ratio: one run serves both tables, as in the paper
        made += cells(profile, rows_of((REFERENCE,)), compared_columns(profile, 0.1))
        return sorted(made, key=lambda cell: list(ALL_METHODS).index(cell.series))

    return made


def _gates(profile: str) -> list[Cell]:
    alpha = _DIRICHLET_ALPHA.get(profile, 0.1)
    split: dict[str, Settings] = {f"Dirichlet, α = {alpha:g}": {"scheme": "dirichlet", "alpha": alpha}}
    uneven = {name: {**there, **labelled(profile, 0.1)} for name, there in on_sets(profile, split).items()}
    rows = rows_of(("FedAvg", REFERENCE, "FixMatch-LPL", "SAGE"))
    return cells(profile, rows, compared_columns(profile, 0.1) | uneven)


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


def _reaching(column: str) -> Cells:
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
    columns = {}
    for share in LABEL_SHARES:
        ((setting, value),) = labelled(profile, share).items()
        name = f"{share:.0%}".replace("%", " %") if setting == "label_share" else f"{value} a class"
        columns[name] = {**there, setting: value}
    swept = "label_fraction" if setting == "label_share" else setting
    return cells(profile, rows_of(REPEATED), columns, swept, most=3)


def _at(*alphas: str, methods: tuple[str, ...] = ("SAGE",), name: str = "", data: str | None = None) -> Cells:
    """Methods at some α, all by default, on the set of the analyses or another."""
    chosen = {column: BY_ALPHA[column] for column in alphas or BY_ALPHA}
    rows = {name: {"method": "SAGE"}} if name else rows_of(methods)
    return lambda profile: cells(profile, rows, on_analysed_set(profile, chosen, data))


def _converging(*columns: str) -> Cells:
    return lambda profile: [
        cell for column in columns for cell in cells(profile, rows_of(CONVERGING), long_runs(profile, column))
    ]


SAGE_CELLS: dict[str, Cells] = {
    "sage_main_table1": _compared(0.1),
    "sage_main_rounds": _reaching("α = 1"),
    "sage_main_parts": _parts,
    "sage_supp_table5": _hard_and_soft,
    "sage_supp_table6": _reaching("α = 0.1"),
    "sage_supp_table7": _reaching("α = 0.5"),
    "sage_supp_table8": _compared(0.2),
    "sage_supp_fig14": _kappas,
    "sage_main_fig2a": _at(),
    "sage_main_fig2b": _at("α = 0.1"),
    "sage_main_fig5": _converging("α = 1"),
    "sage_main_fig7": _at("α = 0.1"),
    "sage_main_fig8": _at(methods=REPEATED),
    "sage_supp_fig9": _at(),
    "sage_supp_fig10": _at(),
    "sage_supp_fig11": _at(),
    "sage_supp_fig12": _at(),
    "sage_supp_fig13": _at("α = 0.5", "α = 1"),
    "sage_supp_fig15": _converging("α = 0.1", "α = 0.5"),
    "sage_supp_fig16": _at(name="images", data="CIFAR-10"),
    "sage_supp_theory": _at(),
    "sage_supp_eq18": lambda profile: [],
    "sage_ours_labels": _label_shares,
    "sage_ours_gates": _gates,
}
"""Item -> its cells in a profile."""
