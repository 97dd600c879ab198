"""The columns of FedCoPL's tables in each profile: the paper's data sets, or the ones that stand for them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedcopl_lab.config import PromptConfig, RunConfig, configure
from fedcopl_lab.data import SEEN_SETS, load_manifest, split_name
from fedcopl_lab.paper.items._item import THREE_SEEDS, Cell

DIRICHLET: dict[str, dict[str, Any]] = {"β = 0.1": {"beta": 0.1}, "β = 0.05": {"beta": 0.05}}
QUANTITY: dict[str, dict[str, Any]] = {"quantity": {"scheme": "quantity"}}
ALL_SPLITS = DIRICHLET | QUANTITY
ONE_SPLIT = {"β = 0.1": DIRICHLET["β = 0.1"]}

ONE_SET_PROFILES = frozenset({"smoke"})
"""Profiles in which one data set stands for all of a paper's."""

SETS_OF_PAPER: dict[str, dict[str, Any]] = {
    "DTD": {"dataset": "dtd"},
    "RESISC45": {"dataset": "resisc45"},
    "CUB": {"dataset": "cub"},
    "UCF101": {"dataset": "ucf101"},
    "CIFAR-10": {"dataset": "cifar10"},
    "CIFAR-100": {"dataset": "cifar100"},
}

SETS_OF_MINI: dict[str, dict[str, Any]] = {"CIFAR-10": {"dataset": "cifar10:unseen:grey:1500+10000"}}
"""The same of the profile ``"mini"``: a black-and-white part that its frozen model never saw."""

SETS_OF: dict[str, dict[str, dict[str, Any]]] = {"mini": SETS_OF_MINI, "paper": SETS_OF_PAPER}
"""The data sets of each profile that has several of the paper's."""

SETS = tuple(SETS_OF_PAPER)
PAPER_SETS: dict[str, str] = {name: own["dataset"] for name, own in SETS_OF_PAPER.items()}
"""The paper's name of each data set -> ours."""

Columns = dict[str, dict[str, Any]]


def data_columns(
    profile: str, splits: Columns, sets: Iterable[str] = SETS, splits_in: Mapping[str, Columns] | None = None
) -> Columns:
    """Column name -> settings: each of the paper's sets at each split, or each split where one set stands for all.

    A profile with some of the paper's sets has the columns of these; where it has none of those asked for, its
    first set stands for them.

    Args:
        profile: name of the profile.
        splits: split name -> settings.
        sets: the paper's data sets.
        splits_in: profile -> its splits, if they differ.

    >>> data_columns("smoke", DIRICHLET)
    {'β = 0.1': {'beta': 0.1}, 'β = 0.05': {'beta': 0.05}}
    >>> list(data_columns("mini", ONE_SPLIT, ("DTD", "CUB")))
    ['CIFAR-10, β = 0.1']
    """
    splits = (splits_in or {}).get(profile, splits)
    if profile in ONE_SET_PROFILES:
        return dict(splits)
    known = SETS_OF.get(profile, SETS_OF_PAPER)
    there = [name for name in sets if name in known] or list(known)[:1]
    return {f"{name}, {split}": known[name] | own for name in there for split, own in splits.items()}


_VIT_B_32: dict[str, Any] = {"embed_dim": 512, "vision_cfg": {"layers": 12, "width": 768}}


def numbers_sent(config: Any) -> tuple[int, int]:
    """Numbers in the visual prompt that a client of FedCoPL sends each round, and in one feature of its model."""
    known = Path(__file__).parents[2] / "models" / "embedded" / f"{config.clip}.json"
    shape = json.loads(known.read_text(encoding="utf-8")) if known.is_file() else _VIT_B_32
    depth = config.visual_depth or shape["vision_cfg"]["layers"] - 1
    return depth * config.n_visual * shape["vision_cfg"]["width"], shape["embed_dim"]


def at_equal_bytes(method: str, settings: dict[str, Any], columns: Columns, profile: str) -> list[Cell]:
    """A classifier's cells with as many rounds as send no more numbers than FedCoPL's run does.

    >>> [cell] = at_equal_bytes("LinearHead + CoPL", {"method": "LinearHead"}, ONE_SPLIT, "smoke")
    >>> cell.config.rounds > lab.configure("smoke").rounds
    True
    """
    made = []
    for cell in grid(profile, {method: settings}, columns):
        config: Any = cell.config
        prompt, width = numbers_sent(config)
        n_classes = len(load_manifest(split_name(config.dataset, SEEN_SETS).whole).classes)
        each = n_classes * (width + (config.like == "FedCOF"))  # FedCOF sends its counts too
        made.append(replace(cell, config=replace(config, rounds=max(config.rounds * prompt // each, 1))))
    return made


def before_training(profile: str) -> dict[str, dict[str, Any]]:
    """The row without trained prompts: zero-shot, unless the frozen model has seen labelled pictures of the classes.

    >>> list(before_training("mini"))
    ['Prompted, before training']
    """
    return START if profile == "mini" else ZERO_SHOT


def reads_untrained_patches(config: RunConfig) -> bool:
    """Whether a run is FedOTP's, which classifies by patches, on a frozen model whose patches never met a text.

    >>> reads_untrained_patches(lab.configure("mini", method="FedOTP"))
    True
    """
    return isinstance(config, PromptConfig) and config.method == "FedOTP" and config.clip in ("mini", "mini-traits")


def grid(
    profile: str,
    rows: Columns,
    columns: Columns,
    swept: str = "beta",
    over_rows: str = "",
    seeds: tuple[int, ...] | None = None,
) -> list[Cell]:
    """One cell for each row and column, without those of :func:`reads_untrained_patches`.

    Args:
        profile: name of the profile.
        rows: row name -> settings.
        columns: column name -> settings.
        swept: the setting that differs along the columns.
        over_rows: the same of the rows; empty where rows are methods or data sets.
        seeds: of the cells; None: three at the papers' size, those asked for in the other profiles.
    """
    made = []
    if seeds is None and SETS_OF.get(profile) is SETS_OF_PAPER:
        seeds = THREE_SEEDS
    for row, settings in rows.items():
        for column, there in columns.items():
            config = configure(profile, **(settings | there))
            if reads_untrained_patches(config):
                continue
            row_level = getattr(config, over_rows) if over_rows else None
            made.append(Cell(row, column, config, seeds, swept, getattr(config, swept), row_level))
    return made


ZERO_SHOT: dict[str, dict[str, Any]] = {"Zero-shot CLIP": {"method": "zero-shot"}}
START: dict[str, dict[str, Any]] = {"Prompted, before training": {"method": "zero-shot"}}
TRUE_LABELS: dict[str, Any] = {"labeller": "true", "q_conf": None, "q_ent": None, "allocation": "none"}
"""All training images with the labels that no method may use: a bound, and what the gates are measured with."""
FEDCOPL: dict[str, dict[str, Any]] = {"FedCoPL": {"method": "FedCoPL"}}
BASELINES = ("PromptFL", "PromptProx", "pFedPrompt", "FedOTP")


def with_labels(methods: Iterable[str], labellers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Row name -> settings for each trainer with each labeller, in the order of the paper's tables.

    >>> list(with_labels(["PromptFL"], ["FPL", "CPL"]))
    ['PromptFL + FPL', 'PromptFL + CPL']
    """
    return {f"{method} + {name}": {"method": method, "labeller": name} for method in methods for name in labellers}
