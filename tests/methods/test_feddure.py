"""FedDure: the coarse regulator's feedback, and the fine one's slope against finite differences."""

import copy

import pytest
import torch
from small_semi import descend
from torch.nn import functional as F

from fedcopl_lab.methods._feddure import draw_weighting, weighted_mean
from fedcopl_lab.methods._sage_together import scores_after_virtual_step


@pytest.fixture
def wide():
    """A small smooth network in float64, whose finite differences are exact enough."""
    generator = torch.Generator().manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(16, 3)
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    strong, labelled = (torch.randn(n, 3, 4, 4, generator=generator, dtype=torch.float64) for n in (6, 5))
    labels, true = (torch.randint(3, (n,), generator=generator) for n in (6, 5))
    return model.train(), strong, labels, labelled, true


def after_step(model, strong, labels, weights, labelled, true, lr):
    """The virtual step taken for real, on a copy."""
    moved = copy.deepcopy(model)
    per_image = F.cross_entropy(moved(strong), labels, reduction="none")
    slopes = torch.autograd.grad((weights * per_image).sum() / weights.sum(), list(moved.parameters()))
    with torch.no_grad():
        for parameter, slope in zip(moved.parameters(), slopes, strict=True):
            parameter -= lr * slope
        return float(F.cross_entropy(moved(labelled), true))


def loss_after_virtual_step(model, strong, labels, weights, labelled, true, lr):
    """FedDure Eq. 8."""

    def weighted(scores):
        return weighted_mean(F.cross_entropy(scores, labels, reduction="none"), weights)

    return F.cross_entropy(scores_after_virtual_step(model, strong, weighted, labelled, lr), true)


def test_the_bilevel_slope_is_that_of_finite_differences(wide):
    model, strong, labels, labelled, true = wide
    before = {name: value.clone() for name, value in model.state_dict().items()}
    weights = torch.rand(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.1
    leaf = weights.clone().requires_grad_()
    loss = loss_after_virtual_step(model, strong, labels, leaf, labelled, true, 0.3)
    assert float(loss.detach()) == pytest.approx(
        after_step(model, strong, labels, weights, labelled, true, 0.3), abs=1e-12
    )
    (slope,) = torch.autograd.grad(loss, [leaf])
    for i in range(6):
        bump = torch.zeros(6, dtype=torch.float64)
        bump[i] = 1e-5
        up, down = (after_step(model, strong, labels, weights + sign * bump, labelled, true, 0.3) for sign in (1, -1))
        assert float(slope[i]) == pytest.approx((up - down) / 2e-5, abs=1e-8)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_fine_regulator_moves_weight_towards_the_useful_label(wide):
    model, _, _, labelled, true = wide
    twice = torch.cat([labelled, labelled])
    labels = torch.cat([true, (true + 1) % 3])  # the second half has wrong labels
    leaf = torch.ones(10, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss_after_virtual_step(model, twice, labels, leaf, labelled, true, 0.1), [leaf])
    assert slope[:5].mean() < slope[5:].mean()


def test_weighted_mean_by_hand():
    assert weighted_mean(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 3.0, 0.0])).item() == pytest.approx(1.75)
    assert weighted_mean(torch.ones(2), torch.zeros(2)).item() == 0


def test_the_regulator_depends_on_its_generator_alone():
    torch.manual_seed(1)
    first = draw_weighting(10, torch.Generator().manual_seed(0))
    torch.manual_seed(2)
    second = draw_weighting(10, torch.Generator().manual_seed(0))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    weights = first(torch.rand(5, 10).softmax(dim=1))
    assert ((weights > 0) & (weights < 1)).all()


def test_one_accepted_image_does_not_get_the_whole_loss(start_task):
    losses, weights = torch.tensor([3.0, 1.0, 1.0, 1.0]), torch.tensor([0.5, 0.0, 0.0, 0.0])
    assert weighted_mean(losses, weights, "weights").item() == 3
    assert weighted_mean(losses, weights, "images").item() == pytest.approx(3 * 0.5 / 4)
    assert start_task("FedDure").config.feddure.mean == "images"


@pytest.mark.parametrize(("sign", "mean"), [("rise", "images"), ("fall", "weights")])
def test_a_step_with_the_coarse_regulator_written_out(start_task, sign, mean):
    changes = {"feddure_fine": False, "feddure_threshold": 0.2, "feddure_feedback": sign, "feddure_mean": mean}
    task = start_task("FedDure", 6, begun=True, **changes)
    batch = next(iter(task.batches()))
    model, coarse = (task.copy_of(task.start).train() for _ in range(2))
    x, w, s = model(torch.cat([batch.labelled, batch.weak, batch.strong])).split([8, 16, 16])
    own = s.detach().argmax(dim=1)
    with torch.no_grad():
        before = F.cross_entropy(coarse(batch.labelled), batch.labels)
    descend(coarse, F.cross_entropy(coarse(batch.strong), own))
    with torch.no_grad():
        d = F.cross_entropy(coarse(batch.labelled), batch.labels) - before
    d = d if sign == "rise" else -d
    used = w.softmax(dim=1).amax(dim=1) >= 0.2
    assert 0 < used.sum() < 16
    per_image = F.cross_entropy(s, w.argmax(dim=1), reduction="none")
    of_pool = per_image[used].sum() / (used.sum() if mean == "weights" else len(used))
    loss = F.cross_entropy(x, batch.labels) + of_pool + d * F.cross_entropy(s, own)
    descend(model, loss)
    losses = task.step(batch)
    assert float(losses["feedback"]) == pytest.approx(float(d), abs=1e-5)
    assert float(d) != 0
    for ours, expected in ((task.model, model), (task.models["coarse"], coarse)):
        for value, wanted in zip(ours.parameters(), expected.parameters(), strict=True):
            assert torch.allclose(value, wanted, atol=1e-5)


def test_the_fine_regulator_is_trained_kept_and_taken_up_again(start_task):
    task = start_task("FedDure", begun=True, feddure_threshold=0.1)
    drawn = {f"fine/{name}": value.clone() for name, value in task.models["fine"].state_dict().items()}
    update = start_task("FedDure", feddure_threshold=0.1).run()
    assert update.memory.keys() == drawn.keys()
    assert any(not torch.equal(update.memory[name], value) for name, value in drawn.items())
    again = start_task("FedDure", memory=update.memory, begun=True, feddure_threshold=0.1)
    for name, value in again.models["fine"].state_dict().items():
        assert torch.equal(update.memory[f"fine/{name}"], value)
    assert start_task("FedDure", feddure_fine=False).run().memory == {}
    assert update.sent == {}


def test_without_any_label_the_fine_regulator_rests(start_task):
    update = start_task("FedDure", feddure_threshold=1.0).run()
    drawn = start_task("FedDure", begun=True).models["fine"].state_dict()
    assert all(torch.equal(update.memory[f"fine/{name}"], value) for name, value in drawn.items())
    assert update.losses["unsupervised"] == 0
