"""One function for each claim that stored runs can settle, grouped as the list of claims is.

To add one: write ``@statistic def name(runs: Evidence) -> Judged`` in a module here, import the module below, and
put the name in the claim's row of ``claims_judged.csv``. Functions share the rule (``_judge``), what rows hold
(``_reads``) and the way to stored runs (``_evidence``).
"""

from fedcopl_lab.paper.statistics import (
    accuracy,
    cost_privacy,
    drift,
    encoders_and_clients,
    label_skew,
    labels,
    parts,
    sage_confidence,
    sage_lambda,
    sage_parts,
    sage_results,
    sage_theory,
    thresholds,
)
from fedcopl_lab.paper.statistics._registry import STATISTICS, Statistic, statistic

__all__ = [
    "STATISTICS",
    "Statistic",
    "accuracy",
    "cost_privacy",
    "drift",
    "encoders_and_clients",
    "label_skew",
    "labels",
    "parts",
    "sage_confidence",
    "sage_lambda",
    "sage_parts",
    "sage_results",
    "sage_theory",
    "statistic",
    "thresholds",
]
