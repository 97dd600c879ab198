"""Small federations, and processes of their own for what leaves files, threads and processes open."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fedcopl_lab as lab

SMALL = {
    "dataset": "digits:240", "rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_clients": 3, "n_text": 2,
    "visual_depth": 1, "n_visual": 2, "clients_per_forward": 1, "scheme": "iid",
}  # fmt: skip


@pytest.fixture
def small():
    """Function: FedCoPL's configuration at the smallest size: 240 digits, three clients, two rounds."""
    return lambda **changes: lab.configure("smoke", **{**SMALL, **changes})


def started_under(marker):
    """Processes, dead ones left out, in whose environment a text stands; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def ended(marker, patience=10.0):
    """Kill what was started under a marker and does not end by itself; which ones."""
    deadline = time.monotonic() + patience
    while (left := started_under(marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return left


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
