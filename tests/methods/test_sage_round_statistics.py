"""The numbers of a round's row against counting image by image."""

import math

import pytest
import torch
from scipy.stats import spearmanr

from fedcopl_lab import configure, correct_pseudo_labels
from fedcopl_lab.methods import open_method
from fedcopl_lab.methods._batches import ViewLabels
from fedcopl_lab.methods._sage_rows import (
    BINS,
    CheckedViews,
    ensemble_statistics,
    label_statistics,
    rank_correlation,
    rare_classes,
)

TAU = 0.7


@pytest.fixture(scope="module")
def views():
    generator = torch.Generator().manual_seed(0)
    local, global_ = 2.5 * torch.randn(2, 300, 4, generator=generator)
    true = torch.randint(4, (300,), generator=generator)
    labels = correct_pseudo_labels(local, global_, TAU, 4.0)
    noted = ViewLabels(
        places=torch.arange(300), local=local, global_=global_, target=labels.target, weight=labels.weight,
        used=labels.used,
    )  # fmt: skip
    return CheckedViews(noted, true, true < 2)


def predictions(logits):
    """(label, confidence, entropy) of every image, in plain Python."""
    out = []
    for row in logits.double().tolist():
        p = [math.exp(v) for v in row]
        p = [v / sum(p) for v in p]
        out.append((p.index(max(p)), max(p), -sum(v * math.log(v) for v in p)))
    return out


def test_one_model_counted_image_by_image(views):
    report = label_statistics(views, TAU)["local"]
    seen, true = predictions(views.noted.local), views.true.tolist()
    counts, correct, gap = [0] * BINS, [0] * BINS, [0.0] * BINS
    for (label, confidence, _), t in zip(seen, true, strict=True):
        place = min(int(confidence * BINS), BINS - 1)
        counts[place] += 1
        correct[place] += label == t
        gap[place] += confidence - (label == t)
    assert report["counts"] == counts
    assert report["correct"] == correct
    assert report["accuracy"] == pytest.approx(sum(correct) / 300)
    assert report["confidence"] == pytest.approx(sum(c for _, c, _ in seen) / 300, abs=1e-6)
    assert report["entropy"] == pytest.approx(sum(h for _, _, h in seen) / 300, abs=1e-6)
    assert report["histogram_entropy"] == pytest.approx(-sum(n / 300 * math.log(n / 300) for n in counts if n))
    assert report["calibration_error"] == pytest.approx(sum(map(abs, gap)) / 300, abs=1e-6)
    assert report["n_sure"] == sum(c >= TAU for _, c, _ in seen)
    assert report["n_sure_correct"] == sum(c >= TAU and k == t for (k, c, _), t in zip(seen, true, strict=True))


def test_both_models_counted_image_by_image(views):
    report, noted = label_statistics(views, TAU), views.noted
    rows = list(zip(predictions(noted.local), predictions(noted.global_), views.true.tolist(), strict=True))
    weight, target = noted.weight.tolist(), noted.target.tolist()
    both = report["both"]
    assert both["agreement"] == pytest.approx(sum(a[0] == b[0] for a, b, _ in rows) / 300)
    assert both["gap"] == pytest.approx(sum(abs(a[1] - b[1]) for a, b, _ in rows) / 300, abs=1e-6)
    assert both["n_union"] == sum(a[1] >= TAU or b[1] >= TAU for a, b, _ in rows) == report["target"]["n_used"]
    added = [b[0] == t for a, b, t in rows if b[1] >= TAU > a[1]]
    assert (both["n_added"], both["n_added_correct"]) == (len(added), sum(added))
    disputed = [i for i, (a, b, _) in enumerate(rows) if a[1] >= TAU and a[0] != b[0]]
    assert both["n_disputed"] == len(disputed) > 0
    assert both["n_disputed_local_right"] == sum(rows[i][0][0] == rows[i][2] for i in disputed)
    assert both["n_disputed_global_right"] == sum(rows[i][1][0] == rows[i][2] for i in disputed)
    assert both["n_disputed_for_global"] == sum(weight[i] < 0.5 for i in disputed)
    assert both["lambda_disputed"] == pytest.approx(sum(weight[i] for i in disputed) / len(disputed))
    mass = sum(target[i][rows[i][2]] for i in disputed) / len(disputed)
    assert both["disputed_true_mass"] == pytest.approx(mass, abs=1e-6)


