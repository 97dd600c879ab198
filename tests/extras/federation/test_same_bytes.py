"""A federation of separate clients stores the bytes of one process, and sends what the formula says."""

import os

import pytest
import torch
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._files import read_json
from fedcopl_lab.extras.federation import Letter, Loopback, collect, serve, split
from fedcopl_lab.store import Store

LARGER = {
    "dataset": "digits:480", "scheme": "dirichlet", "beta": 0.5, "n_text": 8, "visual_depth": 3, "n_visual": 5,
    "rounds": 1,
}  # fmt: skip
MODELS = {
    "method": "SAGE", "rounds": 2, "width": 0.25, "n_probe": 20, "steps_per_epoch": 2, "threshold": 0.5,
    "participation": 0.2, "clients_per_forward": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"momentum_state": "per_client", "participation": 0.7, "refresh_every": 2, "rounds": 3},
        {"method": "FedOTP", "labeller": "CoPL"},
        MODELS | {"method": "FedMatch"},
        MODELS | {"partition_mode": "authors"},  # whose participants come in no order
        *(
            pytest.param(changes, marks=pytest.mark.long)
            for changes in (
                LARGER,
                {"count_noise": "laplace", "epsilon": 1.0, "relabel_with": "local"},
                {"allocation": "none", "weight_by": "selected"},
                {"method": "PromptFL"},
                {"method": "PromptProx", "labeller": "CPL", "candidate_scope": "client"},
                {"method": "pFedPrompt"},
                MODELS,
                MODELS | {"bn": "recalibrate"},
                MODELS | {"bn": "local"},
                MODELS | {"method": "FedAvg-SL"},
            )
        ),
    ],
)
def test_separate_clients_store_the_bytes_of_one_process(tmp_path, small, federated, changes):
    models = "width" in changes
    config = lab.configure("smoke", **changes) if models else small(**changes)
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    log, folders = federated(config)
    collected = collect(folders[0], folders[1:], Store(tmp_path / "collected"))
    assert promised_bytes(collected) == promised_bytes(local)
    # the formula leaves out that a label phase sends the prompts to all clients, and recalibration's second exchange
    if changes.get("bn") != "recalibrate" if models else config.participation == 1:
        assert log.rows["bytes_up"].tolist() == local.rows["bytes_up"].tolist()
        assert log.rows["bytes_down"].tolist() == local.rows["bytes_down"].tolist()
    if not models:
        told = read_json(folders[0] / "closing.json")  # as the clients report it
        assert told["accuracy"] == pytest.approx(local.result["accuracy"])
        assert told["accuracy_sample_mean"] == pytest.approx(local.result["accuracy_sample_mean"])


@pytest.mark.parametrize("method", ["FedCoPL", "FedOTP"])
def test_bytes_sent_are_those_of_the_formula(small, federated, method):
    config = small(method=method, labeller="CoPL", rounds=1)
    log, _ = federated(config)
    shared = {"text": 2 * 64, "visual": 1 * 2 * 64}
    floats = sum(shared[part] for part in config.shared)
    # 4 bytes a number, and a count of 8 bytes for each of the ten classes
    per_client = 4 * floats + 8 * 10
    row = log.records()[0]
    assert row["bytes_up_by_client"] == {str(k): per_client for k in range(3)}
    assert row["bytes_down_by_client"] == {str(k): per_client for k in range(3)}


def test_the_servers_folder_holds_no_image_no_text_prompt_and_no_label(small, federated):
    log, folders = federated(small())
    assert sorted(path.name for path in folders[0].iterdir()) == [".lock", "closing.json", "federation.json", "log"]
    assert sorted(log.load_state()) == ["round", "selected", "server.visual", "wanted"]


def test_a_clients_folder_holds_its_own_images_and_the_labels_of_its_tests(small, tmp_path):
    from fedcopl_lab.extras.federation._federation_files import UNKNOWN, ClientImages
    from fedcopl_lab.methods import open_method

    config = small()
    federation = open_method(config).federation
    seen = []
    for k, folder in enumerate(split(config, tmp_path / "federation")[1:]):
        own = ClientImages.read(folder)
        assert os.name == "nt" or folder.stat().st_mode & 0o777 == 0o700
        assert own.positions.tolist() == sorted([*federation.shards[k].train, *federation.shards[k].test])
        known = own.positions[own.labels != UNKNOWN]
        assert known.tolist() == sorted(federation.shards[k].test)
        assert (own.pixels == federation.dataset.images[own.positions]).all()
        seen += own.positions.tolist()
    assert len(seen) == len(set(seen)) == len(federation.dataset)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"clients_per_forward": 3}, "clients_per_forward=3 needs several clients in one place"),
        ({"filter_scope": "global"}, "filter_scope='global'"),
        ({"labeller": "true"}, "labeller='true'"),
        ({"count_noise": "shuffled"}, "count_noise='shuffled'"),
        ({"momentum_state": "shared"}, "takes 'reset' or 'per_client'"),
    ],
)
def test_what_needs_several_clients_in_one_place_is_refused(small, tmp_path, changes, text):
    with pytest.raises(FedCoPLError, match=text):
        split(small(**changes), tmp_path)


def test_clients_that_go_through_their_own_images_only_say_almost_the_same(tmp_path, small, opened):
    config = small()
    whole, compact = (split(config, tmp_path / str(aligned), aligned=aligned) for aligned in (True, False))
    members = (opened(config, tmp_path / name) for name in ("True", "False"))
    for k, (one, other) in enumerate(zip(*members, strict=True)):
        assert other.images.positions.tolist() == list(range(len(one.images.positions)))
        scores = [member.half.work(Letter("score", 0))["logits"] for member in (one, other)]
        torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-3)
        assert (one.images.pixels == other.images.pixels).all()
        assert len(one.images.shard.train) == len(other.images.shard.train), k
    log = serve(compact[0], Loopback(opened(config, tmp_path / "False")), progress=False)
    assert log.complete
    with pytest.raises(FedCoPLError, match="split with aligned=False"):
        collect(compact[0], compact[1:])
    assert whole[0].is_dir()


def test_secret_noise_is_drawn_anew_and_seeded_noise_is_not(tmp_path, small, opened):
    config = small(count_noise="laplace", epsilon=0.1)
    told = []
    for name, secret in (("one", True), ("two", True), ("three", False), ("four", False)):
        split(config, tmp_path / name, secret_noise=secret)
        told.append(opened(config, tmp_path / name)[0].answer(Letter("score", 0)).tensors["counts"].tolist())
    assert told[0] != told[1]
    assert told[2] == told[3]
    with pytest.raises(FedCoPLError, match="secret_noise=True without noise"):
        split(small(), tmp_path / "five", secret_noise=True)
