"""FedDB: divide predictions by what the model predicts on average, and merge clients so that this becomes uniform.

From the paper (IJCAI 2024): a(y), the mean prediction over a client's pool; labels q(y|u) proportional to
p(y|u) / a(y); weights b on the simplex for which sum b_m a_m comes nearest to the uniform distribution. From
public code: a moving average of a with weight 0.5 in each step, confidence 0.95, server momentum 0.5, and a search
for b of 100 steps, each of which applies weight decay 0.9 and a softmax, so that it ends near the uniform weights.
There the round's start labels the whole pool once, by its own a; images without a confident label are dropped, so
that the loss is a mean over the others, and the moving a, which follows their weak views, goes to the server alone.
Our port: a follows the strong views of each whole batch, and each step's labels divide by it as it is then, so that
from the second step on they depend on the model in training, also with ``feddb.labels="round"``, where p(y|u) is the
round's start's (``"batch"``: that model's own). Images without a label count as 0 in the mean over a batch. Every
profile sets ``"round"`` and ``feddb.weights="authors"``, which is that search (``"exact"`` solves for b). Running
statistics of batch normalisation are averaged; the common optimiser has no clipping and no cosine schedule.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import nnls
from torch import Tensor

from fedcopl_lab.methods._recipe import Recipe, RoundEnd, global_of, joint_step
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState
from fedcopl_lab.methods.protocol import Tensors, named
from fedcopl_lab.steps import CorrectedLabels, average_models, confident_labels, model_scores

_MEAN = "mean prediction"
_VELOCITY = "velocity/"
_KEPT = 0.5  # of the mean prediction, in each step
_SMALLEST = 1e-6  # a class that is never predicted must not get all labels
_SEARCH_STEPS, _SEARCH_DECAY, _NESTEROV = 100, 0.9, 1.9  # a first Nesterov step of momentum 0.9 counts 1.9 times


def debiased_scores(scores: Float[Tensor, "n c"], mean: Float[Tensor, "c"]) -> Float[Tensor, "n c"]:
    """Scores of weak views whose softmax is proportional to p(y|u) / a(y), a at least 1e-6 (FedDB Sec. 4.1).

    >>> debiased_scores(torch.zeros(1, 2), torch.tensor([0.8, 0.2])).softmax(dim=1)
    tensor([[0.2000, 0.8000]])
    """
    return scores.detach() - mean.clamp(min=_SMALLEST).log()


def balancing_weights(means: Float[Tensor, "k c"]) -> Float[Tensor, "k"]:
    """Weights b >= 0 of sum 1 that minimise the squared distance of sum b_k a_k to the uniform distribution, float64.

    The nearest point to 0 of the hull of the a_k - 1/C is, up to its length, the non-negative solution of least
    squares with a further row of ones towards 1 (FedDB Sec. 4.2).

    >>> balancing_weights(torch.tensor([[0.8, 0.2], [0.4, 0.6]])).round(decimals=4).tolist()
    [0.25, 0.75]
    """
    gaps = means.double().cpu() - 1 / means.shape[1]
    rows = torch.cat([gaps.T, torch.ones(1, len(means), dtype=torch.float64)]).numpy()
    target = np.zeros(len(rows))
    target[-1] = 1
    solution = torch.from_numpy(nnls(rows, target)[0])
    return solution / solution.sum()


def searched_weights(means: Float[Tensor, "k c"]) -> Float[Tensor, "k"]:
    """Weights as the public code searches them: 100 decaying steps, each projected by a softmax."""
    means = means.double().cpu()
    k, c = means.shape
    weights = torch.full((k,), 1 / k, dtype=torch.float64)
    for _ in range(_SEARCH_STEPS):
        slope = 2 / c * means @ (weights @ means - 1 / c)
        weights = (weights - _NESTEROV * (slope + _SEARCH_DECAY * weights)).softmax(dim=0)
    return weights


def measure_bias(task: LocalTask) -> None:
    """The round's start predicts the whole pool once."""
    setting = task.setting
    scores = model_scores(task.global_model, setting.images[task.pool], setting.training)
    task.send[_MEAN] = scores.float().softmax(dim=1).mean(dim=0)


def debiased_labels(task: LocalTask, scores: WeakScores) -> CorrectedLabels:
    """Labels after division by the mean prediction, which earlier steps have moved."""
    given = scores.local if task.config.feddb.labels == "batch" else global_of(scores)
    adjusted = debiased_scores(given, task.send[_MEAN])
    return confident_labels(adjusted, task.config.threshold, soft=task.config.target == "soft", look=False)


def follow_predictions(task: LocalTask, strong: Tensor) -> None:
    """The mean prediction follows that for the strong views of each step."""
    task.send[_MEAN] = _KEPT * task.send[_MEAN] + (1 - _KEPT) * strong.softmax(dim=1).mean(dim=0)


def send_nothing(setting: SemiSetting, state: SemiState, participants: Sequence[int]) -> dict[int, Tensors]:
    """Clients get the model alone; the velocity stays on the server."""
    return {client: {} for client in participants}


def merge_balanced(end: RoundEnd) -> SemiState:
    """The balanced mean of the clients' models, approached with momentum."""
    config = end.setting.config
    means = torch.stack([update.sent[_MEAN] for update in end.updates.values()])
    weights = balancing_weights(means) if config.feddb.weights == "exact" else searched_weights(means)
    mean = average_models([update.model for update in end.updates.values()], weights)
    learned = [name for name, _ in end.setting.new_model().named_parameters()]
    velocity: Tensors = {}
    for name in learned:
        step = end.before.model[name] - mean[name]
        before = end.before.extras.get(f"{_VELOCITY}{name}")
        velocity[name] = step if before is None else config.feddb.momentum * before + step
    moved = {name: end.before.model[name] - velocity[name] for name in learned}
    return replace(end.before, model=mean | moved, extras=named(_VELOCITY, velocity))


FEDDB = Recipe(
    uses_global=True,
    begin=measure_bias,
    label=debiased_labels,
    step=partial(joint_step, follow=follow_predictions),
    message=send_nothing,
    merge=merge_balanced,
)
"""Debiased labels and a debiased mean."""
