"""What the papers print, what was measured here, and which runs each table and figure needs."""

from fedcopl_lab.paper._claims_table import judge, judge_claim
from fedcopl_lab.paper._collect import (
    TIDY_COLUMNS,
    VALUE_COLUMNS,
    collect,
    keys_by_cell,
    run_table,
    runs_of,
    with_settings,
)
from fedcopl_lab.paper._evidence import TidyRows
from fedcopl_lab.paper._gates import GATE_COLUMNS, gate_place, gate_rows, gate_value, gates, limits
from fedcopl_lab.paper._intervals import LEVEL, image_error, seeds_for, survivors, t_interval
from fedcopl_lab.paper._judge import VERDICT_COLUMNS, VERDICTS
from fedcopl_lab.paper._measured import (
    add_claims,
    add_numbers,
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
from fedcopl_lab.paper._printed import backbone, claims, discrepancies, printed
from fedcopl_lab.paper._sage_reached import reached_table, speed_ups
from fedcopl_lab.paper._sage_rounds import CLIENT_METRICS, THRESHOLDS, share_above
from fedcopl_lab.paper._stored_or_committed import (
    committed_seconds,
    judged_here,
    runs_to_settle,
    stored_or_committed,
    unsettled,
)
from fedcopl_lab.paper._study import read_study
from fedcopl_lab.paper._verdicts import claim_lines, judged_claims, same_verdicts, verdicts, where_reached
from fedcopl_lab.paper.items import (
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
    targets,
)

__all__ = ["CLIENT_METRICS", "GATE_COLUMNS", "ITEMS", "LEVEL", "PAPER_SETS", "SAGE_SETS", "SEEDS", "THRESHOLDS",
           "TIDY_COLUMNS", "VALUE_COLUMNS", "VERDICTS", "VERDICT_COLUMNS", "Cell", "Drawing", "Item", "NotRun",
           "Reads", "TidyRows", "add_claims", "add_numbers", "backbone", "claim_lines", "claims", "collect",
           "committed_seconds", "differences", "discrepancies", "find_items", "gate_place", "gate_rows", "gate_value",
           "gates", "has_runs", "image_error", "judge", "judge_claim", "judged_claims", "judged_here", "keys_by_cell",
           "limits", "measured", "measured_claims", "measured_clip_labels", "measured_folder", "measured_profiles",
           "measured_runs", "printed", "reached_table", "read_measured", "read_study", "run_table", "runs_of",
           "runs_to_settle", "same_verdicts", "seeds_for", "share_above", "speed_ups", "stored_or_committed",
           "survivors", "t_interval", "targets", "unsettled", "verdicts", "where_reached", "with_settings",
           "write_claims", "write_measured"]  # fmt: skip
