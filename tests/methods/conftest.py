"""Semi-supervised tasks as small as they get: four channels, two steps, real digits."""

import pytest
from small_semi import config_of

from fedcopl_lab.methods import RECIPES, LocalTask, SemiSetting, open_method


@pytest.fixture
def tiny_config():
    """Function: a method's configuration at the smallest size."""
    return lambda method, **changes: config_of(method, **({"steps_per_epoch": 2} | changes))


@pytest.fixture
def start_task(tiny_config):
    """Function: one client's round of a method, before its first step; ``begun`` runs the method's first hook."""

    def start(method, client=0, round_index=0, received=None, memory=None, begun=False, model=None, **changes):
        config = tiny_config(method, **changes)
        setting = SemiSetting.of(config)
        model = dict(setting.new_model().state_dict()) if model is None else model
        task = LocalTask(setting, RECIPES[method], client, round_index, model, received, memory)
        if begun:
            task.recipe.begin(task)
        return task

    return start


@pytest.fixture
def open_tiny(tiny_config):
    """Function: a method with its data, at the smallest size."""
    return lambda method, **changes: open_method(tiny_config(method, **changes))
