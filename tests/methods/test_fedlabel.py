"""FedLabel: which model labels, how much agreement counts, and how two means are merged."""

import math

import pytest
import torch
from small_semi import descend, same_models
from torch.nn import functional as F

from fedcopl_lab.methods._fedlabel import agreement_loss, surer_labels
from fedcopl_lab.methods._recipe import RoundEnd

GENERATOR = torch.Generator().manual_seed(5)
FIRST, SECOND = (3 * torch.randn(40, 6, generator=GENERATOR) for _ in range(2))


def probabilities(row):
    total = sum(math.exp(x) for x in row)
    return [math.exp(x) / total for x in row]


def spread(p):
    mean = sum(p) / len(p)
    return sum((x - mean) ** 2 for x in p) / len(p)


def disorder(p):
    return -sum(x * math.log(x) for x in p)


@pytest.mark.parametrize("choice", ["variance", "entropy"])
def test_the_surer_model_labels(choice):
    surer = surer_labels(FIRST, SECOND, 0.5, choice)
    winners = set()
    for i, (a, b) in enumerate(zip(FIRST.tolist(), SECOND.tolist(), strict=True)):
        p, q = probabilities(a), probabilities(b)
        second = spread(q) > spread(p) if choice == "variance" else disorder(q) < disorder(p)
        chosen = q if second else p
        winners.add(second)
        assert surer.labels.target[i].tolist() == [float(k == chosen.index(max(chosen))) for k in range(6)]
        assert surer.labels.weight[i] == float(second)
        assert bool(surer.labels.used[i]) == (max(chosen) > 0.5)
        assert bool(surer.agree[i]) == (p.index(max(p)) == q.index(max(q)))
        assert float(surer.ratio[i]) == pytest.approx(min(spread(p), spread(q)) / max(spread(p), spread(q)), rel=1e-3)
    assert winners == {True, False}
    assert 0 < surer.labels.used.sum() < 40


def test_two_uniform_predictions_have_ratio_one_and_no_label():
    surer = surer_labels(torch.zeros(2, 4), torch.zeros(2, 4), 0.3)
    assert surer.ratio.tolist() == [1, 1]
    assert not surer.labels.used.any()


def test_agreement_is_kl_from_the_supervised_copy_over_agreed_images():
    surer = surer_labels(FIRST, SECOND)
    student = torch.randn(40, 6, generator=GENERATOR)
    found = float(agreement_loss(SECOND, student, surer.agree, surer.ratio))
    terms = []
    for i in surer.agree.nonzero().squeeze(1).tolist():
        p, q = probabilities(SECOND[i].tolist()), probabilities(student[i].tolist())
        terms.append(float(surer.ratio[i]) * sum(x * math.log(x / y) for x, y in zip(p, q, strict=True)))
    assert len(terms) > 1
    assert found == pytest.approx(sum(terms) / len(terms), rel=1e-4)
    assert agreement_loss(SECOND, student, torch.zeros(40, dtype=torch.bool), surer.ratio) == 0


def test_a_step_is_two_descents_written_out(start_task):
    task = start_task("FedLabel", 1, 3, begun=True, fedlabel_burn_in=3, fedlabel_threshold=0.1)
    batch = next(iter(task.batches()))
    supervised, other, frozen = (task.copy_of(task.start) for _ in range(3))
    supervised.train()
    loss = F.cross_entropy(supervised(batch.labelled), batch.labels)
    descend(supervised, loss)
    supervised.eval()
    with torch.no_grad():
        surer = surer_labels(frozen.eval()(batch.weak), supervised(batch.weak), 0.1)
        of_copy = supervised(batch.weak)
    weak, strong = other.train()(torch.cat([batch.weak, batch.strong])).split(16)
    per_image = F.cross_entropy(strong, surer.labels.target.argmax(dim=1), reduction="none")
    loss = (per_image * surer.labels.used).mean() + 0.05 * agreement_loss(of_copy, weak, surer.agree, surer.ratio)
    descend(other, loss)  # the pull is 0 at the round's start, and so is its slope
    task.step(batch)
    same_models((task.model, supervised), (task.models["unsupervised"], other))
    assert task.send["pseudo-labels"] == surer.labels.used.sum()


def test_the_pull_holds_the_copy_back(start_task):
    def moved(pull):
        sent = start_task("FedLabel", fedlabel_burn_in=0, fedlabel_threshold=0.1, fedlabel_pull=pull).run().sent
        return float((sent["unsupervised/head.bias"] - start["head.bias"]).norm())

    start = start_task("FedLabel").start
    assert 0 < moved(20.0) < moved(0.0)


def test_nothing_but_the_model_travels_during_the_burn_in(start_task):
    update = start_task("FedLabel", round_index=2, fedlabel_burn_in=3).run()
    assert update.sent == {}
    assert set(update.losses) == {"supervised"}
    assert update.noted is None


@pytest.mark.parametrize("counts", [(1, 3), (0, 2), (0, 0)])
def test_merge_is_half_of_each_mean(open_tiny, start_task, counts):
    method = open_tiny("FedLabel")
    tasks = [start_task("FedLabel", client, fedlabel_burn_in=0) for client in (0, 1)]
    updates = {task.client: task.run() for task in tasks}
    for update, count in zip(updates.values(), counts, strict=True):
        update.sent["pseudo-labels"] = torch.tensor(count)
    weights = torch.tensor([1, 3])
    merged = method.recipe.merge(RoundEnd(method.setting, method.initial_state(), updates, weights))
    name = "head.weight"
    first, second = (update.model[name].double() for update in updates.values())
    mean = (first + 3 * second) / 4
    if any(counts):
        a, b = (update.sent[f"unsupervised/{name}"].double() for update in updates.values())
        mean = mean / 2 + (counts[0] * a + counts[1] * b) / sum(counts) / 2
    assert torch.allclose(merged.model[name].double(), mean, atol=1e-6)
