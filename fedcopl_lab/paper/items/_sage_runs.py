"""The runs behind each of SAGE's tables and figures: rows, columns and data sets by profile."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedcopl_lab.config import KAPPA_STAR, SAGE_METHODS, SageConfig, configure
from fedcopl_lab.paper.items._fedcopl_columns import ONE_SET_PROFILES
from fedcopl_lab.paper.items._item import Cell, Cells

Settings = dict[str, Any]

BY_ALPHA: Mapping[str, Settings] = {f"α = {alpha:g}": {"alpha": alpha} for alpha in (0.1, 0.5, 1.0)}
"""The columns of SAGE's tables: Dirichlet concentrations, the most uneven split first."""

SAGE_SETS: dict[str, str] = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "SVHN": "svhn", "CINIC-10": "cinic10"}
"""The paper's name of each of SAGE's data sets -> ours."""

_ONE_SET = {"mini": "CIFAR-10"}  # of CIFAR-100 its start has seen the labels

REPEATED = ("FixMatch-LPL", "FixMatch-GPL", "SAGE")
"""Labels of one model, of the other, and of both: the methods of the closer comparisons."""

RANKED = ("FedAvg", "FedAvg-SL", *REPEATED)
"""Methods with most seeds."""

_SEEDS = {"smoke": (RANKED, 5, 3), "mini": (RANKED, 5, 3)}  # some methods' and the others'
_PER_CLASS = {"smoke": {0.05: 2, 0.1: 4, 0.2: 8}, "mini": {0.05: 50, 0.1: 100, 0.2: 200}}

CONVERGING = ("FixMatch-LPL", "FixMatch-GPL", "FedLabel", "FedDB", "FedDure", "SAGE")
"""The methods of SAGE's tables of rounds."""

TARGETS: Mapping[str, tuple[int, ...]] = {"smoke": (40, 55, 70, 80), "mini": (50, 55, 60, 65)}
PAPER_TARGETS = (30, 40, 45, 50)
_LONG_RUN = {"paper": {"rounds": 600}}  # the printed tables go up to round 562, beyond the stated 500

_FEW_KAPPAS = {"smoke": (2.0, 6.0, 10.0, 18.0), "mini": (2.0, 6.0, 10.0, 18.0)}
_KAPPAS = tuple(float(value) for value in range(2, 21, 2))
NO_KAPPA = "no κ"

SAGE: Mapping[str, Settings] = {"SAGE": {"method": "SAGE"}}
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


def labelled(profile: str, share: float) -> Settings:
    """The settings that a labelled share of the paper stands for: the share, or where that is too easy, few images.

    >>> labelled("smoke", 0.1), labelled("paper", 0.1)
    ({'labelled_per_class': 4}, {'label_share': 0.1})
    """
    few = _PER_CLASS.get(profile, {}).get(share)
    return {"label_share": share} if few is None else {"labelled_per_class": few}


def seeds_of(config: SageConfig, most: int = 5) -> tuple[int, ...]:
    """The seeds of a cell; each draws its own partition. Ranked methods have ``most`` at the most.

    Soft labels have three at the most; in ``mini`` so have changed settings and α = 0.5.

    >>> seeds_of(configure("smoke", method="SAGE")), seeds_of(configure("mini", method="SAGE", alpha=0.5))
    ((0, 1, 2, 3, 4), (0, 1, 2))
    """
    plain = configure(config.profile, method=config.method, alpha=config.alpha)
    if config.target == "soft" or (config.profile == "mini" and (config != plain or config.alpha == 0.5)):
        most = min(most, 3)
    methods, often, seldom = _SEEDS.get(config.profile, (REPEATED, 3, 1))
    return tuple(range(min(often, most) if config.method in methods else seldom))


def rows_of(methods: Iterable[str]) -> dict[str, Settings]:
    """Row name -> settings of some methods."""
    return {name: {"method": name} for name in methods}


