"""Rows of the run store for semi-supervised methods; true labels of the pool are read here and only here."""

from collections.abc import Mapping
from typing import Any

from fedcopl_lab.methods._local_task import ClientUpdate
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._semi_setting import SemiSetting
from fedcopl_lab.methods._semi_state import SemiState, Tensors
from fedcopl_lab.steps import model_scores


def round_row(
    setting: SemiSetting, recipe: Recipe, before: SemiState, after: SemiState, updates: Mapping[int, ClientUpdate],
    messages: Mapping[int, Tensors],
) -> dict[str, Any]:  # fmt: skip
    """One round's row."""
    model = setting.placed(setting.new_model())
    model.load_state_dict(after.model)
    tests = setting.tests
    scores = model_scores(model, setting.images[tests], setting.testing)
    accuracy = float((scores.argmax(dim=1) == setting.labels[tests]).double().mean())
    names = {name: None for update in updates.values() for name in update.losses}
    losses = {f"loss_{name}": sum(update.losses[name] for update in updates.values()) / len(updates) for name in names}
    return {"round": after.round, "accuracy": accuracy, **losses}
