"""What the papers print, what was measured here, and which runs each table and figure needs."""

from fedcopl_lab.paper.claims import claims
from fedcopl_lab.paper.collect import collect, run_table, runs_of
from fedcopl_lab.paper.items import ITEMS, SEEDS, Cell, Item, find_items
from fedcopl_lab.paper.measured import measured, measured_folder, measured_runs, write_measured

__all__ = [
    "ITEMS",
    "SEEDS",
    "Cell",
    "Item",
    "claims",
    "collect",
    "find_items",
    "measured",
    "measured_folder",
    "measured_runs",
    "run_table",
    "runs_of",
    "write_measured",
]
