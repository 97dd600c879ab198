"""Pure functions, one per step of the papers: tensors and a generator in, a frozen result out."""

from fedcopl_lab.steps._aggregate import aggregate
from fedcopl_lab.steps._allocate import Allocation, allocate
from fedcopl_lab.steps._consistency import consistency_loss, proximal_term
from fedcopl_lab.steps._correct import CorrectedLabels, confident_labels, correct_pseudo_labels
from fedcopl_lab.steps._drift import cosine_distance, drift_diversity
from fedcopl_lab.steps._evaluate import Evaluation, evaluate
from fedcopl_lab.steps._filter import FilteredSet, filter_confident
from fedcopl_lab.steps._models import average_models, model_scores, recalibrate
from fedcopl_lab.steps._select import PseudoLabels, select_top
from fedcopl_lab.steps._train import LocalUpdate, PromptState, learning_rate, train_round
from fedcopl_lab.steps._zero_shot import Predictions, template_features, zero_shot

__all__ = [
    "Allocation",
    "CorrectedLabels",
    "Evaluation",
    "FilteredSet",
    "LocalUpdate",
    "Predictions",
    "PromptState",
    "PseudoLabels",
    "aggregate",
    "allocate",
    "average_models",
    "confident_labels",
    "consistency_loss",
    "correct_pseudo_labels",
    "cosine_distance",
    "drift_diversity",
    "evaluate",
    "filter_confident",
    "learning_rate",
    "model_scores",
    "proximal_term",
    "recalibrate",
    "select_top",
    "template_features",
    "train_round",
    "zero_shot",
]
