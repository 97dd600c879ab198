"""From a configuration to the method that runs it."""

from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import METHODS, PromptConfig, RunConfig, SageConfig
from fedcopl_lab.methods._prompt_recipes import PROMPT_RECIPES
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._recipes import RECIPES
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods.prompt_method import PromptMethod, ZeroShot
from fedcopl_lab.methods.sage_method import SemiMethod


def open_method(config: RunConfig, split: dict[str, Any] | None = None) -> PromptMethod | SemiMethod | ZeroShot:
    """Load what a configuration names and give the method that runs it.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        split: a stored split to take instead of drawing one.
    """
    known = (*PROMPT_RECIPES, *RECIPES, *METHODS)
    if config.method not in known:  # read from the store, or sent to a process that did not import it
        raise FedCoPLError(
            f"method={config.method!r} is not registered in this process; import the module that calls "
            "lab.methods.register (--plugin MODULE on the command line), or pass jobs=1 to lab.sweep in a notebook"
        )
    if isinstance(config, PromptConfig):
        setting = PromptSetting.of(config, split)
        return ZeroShot(setting) if config.method == "zero-shot" else PromptMethod(setting)
    if isinstance(config, SageConfig):
        return SemiMethod(SemiSetting.of(config, split))
    raise FedCoPLError(f"no method runs a {type(config).__name__}; build it with lab.configure(...)")
