"""Small made-up sources, so that no test waits for a model."""

import pytest

from fedcopl_lab.extras.bench.widgets import made_up_rounds, made_up_scores, made_up_view_scores
from fedcopl_lab.widgets import Catalogue, _redraw


@pytest.fixture(scope="session", autouse=True)
def _coarse_pictures():
    """Fewer pixels: what is compared are whole pictures, whatever their size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_redraw, "DPI", 40)
        yield


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue([made_up_scores(clients=3, classes=4, images=40)])


@pytest.fixture(scope="session")
def views():
    return made_up_view_scores(classes=4, views=24)


@pytest.fixture(scope="session")
def history():
    return made_up_rounds(clients=3, classes=4, rounds=7)
