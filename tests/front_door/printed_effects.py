"""Every claim's statistic on the numbers that the papers print, which the library reads beside what was measured."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pandas as pd

from fedcopl_lab.config import RunConfig
from fedcopl_lab.paper import ITEMS, judged_claims, printed
from fedcopl_lab.paper._claims_table import Judgement, judge_claim
from fedcopl_lab.paper._evidence import NotTestedError, Rows, Settings
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper._verdicts import STATISTICS, claim_lines
from fedcopl_lab.store import Store


def as_csv() -> str:
    """``printed_effects.csv``: every claim's statistic on the cells that the papers print.

    Columns number, part (empty: all cells together) and effect, in the unit of the claim.
    """
    cells = PrintedRuns()
    lines = ["number,part,effect"]
    for number, rows in claim_lines(judged_claims()).groupby("number", sort=False):
        written = [{str(name): str(value) for name, value in row.items()} for row in rows.to_dict("records")]
        judged = judge_claim(written, cells.again(), STATISTICS)
        lines += [
            f'{number},"{part}",{effect:.6g}' for part, effect in _effects(judged).items() if not math.isnan(effect)
        ]
    return "\n".join(lines) + "\n"


def _effects(judged: Judgement) -> dict[str, float]:
    """Part -> its difference; under ``""`` that of all cells together."""
    found = {name: part.parts.get("", part).difference for name, part in judged.parts.items()}
    return {"": judged.difference} | found


class PrintedRuns(StoredRuns):
    """What the papers print, as if it were stored in profile ``"paper"``: claims read its cells as they read runs."""

    def __init__(self) -> None:
        super().__init__("paper", Store(), seeds=(0, 1, 2))  # the same numbers at each: only their mean is of use

    def rows_of(self, seed: int, settings: Settings) -> tuple[str, Rows | None]:
        """Rows with the printed accuracy; None where the paper prints none."""
        return "", _rows().get(self._config(0, settings))

    def split_values(self, read: Callable[[dict[str, Any]], float], **settings: Any) -> pd.Series:
        """Papers print no splits."""
        raise NotTestedError("the papers print no split")


@lru_cache(maxsize=1)
def _rows() -> dict[RunConfig, Rows]:
    last: dict[RunConfig, dict[str, Any]] = {}
    reached: dict[RunConfig, dict[Any, float]] = {}
    for item in ITEMS:
        for metric in ("accuracy", "label_accuracy", "rounds_needed"):
            lines = printed(item.id, metric).dropna(subset="value")
            values = dict(zip(zip(lines["series"], lines["column"], strict=True), lines["value"], strict=True))
            for cell in item.cells("paper") if values else ():
                value = values.get((cell.series, cell.column))
                if value is None:
                    continue
                row = last.setdefault(cell.config, {"round": 1})
                if metric == "accuracy":
                    row |= {"accuracy": value / 100, "accuracy_global": value / 100}
                elif metric == "label_accuracy":
                    row["labels"] = {"selected": [[100.0]], "selected_correct": [[value]]}
                else:
                    reached.setdefault(cell.config, {})[cell.level] = value
    return {config: [row] for config, row in last.items()} | {config: _curve(own) for config, own in reached.items()}


def _curve(reached: dict[Any, float]) -> Rows:
    """Accuracy at each round: the highest target that the paper says was reached by then."""
    rows = []
    for number in range(1, math.ceil(max(reached.values())) + 1):
        best = max((target for target, at in reached.items() if at <= number), default=0.0)
        rows.append({"round": number, "accuracy": best / 100})
    return rows
