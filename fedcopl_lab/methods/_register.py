"""From a configuration to the method that runs it, and one call that makes a method from outside known by name."""

import inspect
from typing import Any

from fedcopl_lab._errors import FedCoPLError, pick
from fedcopl_lab.config import (
    METHODS,
    REGISTERED,
    SAGE_METHODS,
    PromptConfig,
    Registered,
    RunConfig,
    SageConfig,
    check_registered,
    configure,
)
from fedcopl_lab.methods._prompt_recipes import PROMPT_RECIPES, PromptRecipe
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._recipes import RECIPES
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods.prompt_method import PromptMethod, ZeroShot
from fedcopl_lab.methods.sage_method import SemiMethod
from fedcopl_lab.steps import SCORERS


def open_method(config: RunConfig, split: dict[str, Any] | None = None) -> PromptMethod | SemiMethod | ZeroShot:
    """Load what a configuration names and give the method that runs it.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        split: a stored split to take instead of drawing one.
    """
    check_registered(config.method)
    if isinstance(config, PromptConfig):
        setting = PromptSetting.of(config, split)
        return ZeroShot(setting) if config.method == "zero-shot" else PromptMethod(setting)
    if isinstance(config, SageConfig):
        return SemiMethod(SemiSetting.of(config, split))
    raise FedCoPLError(f"no method runs a {type(config).__name__}; build it with lab.configure(...)")


def register(
    name: str, recipe: Recipe | PromptRecipe, *, like: str | None = None, version: int = 1, **preset: Any
) -> None:
    """Make a method known to ``lab.configure``, ``lab.run``, ``lab.sweep`` and, with ``--plugin``, the command line.

    Call it in a module that is imported before the name is used. A name may be registered again, to change it.

    Args:
        name: what ``method=`` calls it; none of this package's names.
        recipe: a :class:`Recipe` for a method of SAGE's kind, a :class:`PromptRecipe` for one of FedCoPL's kind.
        like: the method of this package whose settings it reads, and as which ``PromptRecipe()`` trains; None takes
            ``"SAGE"`` or ``"FedCoPL"``.
        version: part of the run key; raise it when the method's numbers change, so that no old run is taken for new.
        preset: settings that it changes in every profile, such as ``lr=0.03``.

    Raises:
        FedCoPLError: a name of this package, something that is no recipe, ``like`` of another kind, or a preset that
            :func:`fedcopl_lab.configure` refuses.

    >>> register("FedAvg, slower", Recipe(uses_pool=False), like="FedAvg", lr=0.03)
    >>> lab.configure("smoke", method="FedAvg, slower").lr
    0.03

    Shown in notebook ``add_a_method``.
    """
    if not isinstance(name, str) or not name.strip() or name in (*METHODS, *SAGE_METHODS):
        raise FedCoPLError(f"a method cannot be registered as {name!r}; expected a name that this package does not use")
    if not isinstance(recipe, Recipe | PromptRecipe):
        raise FedCoPLError(f"recipe={recipe!r} is no recipe; expected a Recipe or a PromptRecipe")
    model = like or ("SAGE" if isinstance(recipe, Recipe) else "FedCoPL")
    known: tuple[str, ...] = SAGE_METHODS if isinstance(recipe, Recipe) else tuple(METHODS)
    pick(dict.fromkeys(known), model, "method to be like")
    before = REGISTERED.get(name)
    REGISTERED[name] = Registered(model, version, preset, _calling_module())
    try:
        configure("smoke", method=name)
    except FedCoPLError:
        REGISTERED.pop(name)
        if before is not None:
            REGISTERED[name] = before
        raise
    if isinstance(recipe, Recipe):
        RECIPES[name] = recipe
    else:
        recipe = PROMPT_RECIPES.get(model, recipe) if recipe == PromptRecipe() else recipe
        PROMPT_RECIPES[name], SCORERS[name] = recipe, recipe.scorer


def _calling_module() -> str:
    """The module that called :func:`register`, past the wrappers of this package and of type checkers."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in ("fedcopl_lab", "beartype", "jaxtyping"):
            return name
        frame = frame.f_back
    return ""
