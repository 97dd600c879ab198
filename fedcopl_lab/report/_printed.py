"""Which printed numbers belong beside which of our rows."""

import pandas as pd

from fedcopl_lab.paper.claims import claims

_ROWS = {
    "Zero-shot CLIP": {"item": "main Table 1", "method": "zero-shot"},
    "PromptFL + FPL": {"item": "main Table 1", "method": "PromptFL", "labeller": "FPL"},
    "PromptFL + CoPL": {"item": "main Table 3", "method": "PromptFL", "labeller": "CoPL"},
    "FedCoPL": {"item": "main Table 1", "method": "FedCoPL"},
}
_AVERAGED = {"neither": "0;0", "text and visual": "1;1", "text only": "1;0", "visual only (FedCoPL)": "0;1"}
_LABELLERS = {"PromptFL + FPL": "FPL", "PromptFL + CoPL": "CoPL", "FedCoPL": "CoPL"}


def printed(item_id: str, metric: str = "accuracy") -> pd.DataFrame:
    """What the paper prints for the rows of an item: columns series, column (``"DTD, β = 0.1"``), value in percent.

    Empty when the paper prints no numbers for it, as for a figure.
    """
    if item_id == "fedcopl_main_table1" and metric == "accuracy":
        parts = [_lines(series, claims("fedcopl", **where)) for series, where in _ROWS.items()]
    elif item_id == "fedcopl_main_table1" and metric == "label_accuracy":
        table = claims("fedcopl", "supplement Table 3", partition="dirichlet")
        parts = [_lines(series, table[table["labeller"] == name]) for series, name in _LABELLERS.items()]
    elif item_id == "fedcopl_main_table6" and metric == "accuracy":
        table = claims("fedcopl", "main Table 6")
        parts = [_lines(series, table[table["param_value"] == code]) for series, code in _AVERAGED.items()]
    else:
        return pd.DataFrame({"series": [], "column": [], "value": []})
    return pd.concat(parts, ignore_index=True)


def _lines(series: str, table: pd.DataFrame) -> pd.DataFrame:
    columns = [f"{row.dataset}, β = {row.beta:g}" for row in table.itertuples(index=False, name="Claim")]
    return pd.DataFrame({"series": series, "column": columns, "value": table["value_number"]})
