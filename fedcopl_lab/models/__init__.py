"""Models: frozen CLIPs by name, the prompts around them, and the recipes of those in the package."""

from typing import TYPE_CHECKING

from fedcopl_lab._lazy import lazy_names

if TYPE_CHECKING:
    from fedcopl_lab.models._card import DigitAccuracy, evaluate_tiny
    from fedcopl_lab.models._mini import TrainedMini, train_mini
    from fedcopl_lab.models._mini_card import PhotoAccuracy, evaluate_photos
    from fedcopl_lab.models._mini_recipe import MiniRecipe
    from fedcopl_lab.models._recipe import TinyRecipe, TrainedTiny, train_tiny
    from fedcopl_lab.models._train import train_embedded
    from fedcopl_lab.models.clip import CLIPBundle, load_clip
    from fedcopl_lab.models.prompted_clip import PromptedCLIP
    from fedcopl_lab.models.resnet8 import ResNet8, draw_resnet8

__all__ = [
    "CLIPBundle",
    "DigitAccuracy",
    "MiniRecipe",
    "PhotoAccuracy",
    "PromptedCLIP",
    "ResNet8",
    "TinyRecipe",
    "TrainedMini",
    "TrainedTiny",
    "draw_resnet8",
    "evaluate_photos",
    "evaluate_tiny",
    "load_clip",
    "train_embedded",
    "train_mini",
    "train_tiny",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("DigitAccuracy", "evaluate_tiny"), "._card"),
        **dict.fromkeys(("TrainedMini", "train_mini"), "._mini"),
        **dict.fromkeys(("PhotoAccuracy", "evaluate_photos"), "._mini_card"),
        "MiniRecipe": "._mini_recipe",
        **dict.fromkeys(("TinyRecipe", "TrainedTiny", "train_tiny"), "._recipe"),
        "train_embedded": "._train",
        **dict.fromkeys(("CLIPBundle", "load_clip"), ".clip"),
        "PromptedCLIP": ".prompted_clip",
        **dict.fromkeys(("ResNet8", "draw_resnet8"), ".resnet8"),
    },
)
