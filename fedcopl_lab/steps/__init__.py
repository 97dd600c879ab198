"""Pure functions, one per step of the papers: tensors and a generator in, a frozen result out."""

from fedcopl_lab.steps._aggregate import aggregate, average_models, cosine_distance, drift_diversity
from fedcopl_lab.steps._allocate import Allocation, allocate, perturb_counts
from fedcopl_lab.steps._confidence import check_logits, class_counts, class_log_odds, entropy, log_odds
from fedcopl_lab.steps._correct_labels import CorrectedLabels, confident_labels, correct_pseudo_labels
from fedcopl_lab.steps._evaluate import Evaluation, evaluate
from fedcopl_lab.steps._filter import FilteredSet, filter_confident
from fedcopl_lab.steps._local_training import LocalUpdate, PromptState, learning_rate
from fedcopl_lab.steps._losses import consistency_loss, label_loss, proximal_term
from fedcopl_lab.steps._model_scores import IMAGES_PER_FORWARD, batch_scores, in_mode, model_scores, recalibrate
from fedcopl_lab.steps._newer_scorers import (
    CovarianceScorer,
    GeneratedScorer,
    HeadScorer,
    LowRankScorer,
    MeansScorer,
    covariance_classifier,
)
from fedcopl_lab.steps._optimal_transport import transport_logits, transport_plan
from fedcopl_lab.steps._scorer import SCORERS, ImageCache, ImageRows, Scorer, scorer_of
from fedcopl_lab.steps._select import PseudoLabels, candidate_sets, fill_pools, select_top
from fedcopl_lab.steps._train import train_round
from fedcopl_lab.steps._zero_shot import Predictions, template_features, zero_shot

SCORERS |= {
    "FedPGP": LowRankScorer,
    "FedTPG": GeneratedScorer,
    "LinearHead": HeadScorer,
    "ClassMeans": MeansScorer,
    "FedCOF": CovarianceScorer,
}

__all__ = ["IMAGES_PER_FORWARD", "SCORERS", "Allocation", "CorrectedLabels", "CovarianceScorer", "Evaluation",
           "FilteredSet", "GeneratedScorer", "HeadScorer", "ImageCache", "ImageRows", "LocalUpdate", "LowRankScorer",
           "MeansScorer", "Predictions", "PromptState", "PseudoLabels", "Scorer", "aggregate", "allocate",
           "average_models", "batch_scores", "candidate_sets", "check_logits", "class_counts", "class_log_odds",
           "confident_labels", "consistency_loss", "correct_pseudo_labels", "cosine_distance", "covariance_classifier",
           "drift_diversity", "entropy", "evaluate", "fill_pools", "filter_confident", "in_mode", "label_loss",
           "learning_rate", "log_odds", "model_scores", "perturb_counts", "proximal_term", "recalibrate", "scorer_of",
           "select_top", "template_features", "train_round", "transport_logits", "transport_plan",
           "zero_shot"]  # fmt: skip
