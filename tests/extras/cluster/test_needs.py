"""What Ray is told to set aside for a run."""

import pytest

from fedcopl_lab import configure
from fedcopl_lab.extras.bench import plan_run
from fedcopl_lab.extras.cluster import needs_of


@pytest.mark.parametrize("method", ["FedCoPL", "SAGE"])
def test_a_run_gets_the_memory_of_its_plan(method):
    config = configure("smoke", method=method)
    assert needs_of(config).bytes == pytest.approx(plan_run(config, repeats=1).bytes, rel=0.05)
    assert needs_of(configure("smoke", method=method, device="cuda")).bytes == 2e9, "the card may not be here"
