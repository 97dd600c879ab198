"""Methods: short compositions of steps that say what a client starts from, does, sends and predicts with."""

from fedcopl_lab.methods._labels import LabelPhase, copl, fpl
from fedcopl_lab.methods._open import Method, open_method
from fedcopl_lab.methods._prompting import PromptMethod
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._recipes import RECIPES
from fedcopl_lab.methods._semi import SemiMethod
from fedcopl_lab.methods._semi_setting import SemiSetting
from fedcopl_lab.methods._semi_state import SemiState
from fedcopl_lab.methods._setting import Setting, predict_images
from fedcopl_lab.methods._state import FederationState
from fedcopl_lab.methods._zero_shot import ZeroShot

__all__ = [
    "RECIPES",
    "FederationState",
    "LabelPhase",
    "Method",
    "PromptMethod",
    "Recipe",
    "SemiMethod",
    "SemiSetting",
    "SemiState",
    "Setting",
    "ZeroShot",
    "copl",
    "fpl",
    "open_method",
    "predict_images",
]
