"""Where FedCoPL's paper and its released code disagree, or the paper says nothing, and which setting selects what."""

from functools import lru_cache
from importlib import resources

import pandas as pd


def discrepancies() -> pd.DataFrame:
    """The differences between paper and released code that this toolkit handles.

    Returns:
        Columns number, topic, paper (what it says), code (what the released code does, or its tables give), option
        (the setting of :func:`fedcopl_lab.configure`; empty where there is nothing to choose), paper_value and
        code_value (what selects each side; empty where a side names no value), default (in paper mode; ``"null"`` is
        None), toolkit (what happens here, where it needs saying).

    >>> discrepancies().query("option == 'weight_by'")["code_value"].item()
    'selected'

    Shown in notebook ``00_quickstart``.
    """
    return _table().copy()


@lru_cache(maxsize=1)
def _table() -> pd.DataFrame:
    with resources.files("fedcopl_lab.paper").joinpath("discrepancies.csv").open(encoding="utf-8") as file:
        text = pd.read_csv(file, dtype=str, keep_default_na=False)
    return text.assign(number=text["number"].astype(int))
