"""The exercises grade: the library passes its own, usual mistakes fail with their smallest case and a hint."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.exercises import EXERCISES, check

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "exercises.ipynb"


def rounded(counts):
    total, seen = counts.sum(), counts.sum(dim=0).clamp(min=1)
    return (counts / seen * total / counts.shape[1]).round().long()


def loose_filter(logits, q_conf, q_ent):
    p = logits.double().softmax(dim=1)
    confidence, nats = p.amax(dim=1), -torch.special.xlogy(p, p).sum(dim=1)
    return (confidence >= confidence.quantile(q_conf)) & (nats <= nats.quantile(1 - q_ent))


def without_fallback(logits, q_conf, q_ent):
    found = lab.filter_confident(logits, q_conf, q_ent)
    return found.confident & found.certain


def any_class(logits, quota):
    p = logits.softmax(dim=1)
    return torch.cat([p[:, c].argsort(descending=True)[:wanted] for c, wanted in enumerate(quota.tolist())])


def one_weight(local_logits, global_logits, threshold, kappa):
    found = lab.correct_pseudo_labels(local_logits, global_logits, threshold, 0.0)
    return found.target, found.used


def in_place(stacked, weights):
    stacked *= 0
    return stacked.sum(dim=0)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_library_passes_its_own_exercises(name):
    assert check(name, getattr(lab, name), cases=400, seed=3).passed


@pytest.mark.parametrize(
    ("name", "mine", "hint"),
    [
        ("allocate", rounded, "Round up"),
        ("allocate", lambda counts: counts, "whole numbers"),
        ("filter_confident", loose_filter, "strict"),
        ("filter_confident", without_fallback, "keep the most confident"),
        ("select_top", any_class, "predicted as it"),
        ("aggregate", lambda stacked, weights: (stacked * weights[:, None]).sum(dim=0), "weights"),
        ("aggregate", in_place, "divide by their sum"),
        ("correct_pseudo_labels", one_weight, "λ"),
    ],
)
def test_usual_mistakes_are_found_with_a_hint(name, mine, hint):
    found = check(name, mine)
    assert not found.passed
    assert 0 < found.n_wrong <= 200
    assert hint in found.hint
    assert all(word in repr(found) for word in ("the smallest", "expected", "yours"))
    assert hint in found._repr_html_() or "&" in found._repr_html_()


def test_the_counterexample_is_the_smallest_of_the_cases_and_true():
    found = check("allocate", rounded)
    assert found.arguments["counts"].numel() <= 4
    assert torch.tensor(found.expected).equal(lab.allocate(found.arguments["counts"]).quota)
    assert torch.tensor(found.found).equal(rounded(found.arguments["counts"]))
    assert not torch.equal(torch.tensor(found.found), torch.tensor(found.expected))


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (lambda counts: None, "returns None"),
        (lambda counts: counts[5], "IndexError"),
        (lambda: 0, "TypeError"),
        (lambda counts: "many", "many"),
        (lambda counts: counts.float() * math.nan, "nan"),
        (lambda counts: counts.flatten(), ""),
    ],
)
def test_blanks_and_errors_of_a_reader_are_answers(mine, said):
    found = check("allocate", mine, cases=20)
    assert found.n_wrong > 0
    assert said in str(found.found)


def test_the_same_seed_gives_the_same_cases():
    assert repr(check("aggregate", in_place)) == repr(check("aggregate", in_place))


@pytest.mark.usefixtures("as_installed")
def test_what_cannot_be_checked():
    with pytest.raises(FedCoPLError, match="unknown exercise 'alocate'; did you mean 'allocate'"):
        check("alocate", rounded)
    with pytest.raises(FedCoPLError, match="cannot be called; pass the function itself"):
        check("allocate", rounded(torch.ones(2, 2)))
    with pytest.raises(FedCoPLError, match="cases=0; expected 1 or more"):
        check("allocate", rounded, cases=0)


def test_the_folded_solutions_pass_and_the_blanks_do_not():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    solutions = [re.search(r"<summary>A solution</summary>\n\n```python\n(.*?)```", text, re.DOTALL) for text in texts]
    found = {}
    for one in filter(None, solutions):
        exec(one.group(1), {"torch": torch}, found)
    assert set(found) == set(EXERCISES)
    assert all(check(name, mine).passed for name, mine in found.items())
    blanks = {}
    for text in texts:
        if "# your lines here" in text:
            exec(text.partition("lab.exercises.check")[0], {}, blanks)
    assert set(blanks) == set(EXERCISES)
    assert not any(check(name, mine, cases=5).passed for name, mine in blanks.items())
