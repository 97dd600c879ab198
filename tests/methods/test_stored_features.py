"""Labels from stored features of a real CLIP: against a slow count and against the committed numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedcopl_lab import FedCoPLError, dirichlet_partition, filter_confident
from fedcopl_lab.methods import StoredFeatures, label_quality, read_features, saturation
from fedcopl_lab.paper import measured_clip_labels

FILE = Path(__file__).resolve().parents[3] / "shared/data/clip_features/openai_vitb32_cifar10_test500.npz"


@pytest.fixture(scope="module")
def features():
    generator = torch.Generator().manual_seed(0)
    texts = torch.randn(10, 32, generator=generator)
    labels = torch.arange(300) % 10
    images = texts[labels] + 2.0 * torch.randn(300, 32, generator=generator)
    return StoredFeatures(images, texts, labels)


def test_fpl_is_counted_as_by_hand(features):
    found = next(line for line in label_quality(features, (0.1,), (4,)) if line["labeller"] == "FPL, few")
    selected = right = 0
    for shard in dirichlet_partition(features.labels.numpy(), features.labels.numpy(), 5, 0.1, 4):
        by_class: dict[int, list[tuple[float, bool]]] = {}
        for image in shard.train.tolist():
            unit = features.images[image] / features.images[image].norm()
            scores = [100 * float(unit @ (text / text.norm())) for text in features.texts]
            best = int(np.argmax(scores))
            confidence = 1 / sum(np.exp(score - max(scores)) for score in scores)
            by_class.setdefault(best, []).append((confidence, best == int(features.labels[image])))
        for pool in by_class.values():
            head = sorted(pool, reverse=True)[:3]
            selected, right = selected + len(head), right + sum(ok for _, ok in head)
    assert (found["n_selected"], found["n_right"]) == (selected, right)
    assert found["label_accuracy"] == right / selected


def test_every_labeller_sees_every_client(features):
    table = pd.DataFrame(label_quality(features, (0.1, 0.05), (0, 1)))
    assert table.groupby(["beta", "seed"])["labeller"].apply(list).map(tuple).nunique() == 1
    assert (table.loc[table["labeller"].isin(["argmax", "FPL"]), "n_selected"] == 300).all()
    assert table.groupby("labeller")["set_size"].count().loc[lambda n: n > 0].index.tolist() == ["CPL", "CPL, few"]


def test_real_scores_give_the_label_accuracies_of_the_paper_roughly_and_in_its_order():
    found = measured_clip_labels().groupby("labeller")["label_accuracy"].mean()
    printed = {"FPL": 0.906, "CPL": 0.913, "CoPL": 0.957}  # supplement Table 3, CIFAR-10, both β
    assert found["argmax"] < found["CoPL"]
    assert found["FPL"] < found["CPL"] < found["CoPL"]
    assert all(abs(found[name] - value) < 0.04 for name, value in printed.items())


@pytest.mark.skipif(not FILE.is_file(), reason="needs stored features of OpenAI's CLIP, which are not shipped")
def test_the_committed_numbers_come_out_again():
    fresh = pd.DataFrame(label_quality(read_features(FILE)))
    pd.testing.assert_frame_equal(fresh, measured_clip_labels(), check_exact=False, rtol=1e-12)


def test_where_most_float32_confidences_are_ones_the_filter_still_takes_half(features):
    sharp = 10 * features.logits
    counted = saturation(sharp)
    confidence = sharp.softmax(dim=1).amax(dim=1)
    assert counted == {
        "n_images": 300, "n_ones": int((confidence == 1).sum()), "n_levels": len(confidence.unique())
    }  # fmt: skip
    assert counted["n_ones"] > 150
    assert not (confidence > confidence.quantile(0.5)).any(), "a threshold on them takes no image"
    kept = filter_confident(sharp, q_ent=None)
    assert not kept.fallback
    assert int(kept.kept.sum()) == 150


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"labels": np.arange(3)}, "holds no features"),
        (
            {"image_features": np.ones((3, 4)), "text_features": np.ones((2, 5)), "labels": np.zeros(3, int)},
            "do not fit",
        ),
        ({"image_features": np.ones((3, 4)), "text_features": np.ones((2, 4)), "labels": np.full(3, 2)}, "do not fit"),
    ],
)
def test_bad_files(tmp_path, parts, message):
    np.savez(tmp_path / "bad.npz", **parts)
    with pytest.raises(FedCoPLError, match=message):
        read_features(tmp_path / "bad.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off"])
def test_files_that_are_cut_off(tmp_path, content):
    (tmp_path / "cut.npz").write_bytes(content)
    with pytest.raises(FedCoPLError, match="holds no features"):
        read_features(tmp_path / "cut.npz")


def test_no_file(tmp_path):
    with pytest.raises(FedCoPLError, match="holds no features"):
        read_features(tmp_path / "none.npz")
