"""What SAGE's statistics share: its three splits in order, and numbers read from rows with pseudo-labels."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedcopl_lab.paper._evidence import Evidence, Read, Rows, Settings
from fedcopl_lab.paper._judge import pooled
from fedcopl_lab.paper._sage_confidences import first_third, last_third
from fedcopl_lab.paper._sage_rounds import pseudo_label_numbers
from fedcopl_lab.paper._trends import slopes
from fedcopl_lab.paper.items._sage_columns import on_analysed_set
from fedcopl_lab.paper.statistics._reads import mean

SAGE: Settings = {"method": "SAGE"}
LPL: Settings = {"method": "FixMatch-LPL"}
GPL: Settings = {"method": "FixMatch-GPL"}
ONE_MODEL: Mapping[str, Settings] = {"FixMatch-LPL": LPL, "FixMatch-GPL": GPL}
"""The rows that SAGE joins: labels of the local, of the global model."""

PER_STEP = "per step of α"
"""Unit of a trend from α = 1 over 0.5 to 0.1, each one step."""


def from_even_to_uneven(runs: Evidence) -> dict[str, Settings]:
    """The splits of SAGE's analyses from the most even to the most uneven one."""
    return dict(reversed(on_analysed_set(runs.profile).items()))


def over_alpha(runs: Evidence, read: Read) -> pd.Series:
    """Per seed, the slope of a number of SAGE's runs from α = 1 to 0.1, a step of 1 from each α to the next."""
    columns = from_even_to_uneven(runs)
    table = pd.DataFrame({name: runs.values(read, **SAGE, **there) for name, there in columns.items()}).dropna()
    return slopes(table, list(range(len(columns))))


def at_each_alpha(runs: Evidence, read: Read, **settings: Any) -> dict[str, pd.Series]:
    """A number of SAGE's runs at each α that is stored."""
    return runs.in_columns(read, from_even_to_uneven(runs), **{**SAGE, **settings})


def over_all_alphas(runs: Evidence, read: Read) -> pd.Series:
    """Per seed, the mean over the three α."""
    return pooled(at_each_alpha(runs, read))


def logged(metric: str, part: Callable[[Sequence[Any]], Sequence[Any]] | None = None) -> Read:
    """Reader of the mean over rounds of a derived number, such as ``"share_local"``; rounds without it are left out.

    Args:
        metric: of :func:`fedcopl_lab.paper._sage_rounds.pseudo_label_numbers`.
        part: which rounds, such as :func:`first_third`; None takes all.
    """

    def read(rows: Rows) -> float:
        return mean([_numbers(row)[metric] for row in (rows if part is None else part(rows))])

    return read


def early(metric: str) -> Read:
    """Mean over the first third of the rounds."""
    return logged(metric, first_third)


def late(metric: str) -> Read:
    """Mean over the last third of the rounds."""
    return logged(metric, last_third)


def curve(rows: Rows, metric: str) -> list[float]:
    """A derived number of every round, NaN where there is none."""
    return [math.nan if (value := _numbers(row)[metric]) is None else float(value) for row in rows]


def of_group(group: str, key: str) -> Read:
    """Mean over the rounds of a stored number, such as ``("ensemble", "rank_correlation")``."""
    return lambda rows: mean([row[group][key] for row in rows])


def per_client(rows: Rows, key: str) -> list[float]:
    """Each client's mean over the rounds it took part in; NaN for one that never did."""
    clients = zip(*(row["clients"][key] for row in rows), strict=True)
    return [mean(values) for values in clients]


def _numbers(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if "both" not in row:
        raise KeyError("both")
    return pseudo_label_numbers(row)
