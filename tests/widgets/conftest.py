"""Small made-up sources, so that no test waits for a model."""

import pytest

from fedcopl_lab.widgets._bench import made_up_opinions, made_up_rounds, made_up_scores
from fedcopl_lab.widgets._sources import Catalogue


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue([made_up_scores(clients=3, classes=4, images=40)])


@pytest.fixture(scope="session")
def opinions():
    return made_up_opinions(classes=4, views=24)


@pytest.fixture(scope="session")
def played():
    return made_up_rounds(clients=3, classes=4, rounds=7)
