"""What JupyterLab shows of the steps' results: small tables, folded where long; text forms stay."""

import numpy as np
import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab import LocalUpdate, PseudoLabels, Shard
from fedcopl_lab.steps import confident_labels

LOGITS = torch.tensor([[9.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
EMPTY = torch.zeros(0, dtype=torch.long)
UPDATE = LocalUpdate(torch.zeros(1, 2), torch.zeros(1, 1, 2), {}, (0.75, 0.5), n_samples=7, n_steps=6)
SHARDS = [Shard(train=np.array([0]), test=np.array([0, 1])), Shard(train=np.array([0]), test=EMPTY.numpy())]
EVALUATION = lab.evaluate(lambda client, indices: indices * 0, SHARDS, torch.tensor([0, 1]))
SHOWN = {
    "predictions": (lab.Predictions(LOGITS), ["Predictions", ">3<", ">2<", "mean confidence", "<details>"]),
    "filtered": (lab.filter_confident(LOGITS, 0.5, None), ["kept", "τ1", "τ2", ">off<", "<details>"]),
    "fallback": (lab.filter_confident(torch.zeros(4, 2)), ["fallback", "nothing passed both"]),
    "allocation": (lab.allocate(torch.tensor([[3, 20], [2, 25]])), ["M, per class", ">25<", "client 1", ">14<"]),
    "own counts": (lab.allocate(torch.tensor([[3, 1]]), "none"), ["own counts", ">4<"]),
    "selected": (lab.select_top(LOGITS, torch.tensor([1, 1])), ["PseudoLabels", ">2<", "images per class"]),
    "nothing selected": (PseudoLabels(EMPTY, EMPTY), ["PseudoLabels", ">0<"]),
    "update": (UPDATE, ["LocalUpdate", ">7<", ">6<", "0.75", "0.5", "<details>"]),
    "evaluation": (EVALUATION, ["client mean", "50.0%", "no test images", "2 clients"]),
    "corrected": (confident_labels(LOGITS, 0.9), ["CorrectedLabels", "labelled", ">2<", "mean λ"]),
    "none corrected": (confident_labels(LOGITS, 1.0), ["labelled", ">0<"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_results_are_small_tables(name):
    result, words = SHOWN[name]
    html = result._repr_html_()
    assert html.count("<table>") == html.count("</table>") > 0
    for word in words:
        assert word in html
    assert repr(result).startswith(f"{type(result).__name__}(")


def test_many_classes_stay_folded():
    html = lab.allocate(torch.ones(20, 1000, dtype=torch.long))._repr_html_()
    assert len(html.partition("<details>")[0]) < 1000