def on_sets(
    profile: str, columns: Mapping[str, Settings] = BY_ALPHA, sets: Iterable[str] = SAGE_SETS
) -> dict[str, Settings]:
    """Column name -> settings: each of the paper's sets at each α; only α where the digits stand for all sets.

    >>> list(on_sets("smoke"))
    ['α = 0.1', 'α = 0.5', 'α = 1']
    >>> list(on_sets("mini"))[0]
    'CIFAR-10, α = 0.1'
    """
    if profile in ONE_SET_PROFILES:
        return {name: dict(own) for name, own in columns.items()}
    there = [name for name in sets if name == _ONE_SET.get(profile, name)]
    return {f"{name}, {split}": {"dataset": SAGE_SETS[name], **own} for name in there for split, own in columns.items()}


def analysed_set(profile: str) -> str:
    """The one set of the analyses: the paper's, or the one that a profile runs.

    >>> analysed_set("mini")
    'CIFAR-10'
    """
    return _ONE_SET.get(profile, "CIFAR-100")


def on_analysed_set(profile: str, data: str | None = None) -> dict[str, Settings]:
    """Each α on the one set of the analyses, whose name stays out of the columns; ``data`` names another.

    >>> on_analysed_set("paper")["α = 1"]
    {'dataset': 'cifar100', 'alpha': 1.0}
    """
    there = {} if profile in ONE_SET_PROFILES else {"dataset": SAGE_SETS[data or analysed_set(profile)]}
    return {name: {**there, **own} for name, own in BY_ALPHA.items()}


def cells(
    profile: str,
    rows: Mapping[str, Settings],
    columns: Mapping[str, Settings],
    swept: str = "alpha",
    levels: Mapping[str, float] | None = None,
    most: int = 5,
) -> list[Cell]:
    """One cell for each row and column, a row's settings win, with the seeds of :func:`seeds_of`.

    ``swept`` differs along the columns; ``levels`` are its values in them, None those of the setting of that name.
    """
    made = []
    for row, settings in rows.items():
        for column, there in columns.items():
            config = configure(profile, **{**there, **settings})
            level = getattr(config, swept) if levels is None else levels.get(column)
            made.append(Cell(row, column, config, seeds_of(config, most), swept, level))
    return made


def compared_columns(profile: str, share: float, splits: Mapping[str, Settings] = BY_ALPHA) -> dict[str, Settings]:
    """The columns of the main tables: every set and split, with that labelled share."""
    return {name: {**there, **labelled(profile, share)} for name, there in on_sets(profile, splits).items()}


def _compared(share: float) -> Cells:
    def made(profile: str) -> list[Cell]:
        found = []
        for name in SAGE_METHODS:
            # the fully labelled reference does not read the label ratio: one run serves both tables, as in the paper
            own = 0.1 if name == REFERENCE else share
            found += cells(profile, rows_of((name,)), compared_columns(profile, own), most=5 if own == 0.1 else 3)
        return found

    return made


def _gates(profile: str) -> list[Cell]:
    alpha = _DIRICHLET_ALPHA.get(profile, 0.1)
    split: dict[str, Settings] = {f"Dirichlet, α = {alpha:g}": {"scheme": "dirichlet", "alpha": alpha}}
    return cells(profile, rows_of(RANKED), compared_columns(profile, 0.1) | compared_columns(profile, 0.1, split))


def _hard_and_soft(profile: str) -> list[Cell]:
    rows: dict[str, Settings] = {
        f"{name}, {target}": {"method": name, "target": target} for name in REPEATED for target in ("hard", "soft")
    }
    return cells(profile, rows, on_sets(profile, sets=(analysed_set(profile),)))


def targets(profile: str) -> tuple[int, ...]:
    """Accuracies in percent that the tables of rounds ask for: the paper's, or lower ones for small runs."""
    return TARGETS.get(profile, PAPER_TARGETS)


