"""Models: frozen CLIPs by name, the prompts around them, and SAGE's ResNet-8."""

from typing import TYPE_CHECKING

from fedcopl_lab._lazy import lazy_names

if TYPE_CHECKING:
    from fedcopl_lab.models.clip import CLIPBundle, load_clip
    from fedcopl_lab.models.prompted_clip import PromptedCLIP
    from fedcopl_lab.models.resnet8 import (
        ResNet8,
        StackedResNet8,
        blank_copy,
        draw_resnet8,
        load_values,
        placed,
        single_values,
        stacked_values,
        start_resnet8,
    )

__all__ = ["CLIPBundle", "PromptedCLIP", "ResNet8", "StackedResNet8", "blank_copy", "draw_resnet8", "load_clip",
           "load_values", "placed", "single_values", "stacked_values", "start_resnet8"]  # fmt: skip

_NAMES = {
    ".clip": "CLIPBundle load_clip",
    ".prompted_clip": "PromptedCLIP",
    ".resnet8": "ResNet8 StackedResNet8 blank_copy draw_resnet8 load_values placed single_values stacked_values "
    "start_resnet8",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
