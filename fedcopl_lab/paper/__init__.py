"""What the papers print, what was measured here, and which runs each table and figure needs."""

from fedcopl_lab.paper._adding import add_claims, add_numbers
from fedcopl_lab.paper._sage_confidences import THRESHOLDS, share_above
from fedcopl_lab.paper._sage_reached import reached_table, speed_ups
from fedcopl_lab.paper._sage_theory import CLIENT_METRICS
from fedcopl_lab.paper.about import CLAIMS_ABOUT, claims_about
from fedcopl_lab.paper.claims import claims
from fedcopl_lab.paper.collect import (
    SETTING_COLUMNS,
    TIDY_COLUMNS,
    VALUE_COLUMNS,
    collect,
    keys_by_cell,
    run_table,
    runs_of,
    with_settings,
)
from fedcopl_lab.paper.discrepancies import discrepancies
from fedcopl_lab.paper.items import (
    GROUPS,
    ITEMS,
    PAPER_SETS,
    SAGE_SETS,
    SEEDS,
    Cell,
    Drawing,
    Item,
    NotRun,
    Reads,
    differences,
    find_items,
    has_runs,
)
from fedcopl_lab.paper.items._sage import NO_KAPPA, targets
from fedcopl_lab.paper.measured import (
    measured,
    measured_claims,
    measured_clip_labels,
    measured_folder,
    measured_profiles,
    measured_runs,
    read_measured,
    write_claims,
    write_measured,
)
from fedcopl_lab.paper.printed import backbone, printed
from fedcopl_lab.paper.verdicts import COLUMNS as VERDICT_COLUMNS
from fedcopl_lab.paper.verdicts import judged_claims, same_verdicts, verdicts

__all__ = [
    "CLAIMS_ABOUT",
    "CLIENT_METRICS",
    "GROUPS",
    "ITEMS",
    "NO_KAPPA",
    "PAPER_SETS",
    "SAGE_SETS",
    "SEEDS",
    "SETTING_COLUMNS",
    "THRESHOLDS",
    "TIDY_COLUMNS",
    "VALUE_COLUMNS",
    "VERDICT_COLUMNS",
    "Cell",
    "Drawing",
    "Item",
    "NotRun",
    "Reads",
    "add_claims",
    "add_numbers",
    "backbone",
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
    "reached_table",
    "read_measured",
    "run_table",
    "runs_of",
    "same_verdicts",
    "share_above",
    "speed_ups",
    "targets",
    "verdicts",
    "with_settings",
    "write_claims",
    "write_measured",
]
