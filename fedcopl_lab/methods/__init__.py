"""Methods: short compositions of steps that say what a client starts from, does, sends and predicts with."""

from fedcopl_lab.methods._labels import LabelPhase, copl, fpl
from fedcopl_lab.methods._open import Method, open_method
from fedcopl_lab.methods._prompting import PromptMethod
from fedcopl_lab.methods._setting import Setting, predict_images
from fedcopl_lab.methods._state import FederationState
from fedcopl_lab.methods._zero_shot import ZeroShot

__all__ = [
    "FederationState",
    "LabelPhase",
    "Method",
    "PromptMethod",
    "Setting",
    "ZeroShot",
    "copl",
    "fpl",
    "open_method",
    "predict_images",
]
