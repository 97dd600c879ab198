"""Methods: short compositions of steps that say what a client starts from, does, sends and predicts with."""

from fedcopl_lab.methods._batches import VIEWS_AT_ONCE, Batch
from fedcopl_lab.methods._label_phase import LabelPhase, phase_counts
from fedcopl_lab.methods._labels import copl, cpl, filter_all, fpl, make_labels, oracle, stream_seed, upl
from fedcopl_lab.methods._method import Method, RoundResult, State
from fedcopl_lab.methods._predicting import ClientModels, predict_images
from fedcopl_lab.methods._prompt_recipes import PROMPT_RECIPES, PromptRecipe
from fedcopl_lab.methods._prompt_setting import IMAGES_PER_FORWARD, PromptSetting
from fedcopl_lab.methods._prompt_state import FederationState
from fedcopl_lab.methods._recipe import Recipe
from fedcopl_lab.methods._recipes import RECIPES
from fedcopl_lab.methods._register import open_method, register
from fedcopl_lab.methods._sage_local_task import LocalTask
from fedcopl_lab.methods._sage_setting import SemiSetting, pool_steps
from fedcopl_lab.methods._sage_state import SemiState, copied
from fedcopl_lab.methods._sage_together import Descend, Pass, Team
from fedcopl_lab.methods._stored_features import StoredFeatures, count_right, label_quality, read_features, saturation
from fedcopl_lab.methods.prompt_client import PromptClient
from fedcopl_lab.methods.prompt_method import PromptMethod, ZeroShot
from fedcopl_lab.methods.prompt_server import PromptServer
from fedcopl_lab.methods.protocol import Answer, ClientHalf, Exchange, Letter
from fedcopl_lab.methods.sage_client import SageClient, exact_convolutions
from fedcopl_lab.methods.sage_method import SemiMethod
from fedcopl_lab.methods.sage_server import SageServer

__all__ = ["IMAGES_PER_FORWARD", "PROMPT_RECIPES", "RECIPES", "VIEWS_AT_ONCE", "Answer", "Batch", "ClientHalf",
           "ClientModels", "Descend", "Exchange", "FederationState", "LabelPhase", "Letter", "LocalTask", "Method",
           "Pass", "PromptClient", "PromptMethod", "PromptRecipe", "PromptServer", "PromptSetting", "Recipe",
           "RoundResult", "SageClient", "SageServer", "SemiMethod", "SemiSetting", "SemiState", "State",
           "StoredFeatures", "Team", "ZeroShot", "copied", "copl", "count_right", "cpl", "exact_convolutions",
           "filter_all", "fpl", "label_quality", "make_labels", "open_method", "oracle", "phase_counts", "pool_steps",
           "predict_images", "read_features", "register", "saturation", "stream_seed", "upl"]  # fmt: skip
