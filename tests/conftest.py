"""Shared fixtures: every test has its own store, nothing may depend on global random state, CIFAR where it lies."""

import contextlib
import io
import os
import runpy
import shutil
from pathlib import Path

import jaxtyping
import pytest

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Run, Store

# before anything imports Flower or Ray: they would report their use to their makers
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
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
        from fedcopl_lab.methods import PromptMethod, SemiMethod

        def ends_after(step):
            def stepped(self, state):
                if state.round == after:
                    raise RuntimeError("power cut")
                return step(self, state)

            return stepped

        with monkeypatch.context() as patch:
            for kind in (PromptMethod, SemiMethod):
                patch.setattr(kind, "step", ends_after(kind.step))
            with pytest.raises(RuntimeError, match="power cut"):
                lab.run(config, store, progress=False)
        run = store.run(key_of(config))
        assert run.rounds_done() == after
        assert not run.complete
        return run

    return cut
