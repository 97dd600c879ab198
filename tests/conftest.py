"""Shared fixtures: every test has its own store, and nothing may depend on global random state."""

import pytest

from fedcopl_lab.store import Store


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path / "runs"))
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("FEDCOPL_LAB_PROFILE", raising=False)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")
