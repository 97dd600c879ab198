"""Rows and columns of SAGE's tables in each profile: its data sets, or the digits that stand for them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from fedcopl_lab.config import SAGE_METHODS, SageConfig, configure
from fedcopl_lab.paper.items._fedcopl_columns import ONE_SET_PROFILES
from fedcopl_lab.paper.items._item import Cell

Settings = dict[str, Any]

ALPHAS: tuple[float, ...] = (0.1, 0.5, 1.0)
BY_ALPHA: Mapping[str, Settings] = MappingProxyType({f"α = {alpha:g}": {"alpha": alpha} for alpha in ALPHAS})
"""The columns of SAGE's tables: Dirichlet concentrations, the most uneven split first."""

SAGE_SETS: dict[str, str] = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "SVHN": "svhn", "CINIC-10": "cinic10"}
"""The paper's name of each of SAGE's data sets -> ours."""

_WITHIN = {"mini": ("CIFAR-10", "CIFAR-100")}
_ANALYSED = {"mini": "CIFAR-10"}  # the first of its sets, so that a table's runs serve all analyses

REPEATED = ("FixMatch-LPL", "FixMatch-GPL", "SAGE")
"""Labels of one model, of the other, and of both: the methods of the closer comparisons."""

RANKED = ("FedAvg", "FedAvg-SL", *REPEATED)
"""Methods with most seeds."""

_PER_CLASS = {"smoke": {0.05: 2, 0.1: 4, 0.2: 8}}


def labelled(profile: str, share: float) -> Settings:
    """The settings that a labelled share of the paper stands for: the share, or where that is too easy, few images.

    >>> labelled("smoke", 0.1), labelled("mini", 0.1)
    ({'labelled_per_class': 4}, {'label_share': 0.1})
    """
    few = _PER_CLASS.get(profile, {}).get(share)
    return {"label_share": share} if few is None else {"labelled_per_class": few}


def seeds_of(config: SageConfig, most: int = 5) -> tuple[int, ...]:
    """The seeds of a cell; each draws its own partition. In smoke ranked methods have ``most``, the others three.

    >>> seeds_of(configure("smoke", method="SAGE")), seeds_of(configure("mini", method="FedDB"))
    ((0, 1, 2, 3, 4), (0,))
    """
    if config.profile not in _PER_CLASS:
        return tuple(range(3 if config.method in REPEATED else 1))
    return tuple(range(most if config.method in RANKED else 3))


ALL_METHODS: Mapping[str, Settings] = MappingProxyType({name: {"method": name} for name in SAGE_METHODS})
"""Row name -> settings for the methods of SAGE's comparison, in the order of its tables."""


def rows_of(methods: Iterable[str]) -> dict[str, Settings]:
    """Row name -> settings of some methods.

    >>> rows_of(["SAGE"])
    {'SAGE': {'method': 'SAGE'}}
    """
    return {name: dict(ALL_METHODS[name]) for name in methods}


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
    there = [name for name in sets if name in _WITHIN.get(profile, SAGE_SETS)]
    return {f"{name}, {split}": {"dataset": SAGE_SETS[name], **own} for name in there for split, own in columns.items()}


def analysed_set(profile: str) -> str:
    """The one set of the analyses: the paper's, or the first that a profile runs.

    >>> analysed_set("mini")
    'CIFAR-10'
    """
    return _ANALYSED.get(profile, "CIFAR-100")


def on_analysed_set(
    profile: str, columns: Mapping[str, Settings] = BY_ALPHA, data: str | None = None
) -> dict[str, Settings]:
    """The same on the one set of the analyses, whose name stays out of the columns; ``data`` names another.

    >>> on_analysed_set("paper", {"α = 1": {"alpha": 1.0}})
    {'α = 1': {'dataset': 'cifar100', 'alpha': 1.0}}
    """
    there = {} if profile in ONE_SET_PROFILES else {"dataset": SAGE_SETS[data or analysed_set(profile)]}
    return {name: {**there, **own} for name, own in columns.items()}


def cells(
    profile: str,
    rows: Mapping[str, Settings],
    columns: Mapping[str, Settings],
    swept: str = "alpha",
    levels: Mapping[str, float] | None = None,
    most: int = 5,
) -> list[Cell]:
    """One cell for each row and column, a row's settings win, with the seeds of :func:`seeds_of`.

    Args:
        profile: name of the profile.
        rows: row name -> settings.
        columns: column name -> settings.
        swept: what differs along the columns.
        levels: its value in each column; None takes that of the setting of that name.
        most: seeds of ranked methods in smoke.
    """
    made = []
    for row, settings in rows.items():
        for column, there in columns.items():
            config = configure(profile, **{**there, **settings})
            level = getattr(config, swept) if levels is None else levels.get(column)
            few = min(most, 3) if config.target == "soft" else most
            made.append(Cell(row, column, config, seeds_of(config, few), swept, level))
    return made
