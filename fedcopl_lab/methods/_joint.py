"""What steps over labelled and unlabelled images share: the pool's views, one forward pass over all of a step's."""

import torch
from torch import Tensor, nn

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._local_task import LocalTask


def pool_views(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Weak views, strong views and places in the pool of a step's unlabelled images.

    Raises:
        FedCoPLError: the recipe uses no pool.
    """
    if batch.weak is None or batch.strong is None or batch.places is None:
        raise FedCoPLError("this step needs unlabelled images and got none; set uses_pool=True in its Recipe")
    return batch.weak, batch.strong, batch.places


def joint_scores(task: LocalTask, model: nn.Module, *views: Tensor) -> tuple[Tensor, ...]:
    """Scores of several groups of views in one forward pass, which share batch statistics; one [n_i, C] each."""
    return task.scores(model, torch.cat(views)).split([len(group) for group in views])
