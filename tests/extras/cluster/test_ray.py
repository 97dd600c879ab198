"""What a sweep on Ray says of runs that it cannot compute; that a killed worker costs none is in tests/stress."""

import json

import pytest

from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Store

pytest.importorskip("ray", reason="the extra cluster is not installed")
pytestmark = [pytest.mark.cluster, pytest.mark.long]

QUICK = {"method": "PromptFL", "n_clients": 3, "dataset": "digits:240", "scheme": "iid", "local_epochs": 1}


FAILS = """
import json, sys
from pathlib import Path
from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab.extras import cluster as _ray
from fedcopl_lab.extras.cluster import Needs, ray_sweep
from fedcopl_lab.extras.federation.flower import need
from fedcopl_lab.store import Store

_ray._start(need("ray"), 1)  # once for both
store, quick = Store(Path(sys.argv[1])), json.loads(sys.argv[2])
good = configure("smoke", rounds=1, **quick)
bad = configure("smoke", rounds=1, **quick | {"n_clients": 200})
try:
    ray_sweep([good, bad], store, progress=False)
except FedCoPLError as error:
    print("bad run:", error)
_ray.needs_of = lambda config: Needs(1, 0, 10**15)
try:
    ray_sweep([configure("smoke", rounds=1, seed=1, **quick)], store, progress=False)
except FedCoPLError as error:
    print("large run:", error)
"""


def test_what_cannot_be_run_is_told_and_the_others_stay(tmp_path, apart):
    told = apart(FAILS, tmp_path, json.dumps(QUICK))
    assert "bad run: n_clients=200" in told
    assert "needs memory 1,000,000,000,000,000" in told.split("large run:")[1]
    assert Store(tmp_path).run(key_of(configure("smoke", rounds=1, **QUICK))).complete


class SlowRay:
    """Ray whose first starts fail as they do on a busy machine."""

    def __init__(self, failures):
        self.failures, self.started = failures, 0

    def init(self, **settings):
        self.failures -= 1
        if self.failures >= 0:
            raise Exception("The current node timed out during startup.")
        self.started += 1

    def shutdown(self):
        self.started = 0


def test_ray_is_started_again_once(monkeypatch):
    from fedcopl_lab.extras import cluster as _ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    slow = SlowRay(1)
    _ray._start(slow, 2)
    assert slow.started == 1
    with pytest.raises(FedCoPLError, match=r"Ray did not start \(The current node timed out.*less busy"):
        _ray._start(SlowRay(2), 2)
