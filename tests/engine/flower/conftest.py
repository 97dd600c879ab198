"""What the tests of Flower share."""

import pytest


@pytest.fixture
def promised_bytes():
    """Function: what a run key promises: everything but where and how fast it was computed."""

    def read(run):
        unpromised = ("environment.json", "seconds.json")
        files = sorted(p for p in run.path.rglob("*") if p.is_file() and p.name not in unpromised)
        return {str(p.relative_to(run.path)): p.read_bytes() for p in files}

    return read
