"""Pictures with controls for JupyterLab; each is also a plain function ``draw_…(params) -> Figure``.

>>> from fedcopl_lab import widgets
>>> widgets.explore_thresholds()
"""

from fedcopl_lab.widgets._allocation import AllocationParams, draw_allocation, explore_allocation
from fedcopl_lab.widgets._explorer import Explorer, Shown
from fedcopl_lab.widgets._kappa import KappaParams, draw_kappa, explore_kappa
from fedcopl_lab.widgets._partition import PartitionParams, draw_partition, explore_partition
from fedcopl_lab.widgets._rounds import RoundParams, draw_rounds, play_rounds
from fedcopl_lab.widgets._sources import Opinions, Played, Scores
from fedcopl_lab.widgets._threshold_scene import ThresholdParams
from fedcopl_lab.widgets._thresholds import draw_thresholds, explore_thresholds

__all__ = [
    "AllocationParams",
    "Explorer",
    "KappaParams",
    "Opinions",
    "PartitionParams",
    "Played",
    "RoundParams",
    "Scores",
    "Shown",
    "ThresholdParams",
    "draw_allocation",
    "draw_kappa",
    "draw_partition",
    "draw_rounds",
    "draw_thresholds",
    "explore_allocation",
    "explore_kappa",
    "explore_partition",
    "explore_thresholds",
    "play_rounds",
]
