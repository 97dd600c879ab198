"""What the two papers print: every number of every table, which belong beside our rows, and paper against code."""

import math
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from typing import Any

import pandas as pd

from fedcopl_lab._errors import check_known
from fedcopl_lab.paper.items import find_items

_ABLATION = {
    "0;0;0": "PromptFL + FPL (printed as no part)",
    "0;0;1": "allocation",
    "0;1;1": "entropy filter, allocation",
    "1;0;1": "confidence filter, allocation",
    "1;1;1": "all three (FedCoPL)",
}
_AVERAGED = {"0;0": "neither", "1;1": "text and visual", "1;0": "text only", "0;1": "visual only (FedCoPL)"}

_NOTHING = pd.DataFrame({name: [] for name in ("series", "column", "value", "dataset", "setting", "level", "role")})
_SWEPT = ("tau1", "tau2", "target_accuracy_pct")
"""Values of the column param whose param_value is what an item's columns sweep."""

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
    table = _claims()
    if paper is not None:
        table = table[rows_with(table, "paper", paper)]
    if item is not None:
        table = table[rows_with(table, "item", item)]
    for column, value in filters.items():
        check_known(column, table.columns, "column")
        wanted = list(value) if isinstance(value, list | tuple | set) else [value]
        table = table[table[column].isin(wanted)]
    return table.reset_index(drop=True).copy()


def rows_with(table: pd.DataFrame, column: str, value: str) -> pd.Series:
    """Which rows have that value in a column; one that no row has is an error with the known ones."""
    check_known(value, table[column].unique(), column)
    return table[column] == value


@lru_cache(maxsize=1)
def _claims() -> pd.DataFrame:
    text = read_table("claims.csv")
    numbers = {name: pd.to_numeric(text[name].where(text[name] != "")).astype(float) for name in NUMBERS}
    return text.assign(**numbers)


def printed(item_id: str, metric: str | None = None) -> pd.DataFrame:
    """What the paper prints for the rows of an item; empty when it prints no numbers for it, as for a figure.

    Args:
        item_id: such as ``"fedcopl_main_table6"``.
        metric: which of the item's metrics; None takes the first. Accuracies stand beside ``accuracy_last5`` too.

    Returns:
        Columns series, column (``"DTD, β = 0.1"``), value in percent, dataset (the paper's name; ``"Average"`` for a
        printed average), setting (the rest of the column's name), level (the number swept along the columns; NaN for
        none) and role of the row.

    >>> printed("fedcopl_main_table6")["series"].unique().tolist()
    ['neither', 'text and visual', 'text only', 'visual only (FedCoPL)']
    """
    (item,) = find_items([item_id])
    if (names := _SERIES.get((item_id, (metric or item.metric).removesuffix("_last5")))) is None:
        return _NOTHING.copy()
    table = claims(item_id.split("_")[0], item.source)
    series_of, column_of = names
    lines = []
    for line in table.to_dict("records"):
        row = {str(name): value for name, value in line.items()}
        series, column = series_of(row), column_of(row)
        if series is not None and column is not None:
            lines.append(
                {
                    "series": series,
                    "column": column,
                    "value": row["value_number"],
                    "dataset": row["dataset"],
                    "setting": column.removeprefix(f"{row['dataset']}, "),
                    "level": _swept_level(row),
                    "role": item.role(series),
                }
            )
    return pd.DataFrame(lines)


def backbone(item_id: str) -> str:
    """The frozen model behind an item's printed numbers, such as ``"ViT-B/32"``; empty where there is none.

    >>> backbone("fedcopl_main_table4")
    'ViT-B/16'
    """
    known = claims(item_id.split("_")[0])
    named = known.loc[known["item"] == find_items([item_id])[0].source, "backbone"]
    return ", ".join(name for name in named.unique() if name)


def _swept_level(row: dict[str, Any]) -> float:
    if row["param"] in _SWEPT:
        return float(row["param_value"])
    return float(row["beta"] if math.isnan(row["alpha"]) else row["alpha"])


_Name = Callable[[dict[str, Any]], str | None]


def _trainer(row: dict[str, Any]) -> str:
    alone = {"zero-shot": "Zero-shot CLIP", "FedCoPL": "FedCoPL"}
    return alone.get(row["method"], f"{row['method']} + {row['labeller']}")


def _split(row: dict[str, Any]) -> str:
    split = "quantity" if row["partition"] == "quantity" else f"β = {row['beta']:g}"
    return f"{row['dataset']}, {split}"


def _where(column: str, value: str, pattern: str = "{method}") -> _Name:
    """The name of rows that have a value in a column; others are not of the item."""
    return lambda row: pattern.format(**row) if row[column] == value else None


_AT_TENTH, _UNEVEN, _TARGET = "{dataset}, β = 0.1", "{dataset}, α = {alpha:g}", "{dataset}, {param_value} %"
_ACCURACY = _where("metric", "accuracy_pct")

_SERIES: dict[tuple[str, str], tuple[_Name, _Name]] = {
    **{(f"fedcopl_main_table{number}", "accuracy"): (_trainer, _split) for number in (1, 2, 3, 4)},
    ("fedcopl_main_table5", "accuracy"): (lambda row: _ABLATION[row["param_value"]], _split),
    ("fedcopl_main_table6", "accuracy"): (lambda row: _AVERAGED[row["param_value"]], _split),
    ("fedcopl_supp_table2", "accuracy"): (_trainer, _split),
    ("fedcopl_supp_table3", "label_accuracy"): ("{labeller}".format_map, _split),
    **{(f"fedcopl_supp_table{n}", "accuracy"): (_AT_TENTH.format_map, "{param_value}".format_map) for n in (4, 5)},
    **{
        ("fedcopl_supp_table1", ours): (_where("param", theirs, "{dataset}"), "printed".format_map)
        for ours, theirs in (("n_classes", "classes"), ("n_train", "training_size"), ("n_test", "testing_size"))
    },
    ("sage_main_table1", "accuracy"): (_ACCURACY, _UNEVEN.format_map),
    ("sage_supp_table8", "accuracy"): (_ACCURACY, _UNEVEN.format_map),
    ("sage_supp_table8", "gain"): (_where("metric", "gain_over_best_other_pct_points"), _UNEVEN.format_map),
    ("sage_supp_table5", "accuracy"): ("{method}, {param_value}".format_map, _UNEVEN.format_map),
    **{
        (f"sage_{table}", ours): (_where("metric", theirs), _TARGET.format_map)
        for table in ("main_rounds", "supp_table6", "supp_table7")
        for ours, theirs in (("rounds_needed", "rounds_to_accuracy"), ("speed_up", "speed_up_over_fixmatch_lpl"))
    },
}
"""(item, metric) -> how a printed cell's row and column are called among ours; None for a cell that is not shown."""


def discrepancies() -> pd.DataFrame:
    """The differences between paper and released code that this toolkit handles.

    Returns:
        Columns number, topic, paper (what it says), code (what the released code does, or its tables give), option (the
        setting of :func:`fedcopl_lab.configure`), paper_value and code_value (what selects each side), default (in
        paper mode; ``"null"`` is None), toolkit (what happens here, where it needs saying); empty where there is none.

    >>> discrepancies().query("option == 'weight_by'")["code_value"].item()
    'selected'

    Shown in notebook ``00_quickstart``.
    """
    return read_table("discrepancies.csv").astype({"number": int})


def read_table(name: str) -> pd.DataFrame:
    """A table beside this module, every cell as text."""
    with resources.files("fedcopl_lab.paper").joinpath(name).open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)
