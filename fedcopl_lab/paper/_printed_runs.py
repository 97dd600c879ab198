"""What the papers print, as if it were stored: so that a claim's statistic reads the printed cells as it reads runs."""

import math
from collections.abc import Callable, Container, Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pandas as pd

from fedcopl_lab.config import RunConfig
from fedcopl_lab.paper._evidence import NotTestedError, Rows, Settings
from fedcopl_lab.paper._printed import printed
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items import ITEMS
from fedcopl_lab.store import Store

SEEDS = (0, 1, 2)
"""The printed numbers stand at every seed: only their mean is of use."""


class PrintedRuns(StoredRuns):
    """The printed cells of both papers, under the settings of profile ``"paper"``; nothing here was measured."""

    def __init__(self, store: Store) -> None:
        super().__init__("paper", store, SEEDS)

    def again(self, closed: Container[Hashable] = ()) -> "PrintedRuns":
        """The same cells for another claim."""
        return PrintedRuns(self.store)

    def rows_of(self, seed: int, settings: Settings) -> tuple[str, Rows | None]:
        """Rows with the printed accuracy; None where the paper prints none."""
        return "", _rows().get(replace(self._config(0, settings), seed=0))

    def split_values(self, read: Callable[[dict[str, Any]], float], **settings: Any) -> pd.Series:
        """Papers print no splits."""
        raise NotTestedError("the papers print no split")


@lru_cache(maxsize=1)
def _rows() -> dict[RunConfig, Rows]:
    last: dict[RunConfig, dict[str, Any]] = {}
    reached: dict[RunConfig, dict[float, float]] = {}
    for item in ITEMS:
        for metric in ("accuracy", "label_accuracy", "rounds_needed"):
            lines = printed(item.id, metric).dropna(subset="value")
            values = dict(zip(zip(lines["series"], lines["column"], strict=True), lines["value"], strict=True))
            for cell in item.cells("paper") if values else ():
                value, config = values.get((cell.series, cell.column)), replace(cell.config, seed=0)
                if value is None:
                    continue
                row = last.setdefault(config, {"round": 1})
                if metric == "accuracy":
                    row |= {"accuracy": value / 100, "accuracy_global": value / 100}
                elif metric == "label_accuracy":
                    row["labels"] = {"selected": [[100.0]], "selected_correct": [[value]]}
                else:
                    reached.setdefault(config, {})[float(cell.column.split(", ")[-1].removesuffix(" %"))] = value
    return {config: [row] for config, row in last.items()} | {config: _curve(own) for config, own in reached.items()}


def _curve(reached: dict[float, float]) -> Rows:
    """Accuracy at each round: the highest target that the paper says was reached by then."""
    rounds = range(1, math.ceil(max(reached.values())) + 1)
    known = [max((target for target, at in reached.items() if at <= number), default=0.0) for number in rounds]
    return [{"round": number, "accuracy": best / 100} for number, best in zip(rounds, known, strict=True)]
