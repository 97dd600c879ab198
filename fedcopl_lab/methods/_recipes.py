"""The semi-supervised methods by name, each as its hooks."""

from torch import Tensor

from fedcopl_lab._errors import pick
from fedcopl_lab.methods._feddb import FEDDB
from fedcopl_lab.methods._feddure import FEDDURE
from fedcopl_lab.methods._fedlabel import FEDLABEL
from fedcopl_lab.methods._fedloke import FEDLOKE
from fedcopl_lab.methods._fedmatch import FEDMATCH
from fedcopl_lab.methods._flexmatch import FLEXMATCH
from fedcopl_lab.methods._recipe import Recipe, global_labels, global_of, local_labels
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.steps import CorrectedLabels, correct_pseudo_labels, proximal_term


def corrected_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """SAGE: labels of both models, the local ones corrected (Eqs. 1-6)."""
    config = task.config
    return correct_pseudo_labels(
        scores.local,
        global_of(scores),
        config.threshold,
        config.kappa,
        fixed_weight=config.fixed_weight,
        use_cpg=config.use_cpg,
        use_cdsc=config.use_cdsc,
        soft=config.target == "soft",
        look=False,
    )


def pull_to_start(task: LocalTask) -> Tensor:
    """FedProx: (mu/2) times the squared distance to the round's start."""
    return task.config.fedprox.mu * proximal_term(task.trained().values(), task.global_model.parameters())


RECIPES: dict[str, Recipe] = {
    "FedAvg": Recipe(uses_pool=False),
    "FedProx": Recipe(uses_pool=False, regulariser=pull_to_start),
    "FedAvg-SL": Recipe(uses_pool=False, labels="all"),
    "FixMatch-LPL": Recipe(label=local_labels),
    "FixMatch-GPL": Recipe(label=global_labels, uses_global=True),
    "FedProx+FixMatch": Recipe(label=local_labels, regulariser=pull_to_start),
    "FedAvg+FlexMatch": FLEXMATCH,
    "FedMatch": FEDMATCH,
    "FedLabel": FEDLABEL,
    "FedLoKe": FEDLOKE,
    "FedDure": FEDDURE,
    "FedDB": FEDDB,
    "SAGE": Recipe(label=corrected_labels, uses_global=True),
}
"""Every method that can be run."""


def recipe_of(method: str) -> Recipe:
    """The hooks of a method."""
    return pick(RECIPES, method, "method")