def test_groups_divide_all_views_and_count_alike(views):
    report = label_statistics(views, TAU)
    groups = report["groups"]
    assert groups["minority"]["n"] == int(views.minority.sum())
    for key, whole in {
        "n": 300, "n_local_sure": report["local"]["n_sure"], "n_global_sure": report["global"]["n_sure"],
        "n_local_sure_correct": report["local"]["n_sure_correct"], "n_used": report["target"]["n_used"],
        "n_used_correct": report["target"]["n_used_correct"],
    }.items():  # fmt: skip
        assert groups["majority"][key] + groups["minority"][key] == whole, key
    sure = [w for w, (_, c, _), m in zip(views.noted.weight.tolist(), predictions(views.noted.local),
                                         views.minority.tolist(), strict=True) if m and c >= TAU]  # fmt: skip
    assert groups["minority"]["lambda_sure"] == pytest.approx(sum(sure) / len(sure))


def test_no_view_gives_none_and_not_a_number():
    nothing = ViewLabels(
        places=torch.zeros(0, dtype=torch.long), local=torch.zeros(0, 3), global_=torch.zeros(0, 3),
        target=torch.zeros(0, 3), weight=torch.zeros(0), used=torch.zeros(0, dtype=torch.bool),
    )  # fmt: skip
    report = label_statistics(CheckedViews(nothing, torch.zeros(0, dtype=torch.long), nothing.used), TAU)
    assert report["local"]["accuracy"] is None
    assert report["local"]["calibration_error"] is None
    assert report["both"]["lambda"] is None


def test_minority_classes_have_less_than_half_the_mean_count():
    assert rare_classes(torch.tensor([0, 4, 5, 31])).tolist() == [True, True, False, False]  # the mean is 10


def test_merged_model_beside_its_parts():
    generator = torch.Generator().manual_seed(1)
    merged, *local = 2 * torch.randn(6, 40, 3, generator=generator)
    report = ensemble_statistics(merged, local, TAU)
    p, each = merged.double().softmax(1).tolist(), [one.double().softmax(1).tolist() for one in local]
    agreeing, sure, far, single = [], [0] * 6, 0.0, 0.0
    for i, row in enumerate(p):
        label = row.index(max(row))
        agreeing.append(sum(one[i].index(max(one[i])) == label for one in each))
        sure[agreeing[-1]] += max(row) >= TAU
        mean = [sum(one[i][c] for one in each) / 5 for c in range(3)]
        far += 0.5 * sum(abs(a - b) for a, b in zip(row, mean, strict=True)) / 40
        single += sum(0.5 * sum(abs(a - b) for a, b in zip(row, one[i], strict=True)) for one in each) / 200
    assert report["agreeing_counts"] == [agreeing.count(level) for level in range(6)]
    assert report["agreeing_sure"] == sure
    assert report["distance_to_mean"] == pytest.approx(far)
    assert report["distance_to_single"] == pytest.approx(single)
    assert report["agreement_with_single"] == pytest.approx(sum(agreeing) / 200)
    assert report["rank_correlation"] == pytest.approx(spearmanr(agreeing, [max(row) for row in p]).statistic)
    same = ensemble_statistics(merged, [merged] * 3, TAU)
    assert same["distance_to_mean"] == pytest.approx(0, abs=1e-15)
    assert (same["agreement_with_mean"], same["rank_correlation"]) == (1, None)
    assert same["agreeing_confidence"][:3] == [None] * 3


def test_rank_correlation_with_ties():
    a, b = torch.tensor([1, 1, 2, 3, 3, 3]), torch.tensor([0.1, 0.4, 0.4, 0.2, 0.9, 0.9])
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)


def test_what_a_client_reports_of_its_pool():
    config = configure("smoke", method="SAGE", width=0.25, n_probe=500, steps_per_epoch=2)
    method = open_method(config)
    _, row = method.step(method.initial_state())
    clients, present = row["clients"], row["participants"]
    for k in range(config.n_clients):
        assert (clients["n_pool"][k] is None) == (k not in present)
    k = present[0]
    mix = torch.bincount(method.setting.labels[method.setting.pool(k)], minlength=10).double()
    mix /= mix.sum()
    mean = torch.tensor(clients["end_mean"][k]).double()
    assert float(mean.sum()) == pytest.approx(1, abs=1e-5)
    assert clients["end_distance"][k] == pytest.approx(0.5 * float((mean - mix).abs().sum()), abs=1e-5)
    assert clients["mix_entropy"][k] == pytest.approx(-sum(v * math.log(v) for v in mix.tolist() if v))
    prior = -sum(v * math.log(v) for v in mean.tolist() if v)
    assert clients["end_entropy"][k] + clients["end_information"][k] == pytest.approx(prior, abs=1e-4)
