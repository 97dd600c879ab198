"""Shared fixtures: every test has its own store, nothing may depend on global random state, CIFAR where it lies."""

import contextlib
import io
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import hypothesis
import jaxtyping
import psutil
import pytest

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Run, Store

# before anything imports Flower or Ray: they would report their use to their makers
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["FEDCOPL_LAB_OFFLINE"] = "1"  # a test that fetches says so, from a server of its own
hypothesis.settings.register_profile("any machine", deadline=None)  # a busy one takes longer, which is no fault
hypothesis.settings.load_profile("any machine")
SHARED_CIFAR = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar.py"


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path / "runs"))
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("FEDCOPL_LAB_PROFILE", raising=False)


@pytest.fixture
def as_installed():
    """Users have no checker of annotations; without it our own messages must answer."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="session")
def real_cifar(tmp_path_factory):
    """The official CIFAR-10 and CIFAR-100 files."""
    if not SHARED_CIFAR.is_file():
        pytest.skip("the packed CIFAR files are not beside the checkout")
    folder = tmp_path_factory.mktemp("cifar")
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(SHARED_CIFAR))["unpack"](folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture
def power_cut(monkeypatch):
    """Function: a run of which so many rounds are stored when the process ends; the next call has to go on."""

    def cut(config: lab.RunConfig, store: Store, after: int) -> Run:
        from fedcopl_lab.methods import Method

        step = Method.step

        def stepped(self, state):
            if state.round == after:
                raise RuntimeError("power cut")
            return step(self, state)

        with monkeypatch.context() as patch:
            patch.setattr(Method, "step", stepped)
            with pytest.raises(RuntimeError, match="power cut"):
                lab.run(config, store, progress=False)
        run = store.run(key_of(config))
        assert run.rounds_done() == after
        assert not run.complete
        return run

    return cut


SMALL = {
    "dataset": "digits:240", "rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_clients": 3, "n_text": 2,
    "visual_depth": 1, "n_visual": 2, "clients_per_forward": 1, "scheme": "iid",
}  # fmt: skip


@pytest.fixture
def small():
    """Function: FedCoPL's configuration at the smallest size: 240 digits, three clients, two rounds."""
    return lambda **changes: lab.configure("smoke", **{**SMALL, **changes})


def started_under(marker):
    """Processes, dead ones left out, in whose environment a text stands."""
    every = psutil.process_iter(["environ"])  # None where it cannot be read
    return [one for one in every if one.pid != os.getpid() and marker in str(one.info["environ"])]


def ended(marker, patience=10.0):
    """Kill what was started under a marker and does not end by itself; which ones."""
    deadline = time.monotonic() + patience
    while (left := started_under(marker)) and time.monotonic() < deadline:
        psutil.wait_procs(left, 0.1)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return [process.pid for process in left]


@pytest.fixture(scope="session")
def end_all():
    """Function: kill all processes in whose environment a text stands, after some seconds' patience; which ones."""
    return ended


@pytest.fixture(scope="session")
def apart(tmp_path_factory):
    """Function: code in a Python of its own that ends in time and leaves no process behind; what it printed.

    Ray and Flower leave files open and threads running, which other tests would be blamed for.
    """

    def run(code, *arguments, seconds=150):
        out = tmp_path_factory.mktemp("apart") / "out.txt"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "STARTED_BY": str(out)}
        with out.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-c", code, *map(str, arguments)], stdout=stream, stderr=stream, env=environment
            )
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        left = ended(str(out))
        told = out.read_text()
        assert process.returncode == 0, f"rc {process.returncode} (limit {seconds} s):\n{told[-4000:]}"
        assert not left, f"processes {left} were left behind"
        return told

    return run
