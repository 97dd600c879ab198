"""Where statistics sign in: a claim's row names its function, and the function is found here."""

from collections.abc import Callable

from fedcopl_lab.paper._evidence import Evidence
from fedcopl_lab.paper._judge import Judged

Statistic = Callable[[Evidence], Judged]
"""Reads stored runs and judges one claim."""

STATISTICS: dict[str, Statistic] = {}
"""Function name -> statistic, as the column ``statistic`` of the table of claims spells it."""


def statistic(function: Statistic) -> Statistic:
    """Let a row of the table of claims name this function."""
    STATISTICS[function.__name__] = function
    return function
