"""The test accuracies of clients and their three means."""

import math

import jaxtyping
import numpy as np
import pytest
import torch

from fedcopl_lab import FedCoPLError, Shard, evaluate

LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
SHARDS = [
    Shard(train=np.array([0]), test=np.array([7, 1, 2])),
    Shard(train=np.array([0]), test=np.array([], dtype=int)),
    Shard(train=np.array([0]), test=np.array([4])),
]
PREDICTED = torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1], [2] * 8, [0, 0, 2, 0, 1, 0, 0, 0]])  # [client, image]


def predictor(client, indices):
    return PREDICTED[client, indices]


def slow_accuracy(client, images):
    right = [int(PREDICTED[client, i]) == int(LABELS[i]) for i in images]
    return sum(right) / len(right)


@pytest.mark.parametrize("everywhere", [True, False])
def test_means_of_the_clients(everywhere):
    before = [shard.test.copy() for shard in SHARDS]
    result = evaluate(predictor, SHARDS, LABELS, everywhere)
    assert all(np.array_equal(shard.test, old) for shard, old in zip(SHARDS, before, strict=True))
    assert result.per_client[0] == pytest.approx(slow_accuracy(0, [7, 1, 2])) == pytest.approx(2 / 3)
    assert math.isnan(result.per_client[1])
    assert result.per_client[2] == 1
    assert result.n_test == (3, 0, 1)
    assert result.skipped == (1,)
    assert result.client_mean == pytest.approx(5 / 6)  # (2/3 + 1) / 2
    assert result.sample_mean == pytest.approx(3 / 4)  # 3 of 4 images
    assert repr(result) == "Evaluation(client mean 83.3%, sample mean 75.0%)"


def test_global_is_every_model_on_every_test_image():
    expected = np.mean([slow_accuracy(k, [7, 1, 2, 4]) for k in range(3)])
    assert evaluate(predictor, SHARDS, LABELS).global_ == pytest.approx(expected)
    assert evaluate(predictor, SHARDS, LABELS, everywhere=False).global_ is None


def test_only_the_images_asked_for_are_predicted():
    asked = []

    def watching(client, indices):
        asked.append((client, indices.tolist()))
        return predictor(client, indices)

    evaluate(watching, SHARDS[::2], LABELS, everywhere=False)
    assert asked == [(0, [7, 1, 2]), (1, [4])]


@pytest.mark.parametrize("outside", [8, -1])
def test_refuses_an_image_without_a_label(outside):
    shards = [Shard(train=np.array([0]), test=np.array([3, outside]))]
    with pytest.raises(FedCoPLError, match=r"test images go from .* but there are labels of 8: give the labels"):
        evaluate(predictor, shards, LABELS)


def test_refuses_a_federation_without_test_images(refused):
    with refused("none of the 2 clients", "expected at least one"):
        evaluate(predictor, [SHARDS[1], SHARDS[1]], LABELS)


def test_an_answer_that_would_be_broadcast_is_refused(refused, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for everywhere in (False, True):
        with refused("answers (", "1) to ", "images of client 0; expected one class for each"):
            evaluate(lambda *asked: predictor(*asked)[:, None], SHARDS, LABELS, everywhere)


def test_each_test_image_is_told_and_gives_the_accuracy() -> None:
    shards = [Shard(train=np.array([], dtype=int), test=np.array(test, dtype=int)) for test in ([0, 3], [1, 2, 4], [])]
    labels = torch.tensor([0, 1, 0, 1, 0])
    result = evaluate(lambda client, indices: indices * 0 + client, shards, labels)
    assert result.right == ("10", "100", "")
    assert result.per_client[:2] == pytest.approx((0.5, 1 / 3))
