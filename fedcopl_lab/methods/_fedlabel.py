"""FedLabel: of two models the surer one labels an image, and a copy trained on these labels is merged separately.

From the paper (ICCV 2023): a copy trained on labels, a copy trained on pseudo-labels, the choice between the
global model's label and the supervised copy's, agreement where both give one label. From public code (the
strategy "FedLabels" of FLUTE): the larger variance of the probabilities decides (or the smaller entropy), labels
of confidence above 0.3 count, no pseudo-labels in the first 50 rounds, a pull of 10 to the round's start,
KL(supervised || unsupervised) on weak views times the ratio of the two variances, both copies travel, and the new
model is half the mean of either, the second weighted by numbers of pseudo-labels. Our port: both copies take a
step per batch of the common schedule (public code: 30 steps, then 10), with the common optimiser; the burn-in is a
share of the run's rounds, 50 in profile ``paper``, and its new model is the supervised mean (public code: half of
it, half the old model); a client without pseudo-labels has weight 0 in the second mean; the cross-entropy is a mean
over the whole unlabelled batch, agreement one over all agreed images (public code: over those with a label).
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._recipe import Recipe, RoundEnd
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.methods._sage_state import SemiState, copied
from fedcopl_lab.methods._sage_together import Descend, Pass, Step
from fedcopl_lab.methods.protocol import named
from fedcopl_lab.steps import CorrectedLabels, average_models, consistency_loss, entropy

_COPY = "unsupervised"
_PREFIX = "unsupervised/"
_COUNT = "pseudo-labels"


@dataclass(frozen=True, repr=False)
class SurerLabels:
    """Labels of the surer of two models."""

    labels: CorrectedLabels  # one-hot; used where the surer model is confident enough; weight 1 where it is the second
    agree: Bool[Tensor, "n"]  # whether both models give one label
    ratio: Float[Tensor, "n"]  # smaller variance of the probabilities over the larger, in [0, 1]

    def __repr__(self) -> str:
        return f"SurerLabels({int(self.labels.used.sum())} of {len(self.agree)} images labelled)"


def surer_labels(
    first: Float[Tensor, "n c"],
    second: Float[Tensor, "n c"],
    threshold: float = 0.3,
    choice: Literal["variance", "entropy"] = "variance",
) -> SurerLabels:
    """The label of the model that is surer of an image, the first of equals (FedLabel Sec. 3).

    The surer one has the larger ``"variance"`` of its probabilities, or the smaller ``"entropy"``; a label counts above
    the threshold.

    >>> surer_labels(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 9.0]])).labels.target.tolist()
    [[0.0, 1.0]]
    """
    p, q = first.detach().softmax(dim=1), second.detach().softmax(dim=1)
    spread_p, spread_q = p.var(dim=1), q.var(dim=1)
    second_wins = spread_q > spread_p if choice == "variance" else entropy(second) < entropy(first)
    chosen = torch.where(second_wins[:, None], q, p)
    target = F.one_hot(chosen.argmax(dim=1), chosen.shape[1]).to(chosen.dtype)
    smaller, larger = torch.minimum(spread_p, spread_q), torch.maximum(spread_p, spread_q)
    return SurerLabels(
        CorrectedLabels(target=target, weight=second_wins.to(p.dtype), used=chosen.amax(dim=1) > threshold),
        agree=p.argmax(dim=1) == q.argmax(dim=1),
        ratio=torch.where(larger > 0, smaller / larger, torch.ones_like(larger)),
    )


def agreement_loss(
    teacher: Float[Tensor, "n c"], student: Float[Tensor, "n c"], agree: Bool[Tensor, "n"], ratio: Float[Tensor, "n"]
) -> Float[Tensor, ""]:
    """Mean over agreed images of ratio * KL(teacher || student); 0 without any."""
    log_p, log_q = teacher.detach().log_softmax(dim=1), student.log_softmax(dim=1)
    divergence = (log_p.exp() * (log_p - log_q)).sum(dim=1)
    return (ratio * divergence * agree).sum() / agree.sum().clamp(min=1)


def copy_after_burn_in(task: LocalTask) -> None:
    """The copy that learns pseudo-labels, once the burn-in is over."""
    if task.round >= task.config.burn_in_rounds:
        task.add_model(_COPY, task.copy_of(task.start).train())
        task.send[_COUNT] = torch.zeros((), dtype=torch.long, device=task.pool.device)


def two_copies_step(task: LocalTask, batch: Batch) -> Step:
    """The supervised copy descends on labels, the other one on the surer model's pseudo-labels."""
    (labelled,) = yield Pass((batch.labelled,))
    supervised = F.cross_entropy(labelled, batch.labels)
    yield Descend(supervised)
    losses = {"supervised": supervised}
    if _COPY in task.models:
        losses |= yield from _unsupervised_step(task, batch)
    return losses


def _unsupervised_step(task: LocalTask, batch: Batch) -> Step:
    config = task.config
    views, strong_views, places = batch.pool_views
    of_global = task.global_scores_of(batch)
    (of_copy,) = yield Pass((views,), exact=True)
    assert of_global is not None
    surer = surer_labels(of_global, of_copy, config.fedlabel.threshold, config.fedlabel.choice)
    task.note(WeakScores(of_copy, of_global, places), surer.labels)
    task.send[_COUNT] += surer.labels.used.sum()
    weak, strong = yield Pass((views, strong_views), _COPY)
    pairs = zip(task.trained(_COPY).values(), task.global_model.parameters(), strict=True)
    drifts = [F.mse_loss(now, before) for now, before in pairs]
    losses = {
        "unsupervised": consistency_loss(strong, surer.labels.target, surer.labels.used, config.kl),
        "agreement": agreement_loss(of_copy, weak, surer.agree, surer.ratio),
        "pull": torch.stack(drifts).sum(),
    }
    total = (
        config.fedlabel.lambda_u * losses["unsupervised"]
        + config.fedlabel.lambda_c * losses["agreement"]
        + config.fedlabel.pull * losses["pull"]
    )
    yield Descend(total, _COPY)
    return losses


def send_copy(task: LocalTask) -> None:
    """Both copies travel, and the number of pseudo-labels with them."""
    if _COPY in task.models:
        task.send |= named(_PREFIX, copied(task.models[_COPY].state_dict()))


def merge_both_copies(end: RoundEnd) -> SemiState:
    """Half the mean of the supervised copies, half that of the others, weighted by their pseudo-labels."""
    supervised = average_models([update.model for update in end.updates.values()], end.weights)
    sent = [update.sent for update in end.updates.values()]
    counts = torch.stack([tensors[_COUNT].cpu() for tensors in sent]) if _COUNT in sent[0] else torch.zeros(1)
    if not counts.any():
        return replace(end.before, model=supervised)
    copies = [{name: tensors[f"{_PREFIX}{name}"] for name in supervised} for tensors in sent]
    unsupervised = average_models(copies, counts)
    return replace(end.before, model=average_models([supervised, unsupervised], torch.ones(2)))


FEDLABEL = Recipe(
    uses_global=True, begin=copy_after_burn_in, step=two_copies_step, end=send_copy, merge=merge_both_copies
)
"""Selective labels of the local or the global model."""
