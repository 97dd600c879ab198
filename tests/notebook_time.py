"""A notebook that takes too much processor time fails, so that tests stay quick: ``-p tests.notebook_time``."""

import psutil
import pytest

SECONDS = 30.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item, nextitem):
    """After a notebook's last cell, while its kernel is still there."""
    notebook = item.parent
    kernel = getattr(notebook, "kernel", None)
    if kernel is None or (nextitem is not None and nextitem.parent is notebook):
        return
    taken = sum(psutil.Process(kernel.km.provisioner.pid).cpu_times()[:4])
    if taken > SECONDS:
        pytest.fail(
            f"{notebook.name} took {taken:.0f} s of processor time, {SECONDS:.0f} at most: draw what is committed"
        )
