"""Federations in this process."""

import pytest

from fedcopl_lab.extras.federation import Loopback, client_folder, open_member, serve, split


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
