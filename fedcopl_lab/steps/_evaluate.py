"""Step 7: how good each client's model is, on its own test images and on all clients' test images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import folded, table
from fedcopl_lab.data import Shard

Predictor = Callable[[int, Int[Tensor, "n"]], Int[Tensor, "n"]]
"""(client, image indices) -> predicted classes."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Test accuracies of all clients, in [0, 1].

    Attributes:
        per_client: accuracy of each client's model on its own test shard, NaN for an empty shard.
        n_test: test images of each client.
        global_: mean over clients of the accuracy of each client's model on all test images; None when only
            the shards were asked for.
        right: each client's own test images in the order of its shard, a digit each: 1 where its model is right.
    """

    per_client: tuple[float, ...]
    n_test: tuple[int, ...]
    global_: float | None
    right: tuple[str, ...] = ()

    @property
    def client_mean(self) -> float:
        """Unweighted mean over the clients that have test images: the paper's number."""
        return float(np.nanmean(self.per_client))

    @property
    def sample_mean(self) -> float:
        """Mean over clients weighted by their test images."""
        return float(np.nansum(np.multiply(self.per_client, self.n_test)) / sum(self.n_test))

    @property
    def skipped(self) -> tuple[int, ...]:
        """Clients without test images; they are left out of the means."""
        return tuple(k for k, n in enumerate(self.n_test) if not n)

    def __repr__(self) -> str:
        return f"Evaluation(client mean {self.client_mean:.1%}, sample mean {self.sample_mean:.1%})"

    def _repr_html_(self) -> str:
        rows = [["client mean", f"{self.client_mean:.1%}"], ["sample mean", f"{self.sample_mean:.1%}"]]
        rows += [] if self.global_ is None else [["on all test images", f"{self.global_:.1%}"]]
        accuracies = [f"{a:.1%}" if n else "no test images" for a, n in zip(self.per_client, self.n_test, strict=True)]
        clients = [[k, n, accuracy] for k, (n, accuracy) in enumerate(zip(self.n_test, accuracies, strict=True))]
        per_client = table(clients, ["client", "test images", "accuracy"])
        return table(rows, caption="Evaluation") + folded(f"{len(clients)} clients", per_client)


def evaluate(
    predictor: Predictor, shards: Sequence[Shard], labels: Int[Tensor, "n_all"], everywhere: bool = True
) -> Evaluation:
    """Test every client's model on its own shard and, if wanted, on all test images (Sec. 4.1).

    Args:
        predictor: gives a client's predictions for image indices of the data set.
        shards: one per client; only ``test`` is read.
        labels: true labels of the whole data set, indexed by the shards' indices, [n_all].
        everywhere: also measure each client's model on the union of all test shards.

    Raises:
        FedCoPLError: no client has a test image, one has an image that has no label, or the predictor does not answer
            with one class for each.

    >>> shards = [lab.Shard(train=np.array([0]), test=np.array([1, 2]))]
    >>> lab.evaluate(lambda client, indices: indices * 0, shards, torch.tensor([0, 0, 1])).client_mean
    0.5

    Shown in notebook ``00_quickstart``.
    """
    n_test = tuple(len(shard.test) for shard in shards)
    if not sum(n_test):
        raise FedCoPLError(f"none of the {len(shards)} clients has a test image; expected at least one")
    tests = [torch.as_tensor(np.array(shard.test), dtype=torch.long) for shard in shards]
    union = torch.cat(tests)
    if not 0 <= int(union.min()) <= int(union.max()) < len(labels):
        raise FedCoPLError(
            f"test images go from {int(union.min())} to {int(union.max())}, but there are labels of {len(labels)}: "
            "give the labels of the whole data set that the shards are of"
        )
    per_client, everywhere_accuracy, rights = [], [], []
    for k, own in enumerate(tests):
        if everywhere:
            right = _right(predictor, k, union, labels)
            everywhere_accuracy.append(float(right.double().mean()))
            start = sum(n_test[:k])
            right = right[start : start + n_test[k]]
        else:
            right = _right(predictor, k, own, labels)
        rights.append("".join(map(str, right.int().tolist())))
        per_client.append(float(right.double().mean()) if n_test[k] else float("nan"))
    global_ = float(np.mean(everywhere_accuracy)) if everywhere else None
    return Evaluation(per_client=tuple(per_client), n_test=n_test, global_=global_, right=tuple(rights))


def _right(predictor: Predictor, client: int, indices: Tensor, labels: Tensor) -> Tensor:
    answer = torch.as_tensor(predictor(client, indices))
    if answer.shape != indices.shape:
        raise FedCoPLError(f"the predictor answers {tuple(answer.shape)} to {len(indices)} images of client {client}; "
                           f"expected one class for each, [{len(indices)}]")  # fmt: skip
    return answer == labels[indices]
