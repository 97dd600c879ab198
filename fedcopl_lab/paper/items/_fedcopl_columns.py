"""The columns of FedCoPL's tables in each profile: the paper's data sets, or the ones that stand for them."""

from collections.abc import Iterable
from typing import Any

from fedcopl_lab.config import configure
from fedcopl_lab.paper.items._item import Cell

DIRICHLET: dict[str, dict[str, Any]] = {"β = 0.1": {"beta": 0.1}, "β = 0.05": {"beta": 0.05}}
QUANTITY: dict[str, dict[str, Any]] = {"quantity": {"scheme": "quantity"}}
ALL_SPLITS = DIRICHLET | QUANTITY
ONE_SPLIT = {"β = 0.1": DIRICHLET["β = 0.1"]}

ONE_SET_PROFILES = frozenset({"smoke"})
"""Profiles in which one data set stands for all of a paper's."""

_FEW_CLIENTS = {"n_clients": 5}  # the paper's choice for the two sets with the fewest images per class
SETS_OF_PAPER: dict[str, dict[str, Any]] = {
    "DTD": {"dataset": "dtd"},
    "RESISC45": {"dataset": "resisc45"},
    "CUB": {"dataset": "cub"} | _FEW_CLIENTS,
    "UCF101": {"dataset": "ucf101"} | _FEW_CLIENTS,
    "CIFAR-10": {"dataset": "cifar10"},
    "CIFAR-100": {"dataset": "cifar100"},
}

SETS_OF_MINI: dict[str, dict[str, Any]] = {
    "CIFAR-10": {"dataset": "cifar10:unseen:6000"},
    # two images per class and client: again about a third of all images, as the 16 are on CIFAR-10
    "CIFAR-100": {"dataset": "cifar100:unseen:6000", "shots": 2},
}
"""The same of the profile ``"mini"``: parts of CIFAR that its frozen model never saw."""

SETS_OF: dict[str, dict[str, dict[str, Any]]] = {"mini": SETS_OF_MINI, "paper": SETS_OF_PAPER}
"""The data sets of each profile that has several of the paper's."""

SETS = tuple(SETS_OF_PAPER)
PAPER_SETS: dict[str, str] = {name: own["dataset"] for name, own in SETS_OF_PAPER.items()}
"""The paper's name of each data set -> ours."""

Columns = dict[str, dict[str, Any]]


def data_columns(profile: str, splits: Columns, sets: Iterable[str] = SETS, stand_in: Columns | None = None) -> Columns:
    """Column name -> settings: each of the paper's sets at each split, or each split where one set stands for all.

    A profile with some of the paper's sets has the columns of these; where it has none of those asked for, its
    first set stands for them.

    Args:
        profile: name of the profile.
        splits: split name -> settings.
        sets: the paper's data sets.
        stand_in: the splits where one set stands for all, if they differ.

    >>> data_columns("smoke", DIRICHLET)
    {'β = 0.1': {'beta': 0.1}, 'β = 0.05': {'beta': 0.05}}
    >>> list(data_columns("mini", ONE_SPLIT, ("DTD", "CUB")))
    ['CIFAR-10, β = 0.1']
    """
    instead = splits if stand_in is None else stand_in
    if profile in ONE_SET_PROFILES:
        return dict(instead)
    known = SETS_OF.get(profile, SETS_OF_PAPER)
    there = [name for name in sets if name in known]
    if not there:
        there, splits = list(known)[:1], instead
    return {f"{name}, {split}": known[name] | own for name in there for split, own in splits.items()}


def before_training(profile: str) -> dict[str, dict[str, Any]]:
    """The row without trained prompts: zero-shot, unless the frozen model has seen labelled pictures of the classes.

    >>> list(before_training("mini"))
    ['Prompted, before training']
    """
    return {"Prompted, before training": {"method": "zero-shot"}} if profile == "mini" else ZERO_SHOT


def grid(profile: str, rows: Columns, columns: Columns, swept: str = "beta", over_rows: str = "") -> list[Cell]:
    """One cell for each row and column.

    Args:
        profile: name of the profile.
        rows: row name -> settings.
        columns: column name -> settings.
        swept: the setting that differs along the columns.
        over_rows: the same of the rows; empty where rows are methods or data sets.
    """
    made = []
    for row, settings in rows.items():
        for column, there in columns.items():
            config = configure(profile, **(settings | there))
            row_level = getattr(config, over_rows) if over_rows else None
            made.append(Cell(row, column, config, None, swept, getattr(config, swept), row_level))
    return made


ZERO_SHOT: dict[str, dict[str, Any]] = {"Zero-shot CLIP": {"method": "zero-shot"}}
FEDCOPL: dict[str, dict[str, Any]] = {"FedCoPL": {"method": "FedCoPL"}}
BASELINES = ("PromptFL", "PromptProx", "pFedPrompt", "FedOTP")


def with_labels(methods: Iterable[str], labellers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Row name -> settings for each trainer with each labeller, in the order of the paper's tables.

    >>> list(with_labels(["PromptFL"], ["FPL", "CPL"]))
    ['PromptFL + FPL', 'PromptFL + CPL']
    """
    return {f"{method} + {name}": {"method": method, "labeller": name} for method in methods for name in labellers}
