"""A notebook that takes too much processor time fails, so that tests stay quick: ``-p tests.notebook_time``."""

import psutil
import pytest

SECONDS = 30.0
IMPORTS = 8.0  # a slow or busy machine: so many times what it took to import the package


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """After a notebook's last cell: read the time while its kernel is still there, fail once it is gone."""
    notebook = item.parent
    kernel = getattr(notebook, "kernel", None)
    last = nextitem is None or nextitem.parent is not notebook
    taken = sum(psutil.Process(kernel.km.provisioner.pid).cpu_times()[:4]) if kernel is not None else 0.0
    if "import fedcopl_lab" in item.cell.source:
        notebook.imported = getattr(notebook, "imported", taken)
    yield
    most = max(SECONDS, IMPORTS * getattr(notebook, "imported", 0.0))
    if last and taken > most:
        pytest.fail(f"{notebook.name} took {taken:.0f} s of processor time, {most:.0f} at most: draw committed rows")
