"""What the papers print, what was measured here, and which runs each table and figure needs."""

from fedcopl_lab.paper._sage_reached import speed_ups
from fedcopl_lab.paper.about import CLAIMS_ABOUT, claims_about
from fedcopl_lab.paper.claims import claims
from fedcopl_lab.paper.collect import (
    TIDY_COLUMNS,
    VALUE_COLUMNS,
    collect,
    keys_by_cell,
    run_table,
    runs_of,
    with_settings,
)
from fedcopl_lab.paper.discrepancies import discrepancies
from fedcopl_lab.paper.items import GROUPS, ITEMS, SEEDS, Cell, Item, NotRun, differences, find_items, has_runs
from fedcopl_lab.paper.measured import (
    measured,
    measured_claims,
    measured_clip_labels,
    measured_folder,
    measured_profiles,
    measured_runs,
    write_claims,
    write_measured,
)
from fedcopl_lab.paper.printed import printed
from fedcopl_lab.paper.verdicts import judged_claims, same_verdicts, verdicts

__all__ = [
    "CLAIMS_ABOUT",
    "GROUPS",
    "ITEMS",
    "SEEDS",
    "TIDY_COLUMNS",
    "VALUE_COLUMNS",
    "Cell",
    "Item",
    "NotRun",
    "claims",
    "claims_about",
    "collect",
    "differences",
    "discrepancies",
    "find_items",
    "has_runs",
    "judged_claims",
    "keys_by_cell",
    "measured",
    "measured_claims",
    "measured_clip_labels",
    "measured_folder",
    "measured_profiles",
    "measured_runs",
    "printed",
    "run_table",
    "runs_of",
    "same_verdicts",
    "speed_ups",
    "verdicts",
    "with_settings",
    "write_claims",
    "write_measured",
]
