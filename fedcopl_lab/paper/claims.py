"""What the two papers print: every number of every table, with the known misprints flagged."""

from functools import lru_cache
from importlib import resources
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import did_you_mean

NUMBERS = ("beta", "alpha", "label_share", "clients", "value_number", "printed_gain")
"""Columns read as numbers; all others are text, empty where the paper has nothing to say."""


def claims(paper: str | None = None, item: str | None = None, **filters: Any) -> pd.DataFrame:
    """The numbers that the papers print, one line per printed cell.

    Args:
        paper: ``"fedcopl"`` or ``"sage"``; None takes both.
        item: where it is printed, such as ``"main Table 1"`` or ``"supplement Table 4"``; None takes all.
        filters: column = value, or a list of values. Methods have this project's spelling (``"FedOTP"``);
            ``printed_method`` has the paper's (``"FedOPT"``).

    Returns:
        Columns paper, item, dataset, partition, beta, alpha (SAGE's Dirichlet), label_share, clients, method,
        printed_method, labeller, backbone, metric, param, param_value, value (the printed text),
        value_number (accuracies in percent), printed_gain, note, flag (misprints and doubtful cells).

    Raises:
        FedCoPLError: an unknown paper, item or column, with the known ones.

    >>> claims("fedcopl", "main Table 1", dataset="DTD", method="FedCoPL", beta=0.1)["value"].item()
    '60.89'

    Shown in notebook ``fedcopl_main_table1``.
    """
    table = _table()
    if paper is not None:
        table = table[_known(table, "paper", paper)]
    if item is not None:
        table = table[_known(table, "item", item)]
    for column, value in filters.items():
        if column not in table.columns:
            raise FedCoPLError(
                f"unknown column {column!r}{did_you_mean(column, table.columns)}; known: {', '.join(table.columns)}"
            )
        wanted = list(value) if isinstance(value, list | tuple | set) else [value]
        table = table[table[column].isin(wanted)]
    return table.reset_index(drop=True).copy()


def _known(table: pd.DataFrame, column: str, value: str) -> pd.Series:
    known = list(dict.fromkeys(table[column]))
    if value not in known:
        raise FedCoPLError(f"unknown {column} {value!r}{did_you_mean(value, known)}; known: {', '.join(known)}")
    return table[column] == value


@lru_cache(maxsize=1)
def _table() -> pd.DataFrame:
    with resources.files("fedcopl_lab.paper").joinpath("claims.csv").open(encoding="utf-8") as file:
        text = pd.read_csv(file, dtype=str, keep_default_na=False)
    numbers = {name: pd.to_numeric(text[name].where(text[name] != "")).astype(float) for name in NUMBERS}
    return text.assign(**numbers)
