"""FedDB: debiased labels, balancing weights against a search over all supports, the server's momentum."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_semi import descend, same_models
from torch.nn import functional as F

from fedcopl_lab.methods._feddb import balancing_weights, debiased_scores, searched_weights
from fedcopl_lab.methods._recipe import RoundEnd
from fedcopl_lab.steps import average_models, model_scores

MEAN = "mean prediction"


def distance(weights, means):
    return float((torch.as_tensor(weights) @ means.double() - 1 / means.shape[1]).square().sum())


def best_over_supports(means):
    """For every set of clients the best weights without their signs; the best of those that have none below 0."""
    gaps = means.double().numpy() - 1 / means.shape[1]
    best = np.inf
    for size in range(1, len(gaps) + 1):
        for support in itertools.combinations(range(len(gaps)), size):
            gram = gaps[list(support)] @ gaps[list(support)].T
            system = np.block([[gram, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            solution = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0][:size]
            if (solution > -1e-9).all() and abs(solution.sum() - 1) < 1e-9:
                full = np.zeros(len(gaps))
                full[list(support)] = solution
                best = min(best, distance(full, means))
    return best


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 6), c=st.integers(2, 5), sharp=st.sampled_from([0.5, 2.0, 6.0]))
def test_balancing_weights_are_the_best_on_the_simplex(seed, k, c, sharp):
    means = (sharp * torch.randn(k, c, generator=torch.Generator().manual_seed(seed))).softmax(dim=1)
    weights = balancing_weights(means)
    assert weights.sum().item() == pytest.approx(1)
    assert (weights >= 0).all()
    assert distance(weights, means) == pytest.approx(best_over_supports(means), abs=1e-9)


def test_two_opposite_clients_balance_exactly_and_one_alone_has_all():
    assert balancing_weights(torch.tensor([[0.8, 0.2], [0.4, 0.6]])).tolist() == pytest.approx([0.25, 0.75])
    assert balancing_weights(torch.tensor([[0.9, 0.1]])).tolist() == [1.0]


def test_the_public_search_by_autograd_ends_nearly_uniform():
    means = (2 * torch.randn(8, 10, generator=torch.Generator().manual_seed(1))).softmax(dim=1)
    weights = torch.full((8, 1), 1 / 8, dtype=torch.float64, requires_grad=True)
    for _ in range(100):
        optimiser = torch.optim.SGD([weights], lr=1.0, momentum=0.9, weight_decay=0.9, nesterov=True)
        F.mse_loss((means.double() * weights).sum(dim=0), torch.full((10,), 0.1, dtype=torch.float64)).backward()
        optimiser.step()
        weights = weights.detach().softmax(dim=0).requires_grad_()
    found = searched_weights(means)
    assert found.tolist() == pytest.approx(weights.detach().squeeze(1).tolist(), abs=1e-12)
    assert (found - 1 / 8).abs().max() < 0.01
    assert distance(balancing_weights(means), means) < distance(found, means)


@given(seed=st.integers(0, 10_000))
def test_debiased_predictions_are_quotients_normalised(seed):
    generator = torch.Generator().manual_seed(seed)
    scores, mean = 3 * torch.randn(7, 4, generator=generator), torch.rand(4, generator=generator) + 0.01
    quotient = scores.softmax(dim=1) / mean
    expected = quotient / quotient.sum(dim=1, keepdim=True)
    assert torch.allclose(debiased_scores(scores, mean).softmax(dim=1), expected, atol=1e-5)


def test_a_class_that_is_never_predicted_stays_finite():
    scores = debiased_scores(torch.tensor([[50.0, 0.0]]), torch.tensor([1.0, 0.0]))
    assert torch.isfinite(scores).all()
    assert scores.argmax() == 0


@pytest.mark.parametrize("labels", ["batch", "round"])
def test_a_step_is_the_loop_written_out(start_task, labels):
    task = start_task("FedDB", 4, begun=True, feddb_labels=labels, threshold=0.1)
    setting = task.setting
    start = task.copy_of(task.start)
    mean = model_scores(start, setting.images[task.pool], setting.training).softmax(dim=1).mean(dim=0)
    assert torch.allclose(task.send[MEAN], mean, atol=1e-6)
    batch = next(iter(task.batches()))
    model = task.copy_of(task.start).train()
    x, w, s = model(torch.cat([batch.labelled, batch.weak, batch.strong])).split([8, 16, 16])
    with torch.no_grad():
        given = w if labels == "batch" else start.eval()(batch.weak)
        q = given.softmax(dim=1) / mean
        q = q / q.sum(dim=1, keepdim=True)
    per_image = F.cross_entropy(s, q.argmax(dim=1), reduction="none")
    used = q.amax(dim=1) >= 0.1
    assert used.any()
    loss = F.cross_entropy(x, batch.labels) + (per_image * used).mean()
    descend(model, loss)
    task.step(batch)
    same_models((task.model, model))
    assert torch.allclose(task.send[MEAN], 0.5 * mean + 0.5 * s.detach().softmax(dim=1).mean(dim=0), atol=1e-6)


@pytest.mark.parametrize("weights", ["exact", "authors"])
def test_the_server_approaches_the_balanced_mean_with_momentum(open_tiny, start_task, weights):
    method = open_tiny("FedDB", feddb_weights=weights)
    state = method.initial_state()
    velocity = torch.zeros(())
    for _ in range(3):
        updates = {k: start_task("FedDB", k, state.round, model=state.model).run() for k in (0, 1, 2)}
        merged = method.recipe.merge(RoundEnd(method.setting, state, updates, torch.tensor([1, 1, 1])))
        means = torch.stack([update.sent[MEAN] for update in updates.values()])
        b = balancing_weights(means) if weights == "exact" else searched_weights(means)
        mean = average_models([update.model for update in updates.values()], b)
        velocity = 0.5 * velocity + state.model["head.weight"] - mean["head.weight"]
        assert torch.allclose(merged.model["head.weight"], state.model["head.weight"] - velocity, atol=1e-6)
        assert torch.equal(merged.model["norm.running_var"], mean["norm.running_var"])
        state = merged
    assert method.recipe.message(method.setting, state, [0, 5]) == {0: {}, 5: {}}
