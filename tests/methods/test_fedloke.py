"""FedLoKe: the moving average of a private model, crosswise labels, the ramp."""

import math

import pytest
import torch
from small_semi import descend, same_models
from torch.nn import functional as F

from fedcopl_lab.methods._fedloke import crosswise_labels, mixed_models


def test_private_model_moves_a_tenth_towards_the_global_one(start_task):
    task = start_task("FedLoKe", client=3)
    own = {name: value + 1 for name, value in task.start.items()}
    memory = {f"own/{name}": value for name, value in own.items()}
    begun = start_task("FedLoKe", client=3, memory=memory, begun=True)
    found = begun.models["private"].state_dict()
    for name, value in task.start.items():
        expected = 0.9 * own[name].double() + 0.1 * value.double()
        assert torch.allclose(found[name].double(), expected.to(value.dtype).double(), atol=1e-7), name
    first = start_task("FedLoKe", client=3, begun=True).models["private"].state_dict()
    assert all(torch.equal(first[name], value) for name, value in task.start.items())


def test_whole_numbers_of_mixed_models_are_truncated():
    mixed = mixed_models({"n": torch.tensor(7)}, {"n": torch.tensor(2)}, 0.5)
    assert mixed["n"].item() == 4
    assert mixed["n"].dtype == torch.long


def test_crosswise_labels_against_entropies_by_hand():
    logits = torch.tensor([[6.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    labels = crosswise_labels(logits, 0.1)
    for row, target, used in zip(logits.tolist(), labels.target.tolist(), labels.used.tolist(), strict=True):
        total = sum(math.exp(x) for x in row)
        p = [math.exp(x) / total for x in row]
        assert target == pytest.approx(p, abs=1e-6)
        assert used == (-sum(q * math.log(q) for q in p) < 0.1)
    assert labels.used.tolist() == [True, False, False]


@pytest.mark.parametrize(("round_index", "ramp"), [(0, 0.0), (1, 0.25), (4, 1.0), (9, 1.0)])
def test_a_step_is_two_descents_written_out(start_task, round_index, ramp):
    options = {"fedloke_entropy": 2.25, "fedloke_ramp": 4, "log_both": False}
    task = start_task("FedLoKe", 2, round_index, begun=True, **options)
    batch = next(iter(task.batches()))
    models = {"global": task.copy_of(task.start).train(), "own": task.copy_of(task.start).train()}
    scored = {
        name: model(torch.cat([x, batch.weak, batch.strong])).split([8, 16, 16])
        for (name, model), x in zip(models.items(), (batch.labelled_strong, batch.labelled), strict=True)
    }
    for student, teacher in (("global", "own"), ("own", "global")):
        p = scored[teacher][1].detach().softmax(dim=1)
        sure = -(p * p.log()).sum(dim=1) < 2.25
        log_q = scored[student][2].log_softmax(dim=1)
        divergence = (p * (p.log() - log_q)).sum(dim=1)
        loss = F.cross_entropy(scored[student][0], batch.labels) + ramp * (divergence * sure).sum() / 16
        descend(models[student], loss)
    task.step(batch)
    same_models((task.model, models["global"]), (task.models["private"], models["own"]))


def test_the_private_model_never_leaves_the_client(start_task):
    update = start_task("FedLoKe").run()
    assert update.sent == {}
    assert {name.removeprefix("own/") for name in update.memory} == set(update.model)
    assert not torch.equal(update.memory["own/head.weight"], update.model["head.weight"])
