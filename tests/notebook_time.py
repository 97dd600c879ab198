"""A notebook that takes too much processor time fails, so that tests stay quick: ``-p tests.notebook_time``."""

import psutil
import pytest

SECONDS = 30.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """After a notebook's last cell: read the time while its kernel is still there, fail once it is gone."""
    notebook = item.parent
    kernel = getattr(notebook, "kernel", None)
    last = kernel is not None and (nextitem is None or nextitem.parent is not notebook)
    taken = sum(psutil.Process(kernel.km.provisioner.pid).cpu_times()[:4]) if last else 0.0
    yield
    if taken > SECONDS:
        pytest.fail(
            f"{notebook.name} took {taken:.0f} s of processor time, {SECONDS:.0f} at most: draw what is committed"
        )
