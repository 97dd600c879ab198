"""Federations small enough for tests: 240 digits, three clients, two rounds."""

import pytest

import fedcopl_lab as lab
from fedcopl_lab.engine.federated import Loopback, client_folder, open_member, serve, split

SMALL = {
    "dataset": "digits:240", "rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_clients": 3, "n_text": 2,
    "visual_depth": 1, "n_visual": 2, "clients_per_forward": 1, "scheme": "iid",
}  # fmt: skip


@pytest.fixture
def small():
    """Function: FedCoPL's configuration at the smallest size."""
    return lambda **changes: lab.configure("smoke", **{**SMALL, **changes})


@pytest.fixture
def promised_bytes():
    """Function: what a run key promises: everything but where and how fast it was computed."""

    def read(run):
        unpromised = ("environment.json", "seconds.json")
        files = sorted(p for p in run.path.rglob("*") if p.is_file() and p.name not in unpromised)
        return {str(p.relative_to(run.path)): p.read_bytes() for p in files}

    return read


@pytest.fixture
def opened():
    """Function: all clients of a federation's folder, as after a fresh start of their machines."""
    return lambda config, folder: [open_member(client_folder(folder, k)) for k in range(config.n_clients)]


@pytest.fixture
def federated(tmp_path, opened):
    """Function: a federation in this process; the server's record, and all folders."""

    def run(config, name="federation", meddle=None):
        folders = split(config, tmp_path / name)
        return serve(folders[0], Loopback(opened(config, tmp_path / name), meddle), progress=False), folders

    return run
