"""``lab.round``: one round at a time, with the results of its steps, gives the numbers that a run stores."""

import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._files import tensor_bytes
from fedcopl_lab.engine import shard_of

PROMPTS = {"dataset": "digits:240", "scheme": "iid", "rounds": 2, "local_epochs": 1, "refresh_every": 2}
MODELS = {"method": "SAGE", "rounds": 2, "width": 0.25, "n_probe": 20, "steps_per_epoch": 2, "participation": 0.2}


@pytest.mark.parametrize("changes", [PROMPTS, MODELS, MODELS | {"momentum_state": "carry"}])
def test_rounds_one_by_one_are_those_of_the_run(store, changes):
    config = lab.configure("smoke", **changes)
    run = lab.run(config, store, progress=False)
    results = [lab.round(config)]
    results.append(lab.round(config, results[0].state))
    assert [result.row for result in results] == run.records()
    assert tensor_bytes(results[-1].state.to_tensors()) == (run.path / "state-0002.safetensors").read_bytes()
    for result in results:
        assert list(result.updates) == result.row["participants"]
        assert all(update.n_steps for update in result.updates.values())
        assert f"accuracy {result.accuracy:.1%}" in repr(result)
        assert f"{result.accuracy:.1%}" in result._repr_html_()


def test_a_round_of_prompts_shows_its_label_phase_and_its_tests():
    first = lab.round(lab.configure("smoke", **PROMPTS))
    assert first.row["labels"]["quota"] == first.labels.quota.tolist()
    assert torch.equal(first.labels.quota, lab.allocate(first.labels.uploaded).quota)
    assert first.evaluation.client_mean == first.accuracy
    assert "LabelPhase" in first._repr_html_()
    assert lab.round(lab.configure("smoke", **PROMPTS), first.state).labels is None


def test_what_has_no_round_is_refused():
    config = lab.configure("smoke", **PROMPTS | {"rounds": 1})
    with pytest.raises(FedCoPLError, match="has 1 rounds, and 1 are done"):
        lab.round(config, lab.round(config).state)
    with pytest.raises(FedCoPLError, match="zero-shot trains nothing and has no rounds"):
        lab.round(lab.configure("smoke", method="zero-shot"))


def test_runs_of_a_card_that_share_tokens_follow_each_other():
    methods, sets = ("FedCoPL", "PromptFL"), ("dtd", "resisc45", "cifar10")
    for device, follow in (("cuda", True), ("cpu", False)):
        configs = [lab.configure("paper", method=m, dataset=d, device=device) for m in methods for d in sets]
        order = [config.dataset for config in shard_of(configs, 1, 1)]
        assert (order == sorted(order)) is follow
