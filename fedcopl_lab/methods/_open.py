"""From a configuration to the method that runs it."""

from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods.prompt_method import PromptMethod, ZeroShot
from fedcopl_lab.methods.sage_method import SemiMethod


def open_method(config: RunConfig, split: dict[str, Any] | None = None) -> PromptMethod | SemiMethod | ZeroShot:
    """Load what a configuration names and give the method that runs it.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        split: a stored split to take instead of drawing one.
    """
    if isinstance(config, PromptConfig):
        setting = PromptSetting.of(config, split)
        return ZeroShot(setting) if config.method == "zero-shot" else PromptMethod(setting)
    if isinstance(config, SageConfig):
        return SemiMethod(SemiSetting.of(config, split))
    raise FedCoPLError(f"no method runs a {type(config).__name__}; build it with lab.configure(...)")
