"""Pictures with controls for JupyterLab; each is also a plain function ``draw_…(params) -> Figure``.

>>> explorer = lab.widgets.explore_partition()
>>> explorer.name, explorer.params.n_clients
('partition', 5)
"""

from fedcopl_lab.widgets._allocation import AllocationParams, draw_allocation, explore_allocation
from fedcopl_lab.widgets._explorer import Explorer
from fedcopl_lab.widgets._explorer_page import write_explorer
from fedcopl_lab.widgets._kappa import KappaParams, draw_kappa, explore_kappa
from fedcopl_lab.widgets._partition import PartitionParams, draw_partition, explore_partition
from fedcopl_lab.widgets._redraw import Readout
from fedcopl_lab.widgets._rounds import RoundParams, draw_rounds, play_rounds
from fedcopl_lab.widgets._sources import Catalogue, RunHistory, Scores, WeakViewScores
from fedcopl_lab.widgets._thresholds import ThresholdParams, draw_thresholds, explore_thresholds

__all__ = ["AllocationParams", "Catalogue", "Explorer", "KappaParams", "PartitionParams", "Readout", "RoundParams",
           "RunHistory", "Scores", "ThresholdParams", "WeakViewScores", "draw_allocation", "draw_kappa",
           "draw_partition", "draw_rounds", "draw_thresholds", "explore_allocation", "explore_kappa",
           "explore_partition", "explore_thresholds", "play_rounds", "write_explorer"]  # fmt: skip
