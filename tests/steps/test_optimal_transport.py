"""The transport against its optimality conditions, a log-domain Sinkhorn and linear programming."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fedcopl_lab.steps import transport_logits, transport_plan

EXACT = {"threshold": 0.0, "iterations": 1500}


def similarities(seed=0, *shape):
    return 2 * torch.rand(*shape or (4, 6, 2), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 3), st.floats(0.1, 0.9), st.floats(0.1, 1.0))
@settings(max_examples=15)
def test_columns_are_met_and_rows_are_not_exceeded(seed, m, n, mass, epsilon):
    plan = transport_plan(similarities(seed, 2, m, n), mass, epsilon, threshold=1e-9, iterations=2000)
    assert plan.shape == (2, m, n)
    assert plan.min() >= 0
    assert (plan.sum(dim=-2) - mass / n).abs().max() <= 1e-12
    assert plan.sum(dim=-1).max() <= 1 / m + 1e-6


def test_the_plan_is_optimal():
    """T = diag(u) K diag(v) with u <= 1, and u < 1 only where a row is full: the conditions of the optimum."""
    similarity, epsilon = similarities(1), 0.1
    plan = transport_plan(similarity, 0.8, epsilon, **EXACT)
    scaled = plan / (similarity / epsilon).exp()
    u = scaled[..., :1] / scaled[..., :1].amax(dim=1, keepdim=True)
    v = scaled[:, :1] / u[:, :1]
    assert (u * v - scaled).abs().max() / scaled.max() <= 1e-9, "rank one"
    full = (plan.sum(dim=-1) - 1 / 6).abs() <= 1e-9
    assert (u[..., 0][~full] - 1).abs().max() <= 1e-9
    assert full.any()
    assert not full.all()


def test_all_mass_is_sinkhorn_in_the_log_domain():
    similarity, epsilon = similarities(2), 0.1
    f, g = torch.zeros(4, 6, 1).double(), torch.zeros(4, 1, 2).double()
    for _ in range(3000):
        f = -epsilon * (((similarity + g) / epsilon).logsumexp(dim=2, keepdim=True) + np.log(6))
        g = -epsilon * (((similarity + f) / epsilon).logsumexp(dim=1, keepdim=True) + np.log(2))
    expected = ((similarity + f + g) / epsilon).exp()
    plan = transport_plan(similarity, 1.0, epsilon, **EXACT)
    assert (plan - expected).abs().max() <= 1e-9
    assert (plan.sum(dim=-1) - 1 / 6).abs().max() <= 1e-9


@pytest.mark.parametrize("mass", [0.5, 0.8, 1.0])
def test_a_small_regularisation_nears_the_linear_programme(mass):
    for similarity in similarities(3):
        plan = transport_plan(similarity, mass, 0.02, threshold=1e-7, iterations=3000)
        rows, columns = np.kron(np.eye(6), np.ones(2)), np.kron(np.ones(6), np.eye(2))
        best = linprog(
            -similarity.flatten().numpy(), A_ub=rows, b_ub=np.full(6, 1 / 6), A_eq=columns, b_eq=np.full(2, mass / 2)
        )
        assert float((plan * similarity).sum()) == pytest.approx(-best.fun, abs=0.02 * np.log(12))
        assert float((plan * similarity).sum()) <= -best.fun + 1e-4


@pytest.mark.parametrize("mass", [0.8, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.05, 0.01, 0.006])
def test_no_kernel_is_so_small_that_the_plan_is_lost(mass, epsilon):
    single = similarities(4, 8, 49, 2).float()
    plan = transport_plan(single, mass, epsilon)
    assert torch.isfinite(plan).all()
    assert (plan.sum(dim=-2) - mass / 2).abs().max() <= 1e-3
    far = torch.tensor([[[1.0, -1.0], [-1.0, -1.0]]])
    assert torch.isfinite(transport_plan(far, mass, epsilon)).all()


def test_a_plan_does_not_depend_on_its_batch():
    similarity = similarities(5, 7, 6, 2)
    together = transport_plan(similarity)
    for one, alone in zip(together, similarity, strict=True):
        assert (one - transport_plan(alone)).abs().max() <= 1e-15


def test_the_threshold_stops_early_and_near():
    similarity = similarities(6)
    exact = transport_plan(similarity, **EXACT)
    gaps = [float((transport_plan(similarity, threshold=t) - exact).abs().max()) for t in (1e-1, 1e-3)]
    assert 1e-3 > gaps[0] >= gaps[1] > 0 or gaps[1] < gaps[0] < 0.05


def test_logits_weigh_similarities_and_leave_the_plan_without_gradient():
    generator = torch.Generator().manual_seed(7)
    patches = torch.nn.functional.normalize(torch.randn(3, 6, 5, generator=generator).double(), dim=-1).requires_grad_()
    texts = torch.nn.functional.normalize(torch.randn(2, 4, 5, generator=generator).double(), dim=-1).requires_grad_()
    logits = transport_logits(patches, texts, torch.tensor(7.0).double())
    by_hand = torch.zeros(3, 4).double()
    for b in range(3):
        for c in range(4):
            similarity = torch.stack([patches[b] @ texts[n, c] for n in range(2)], dim=1)
            by_hand[b, c] = 7 * (transport_plan(similarity.detach()) * similarity.detach()).sum()
    assert (logits - by_hand).abs().max() <= 1e-12
    gradient = torch.autograd.grad(logits[0, 0], texts)[0]
    plan = transport_plan((patches[0] @ texts[:, 0].T).detach())
    assert (gradient[:, 0] - 7 * plan.T @ patches[0].detach()).abs().max() <= 1e-12
    assert not gradient[:, 1:].any()


def test_refuses_what_it_cannot_move(refused):
    with refused("mass=1.2", "(0, 1]"):
        transport_plan(similarities(), mass=1.2)
    with refused("epsilon=0.001", "0.006 or more"):
        transport_plan(similarities(), epsilon=0.001)
    with refused("iterations=0", "1 or more"):
        transport_plan(similarities(), iterations=0)
    with refused("NaN", "learning rate"):
        transport_plan(similarities() * torch.nan)
