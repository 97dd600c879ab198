"""Files and the tests in them in a drawn order, a notebook's cells in its own: ``-p tests.shuffle --shuffle SEED``."""

import random


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, default=0, metavar="SEED", help="files and their tests in a drawn order")


def pytest_collection_modifyitems(config, items):
    """A test that needs another one before it fails in some order: ``make flake``."""

    def drawn(name):
        return random.Random(f"{config.getoption('--shuffle')} {name}").random()

    items.sort(key=lambda item: (drawn(item.nodeid.split("::")[0]), ".ipynb" not in item.nodeid and drawn(item.nodeid)))
