"""The claims that need code: a function for each, named in the column ``statistic`` of ``claims_judged.csv``.

Most claims are rows of ``statistics.csv``; docs/claims.md says how to write one. A function takes the stored runs
and returns a :class:`fedcopl_lab.paper._judge.Judgement`; every public function of the modules below is one.
"""

import inspect
from collections.abc import Callable

from fedcopl_lab.paper._judge import Judgement
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.statistics import fedcopl, fedcopl_prompts, sage, sage_rounds

Statistic = Callable[[StoredRuns], Judgement]
"""Reads stored runs and judges one claim."""

STATISTICS: dict[str, Statistic] = {
    name: function
    for module in (fedcopl, fedcopl_prompts, sage, sage_rounds)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
}
"""Function name -> statistic."""
