"""Feature packs: what comes out is what went in, replays agree with runs, and a bad pack is refused by name."""

import json

import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._files import read_tensors, tensor_bytes
from fedcopl_lab.cli import main
from fedcopl_lab.extras import packs
from fedcopl_lab.methods import PromptSetting


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return lab.export_features("digits", "tiny", tmp_path_factory.mktemp("pack") / "digits")


@pytest.fixture
def copy(folder, tmp_path):
    """A pack that may be spoilt."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def rewrite(copy, **changes):
    """Change tensors and write the checksum that fits, so that only the content is wrong."""
    parts = read_tensors(copy / packs.TENSORS) | changes
    content = tensor_bytes({name: one for name, one in parts.items() if one is not None})
    (copy / packs.TENSORS).write_bytes(content)
    about = json.loads((copy / packs.ABOUT).read_text())
    (copy / packs.ABOUT).write_text(json.dumps(about | {"features_sha256": packs.hashlib.sha256(content).hexdigest()}))


def test_a_pack_holds_what_the_model_says(folder):
    pack, digits, clip = lab.load_features(folder), lab.load_dataset("digits"), lab.load_clip("tiny")
    torch.testing.assert_close(pack.logits, lab.zero_shot(clip, digits).logits)
    assert torch.equal(pack.labels, digits.labels)
    assert torch.equal(pack.train, digits.train_indices)
    assert torch.equal(pack.test, digits.test_indices)
    assert pack.about["data_sha256"] == digits.sha256
    assert pack.about["environment"]["packages"]["torch"] == torch.__version__.split("+")[0]


@pytest.mark.parametrize(
    "skew", [{"beta": 0.1}, {"beta": 0.5, "seed": 2}, {"scheme": "quantity"}, {"scheme": "iid", "n_clients": 4}]
)
@pytest.mark.parametrize("labeller", ["FPL", "CPL", "CoPL"])
def test_a_replay_is_the_first_label_phase_of_the_run(folder, skew, labeller):
    config = lab.configure("smoke", labeller=labeller, **skew)
    setting = PromptSetting.of(config)
    pack = lab.load_features(folder)
    clients = pack.clients(config)
    assert all(torch.equal(clients[k], setting.train_indices(k)) for k in range(config.n_clients))
    phase = pack.label_phase(config)
    theirs = lab.methods.make_labels(
        [setting.zero_shot_logits[own] for own in clients], config, n_train=setting.n_train, phase=0, seed=config.seed
    )
    assert torch.equal(phase.quota, theirs.quota)
    for mine, other in zip(phase.labels, theirs.labels, strict=True):
        assert torch.equal(mine.indices, other.indices)
        assert torch.equal(mine.labels, other.labels)


def test_a_replay_uploads_the_counts_of_the_run(folder, tmp_path):
    config = lab.configure("smoke", seed=3, seed_scope="prompts", count_noise="laplace", epsilon=0.3, rounds=1)
    run = lab.run(config, lab.store.Store(tmp_path), progress=False)
    assert lab.load_features(folder).label_phase(config).quota.tolist() == run.records()[0]["labels"]["quota"]


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "authors", "seed": 1},
        {"scheme": "quantity", "seed": 3, "class_order": "by_number"},
        {"scheme": "quantity", "mode": "authors", "seed": 2, "fraction": 0.4},
        {"beta": 0.1, "seed": 4, "min_train": 60, "min_test": 30, "test_split": "same_proportions"},
        {"seed": 2, "seed_scope": "prompts"},
    ],
)
def test_its_clients_are_those_of_the_run(folder, settings):
    config = lab.configure("smoke", **settings)
    setting, clients = PromptSetting.of(config), lab.load_features(folder).clients(config)
    assert all(torch.equal(clients[k], setting.train_indices(k)) for k in range(config.n_clients))


def test_clients_with_too_few_images_are_refused_as_the_run_refuses_them(folder):
    config = lab.configure("smoke", scheme="iid", min_train=400)
    for draw in (PromptSetting.of, lab.load_features(folder).clients):
        with pytest.raises(FedCoPLError, match="min_train=400 needs 2000 train images"):
            draw(config)


@pytest.mark.parametrize("settings", [{"dataset": "cifar10"}, {"clip": "tiny-rn"}])
def test_a_configuration_of_other_images_or_another_model_is_refused(folder, settings):
    pack = lab.load_features(folder)
    with pytest.raises(FedCoPLError, match=r"this pack has .* use configure"):
        pack.label_phase(lab.configure("smoke", **settings))


def test_its_table_counts_as_by_hand(folder):
    pack = lab.load_features(folder)
    table = pack.table(["CoPL"], seeds=(3,), n_clients=5, beta=0.1).set_index("labeller")
    config = pack.configure(n_clients=5, beta=0.1, seed=3)
    right = selected = 0
    for own, chosen in zip(pack.clients(config), pack.label_phase(config).labels, strict=True):
        selected += len(chosen)
        right += sum(
            int(pack.labels[own[i]]) == c for i, c in zip(chosen.indices.tolist(), chosen.labels.tolist(), strict=True)
        )
    assert table.loc["CoPL", ["n_selected", "n_right"]].tolist() == [selected, right]
    assert table.loc["argmax", "n_selected"] == len(pack.train)


def test_the_explorer_turns_its_knobs_on_a_pack(folder):
    pack = lab.load_features(folder)
    scores = pack.to_explore(pack.configure(n_clients=5))
    figure = lab.widgets.draw_thresholds(
        lab.widgets.ThresholdParams(dataset=scores.name, client=1, q_conf=0.7), [scores]
    )
    assert figure.axes


def test_the_command_line_writes_and_shows(tmp_path, capsys):
    assert main(["features", "export", "--dataset", "digits", "--clip", "tiny", "--out", str(tmp_path / "p")]) == 0
    assert main(["features", "show", str(tmp_path / "p")]) == 0
    said = capsys.readouterr().out
    assert "FeaturePack(digits by tiny: 1197 train + 600 test images, 10 classes)" in said
    assert main(["features", "show", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (packs.ABOUT, lambda path: path.unlink(), "pack.json not found"),
        (packs.TENSORS, lambda path: path.unlink(), "features.safetensors not found"),
        (packs.ABOUT, lambda path: path.write_text("{"), "pack.json is not valid JSON"),
        (packs.ABOUT, lambda path: path.write_text("[]"), "has no valid format, dataset"),
        (packs.TENSORS, lambda path: path.write_bytes(path.read_bytes()[:999]), "cannot read"),
        (packs.TENSORS, lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\1"), "has the sha256"),
    ],
)
def test_damaged_files_are_refused_by_name(copy, name, change, message):
    change(copy / name)
    with pytest.raises(FedCoPLError, match=message):
        lab.load_features(copy)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": None}, "it has no logits"),
        ({"labels": torch.zeros(3, dtype=torch.long)}, r"labels is \(3,\), expected \(1797,\)"),
        ({"labels": torch.full((1797,), 10)}, "labels holds something else than 0 to 9"),
        ({"train": torch.tensor([0, 1, 1])}, "an image is in the split twice"),
        ({"test": torch.zeros(0, dtype=torch.long)}, "test holds something else"),
        ({"text_features": torch.ones(10, 3)}, r"text_features is \(10, 3\)"),
        ({"logits": torch.full((1797, 10), torch.nan)}, "logits holds numbers that are not finite"),
        ({"logits": torch.zeros(1797, 10)}, "logits differ by"),
        ({"labels": torch.zeros(1797)}, "expected 1 of torch.int64"),
    ],
)
def test_content_that_does_not_fit_is_refused(copy, changes, message):
    rewrite(copy, **changes)
    with pytest.raises(FedCoPLError, match=message):
        lab.load_features(copy)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("format", 2, "has format 2; this version reads 1"),
        ("classes", 10, "has no valid classes"),
        ("features_sha256", None, "has no valid features_sha256"),
        ("logit_scale", "100", "has no valid logit_scale"),
    ],
)
def test_a_field_of_another_version_or_kind(copy, name, value, message):
    about = json.loads((copy / packs.ABOUT).read_text())
    (copy / packs.ABOUT).write_text(json.dumps(about | {name: value}))
    with pytest.raises(FedCoPLError, match=message):
        lab.load_features(copy)
