"""FlexMatch: thresholds by class, what a client remembers, and what the label hook does with both."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcopl_lab.methods._flexmatch import NOT_YET, flexible_thresholds
from fedcopl_lab.methods._sage_local_task import WeakScores

MEMORY = "learned classes"


def slow_thresholds(learned, n_classes, tau, convex, warm_up):
    counts = [sum(1 for c in learned if c == k) for k in range(n_classes)]
    most = max(counts)
    if warm_up:
        most = max(most, sum(1 for c in learned if c == NOT_YET))
    shares = [count / most if most else 0.0 for count in counts]
    return [tau * (b / (2 - b) if convex else b) for b in shares]


@given(
    learned=st.lists(st.integers(-1, 4), min_size=1, max_size=30), tau=st.floats(0, 1), convex=st.booleans(),
    warm_up=st.booleans(),
)  # fmt: skip
def test_thresholds_follow_the_definition(learned, tau, convex, warm_up):
    found = flexible_thresholds(torch.tensor(learned), 5, tau, "convex" if convex else "linear", warm_up)
    assert found.tolist() == pytest.approx(slow_thresholds(learned, 5, tau, convex, warm_up), abs=1e-6)


def test_warm_up_counts_images_that_were_never_selected():
    learned = torch.tensor([0, 0, 1] + [NOT_YET] * 5)
    assert flexible_thresholds(learned, 3, 0.9).tolist() == pytest.approx([0.9 * 0.4 / 1.6, 0.9 * 0.2 / 1.8, 0])
    assert flexible_thresholds(learned, 3, 0.9, warm_up=False).tolist() == pytest.approx([0.9, 0.3, 0])
    assert flexible_thresholds(torch.tensor([0, 0, 1, 1]), 3, 0.9).tolist() == pytest.approx([0.9, 0.9, 0])


def logits_of(confidence, label, n_classes=10):
    """Scores whose softmax gives the label that confidence and shares the rest."""
    p = torch.full((n_classes,), (1 - confidence) / (n_classes - 1))
    p[label] = confidence
    return p.log()


def test_the_hook_uses_what_was_known_before_the_batch_and_remembers_what_tau_admits(start_task):
    task = start_task("FedAvg+FlexMatch", begun=True)
    task.memory[MEMORY][:4] = torch.tensor([7, 7, 7, 2])
    before = task.memory[MEMORY].clone()
    demanded = flexible_thresholds(before, 10, 0.95)
    assert 0 < demanded[2] < demanded[7] < 0.2  # most of the pool was never selected
    rows = [(0.96, 2), (0.5, 7), (0.5, 4), (0.99, 5)]
    scores = WeakScores(torch.stack([logits_of(*row) for row in rows]), None, torch.tensor([10, 11, 12, 13]))
    labels = task.recipe.label(task, scores)
    assert labels.used.tolist() == [c >= float(demanded[k]) for c, k in rows] == [True] * 4
    assert labels.target.argmax(dim=1).tolist() == [2, 7, 4, 5]
    after = task.memory[MEMORY]
    assert after[[10, 11, 12, 13]].tolist() == [2, NOT_YET, NOT_YET, 5]
    assert torch.equal(after[:10], before[:10])
    task.memory[MEMORY].fill_(7)  # all learned, all of one class: it alone demands tau
    assert task.recipe.label(task, scores).used.tolist() == [True, False, True, True]


def test_a_client_finds_its_memory_again_or_starts_afresh(start_task):
    first = start_task("FedAvg+FlexMatch", threshold=0.3).run()
    learned = first.memory[MEMORY]
    assert learned.shape == (60,)
    assert (learned != NOT_YET).any()
    kept = start_task("FedAvg+FlexMatch", memory=first.memory, begun=True)
    assert torch.equal(kept.memory[MEMORY], learned)
    fresh = start_task("FedAvg+FlexMatch", memory=first.memory, begun=True, flexmatch_memory="round")
    assert set(fresh.memory[MEMORY].tolist()) == {NOT_YET}