def long_runs(profile: str) -> dict[str, Settings]:
    """The column of each α with rounds enough for the highest target."""
    return {name: {**there, **_LONG_RUN.get(profile, {})} for name, there in on_analysed_set(profile).items()}


def _reaching(column: str) -> Cells:
    def made(profile: str) -> list[Cell]:
        long = {**BY_ALPHA[column], **_LONG_RUN.get(profile, {})}
        columns = on_sets(profile, {f"{target} %": long for target in targets(profile)}, (analysed_set(profile),))
        levels = dict(zip(columns, map(float, targets(profile)), strict=True))
        return cells(profile, rows_of(CONVERGING), columns, "target", levels)

    return made


def kappas(profile: str) -> list[float]:
    """The decay rates that a profile runs, in rising order; κ* is one of them."""
    return sorted({*_FEW_KAPPAS.get(profile, _KAPPAS), KAPPA_STAR})


def _kappas(profile: str) -> list[Cell]:
    there = on_analysed_set(profile)["α = 1"]
    swept = {f"{kappa:.4g}": {**there, "kappa": kappa} for kappa in kappas(profile)}
    others = rows_of(("FixMatch-LPL", "FixMatch-GPL"))
    return [*cells(profile, SAGE, swept, "kappa"), *cells(profile, others, {NO_KAPPA: there}, "kappa", {})]


def _label_shares(profile: str) -> list[Cell]:
    there = on_analysed_set(profile)["α = 0.1"]
    columns = {}
    for share in LABEL_SHARES:
        ((setting, value),) = labelled(profile, share).items()
        name = f"{share:.0%}".replace("%", " %") if setting == "label_share" else f"{value} a class"
        columns[name] = {**there, setting: value}
    swept = "label_fraction" if setting == "label_share" else setting
    return cells(profile, rows_of(REPEATED), columns, swept, most=3)


def _at(*alphas: str, rows: Mapping[str, Settings] = SAGE, data: str | None = None) -> Cells:
    """Rows at some α, all by default, on the set of the analyses or another."""

    def made(profile: str) -> list[Cell]:
        columns = on_analysed_set(profile, data)
        return cells(profile, rows, {name: columns[name] for name in alphas or columns})

    return made


def _converging(*columns: str) -> Cells:
    rows = rows_of(CONVERGING)
    return lambda profile: [cell for name in columns for cell in cells(profile, rows, {name: long_runs(profile)[name]})]


SAGE_CELLS: dict[str, Cells] = {
    "sage_main_table1": _compared(0.1),
    "sage_main_rounds": _reaching("α = 1"),
    "sage_main_parts": _at("α = 0.1", rows=PARTS),
    "sage_supp_table5": _hard_and_soft,
    "sage_supp_table6": _reaching("α = 0.1"),
    "sage_supp_table7": _reaching("α = 0.5"),
    "sage_supp_table8": _compared(0.2),
    "sage_supp_fig14": _kappas,
    "sage_main_fig2a": _at(),
    "sage_main_fig2b": _at("α = 0.1"),
    "sage_main_fig5": _converging("α = 1"),
    "sage_main_fig7": _at("α = 0.1"),
    "sage_main_fig8": _at(rows=rows_of(REPEATED)),
    "sage_supp_fig9": _at(),
    "sage_supp_fig10": _at(),
    "sage_supp_fig11": _at(),
    "sage_supp_fig12": _at(),
    "sage_supp_fig13": _at("α = 0.5", "α = 1"),
    "sage_supp_fig15": _converging("α = 0.1", "α = 0.5"),
    "sage_supp_fig16": _at(rows={"images": SAGE["SAGE"]}, data="CIFAR-10"),
    "sage_supp_theory": _at(),
    "sage_supp_eq18": lambda profile: [],
    "sage_ours_labels": _label_shares,
    "sage_ours_gates": _gates,
}
"""Item -> its cells in a profile."""
