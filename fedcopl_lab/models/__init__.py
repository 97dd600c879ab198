"""Models: frozen CLIPs by name, the prompts around them, and the recipe of the embedded one."""

from typing import TYPE_CHECKING

from fedcopl_lab._lazy import lazy_names

if TYPE_CHECKING:
    from fedcopl_lab.models._card import DigitAccuracy, evaluate_tiny
    from fedcopl_lab.models._recipe import TinyRecipe, TrainedTiny, train_embedded, train_tiny
    from fedcopl_lab.models.clip import CLIPBundle, load_clip
    from fedcopl_lab.models.prompted_clip import PromptedCLIP
    from fedcopl_lab.models.resnet8 import ResNet8, draw_resnet8

__all__ = [
    "CLIPBundle",
    "DigitAccuracy",
    "PromptedCLIP",
    "ResNet8",
    "TinyRecipe",
    "TrainedTiny",
    "draw_resnet8",
    "evaluate_tiny",
    "load_clip",
    "train_embedded",
    "train_tiny",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("DigitAccuracy", "evaluate_tiny"), "._card"),
        **dict.fromkeys(("TinyRecipe", "TrainedTiny", "train_embedded", "train_tiny"), "._recipe"),
        **dict.fromkeys(("CLIPBundle", "load_clip"), ".clip"),
        "PromptedCLIP": ".prompted_clip",
        **dict.fromkeys(("ResNet8", "draw_resnet8"), ".resnet8"),
    },
)
