"""The Flower apps, with and without SecAgg+, through a grid in this process."""

from dataclasses import replace

import pytest
import torch
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError, aggregate
from fedcopl_lab._files import read_json
from fedcopl_lab.extras.federation import Journal, client_folder, collect, serve, split
from fedcopl_lab.extras.federation.flower import FlowerCarrier, client_app
from fedcopl_lab.store import Store

pytest.importorskip("flwr", reason="the extra cluster is not installed")
pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture
def carried(tmp_path, direct_grid):
    """Function: a federation through Flower's apps; the server's record, and all folders."""

    def run(config, carrier=FlowerCarrier, dead=(), patience=0.5, fails=(), n_nodes=None, **options):
        folders = split(config, tmp_path / "federation")
        grid = direct_grid(
            client_app(tmp_path / "federation", **options), n_nodes or config.n_clients, dead, fails=fails
        )
        return serve(folders[0], carrier(grid, lab_key(folders), patience, 0.01), False), folders

    return run


def lab_key(folders):
    return read_json(folders[0] / "federation.json")["key"]


def test_a_dead_node_is_left_out(small, carried):
    log, _ = carried(small(rounds=1), dead=[(1001, 4)])  # hello, score, select; the letter to train is lost
    row = log.records()[0]
    assert row["answered"] == [0, 2]
    assert row["faults"] == [{"client": 1, "kind": "train", "what": "did not answer in time"}]


def test_a_letter_that_a_node_fails_at_is_sent_again(tmp_path, small, carried):
    config = small(rounds=1)
    log, folders = carried(config, fails=[(1001, 4), (1001, 5)])  # hello, score, select; twice the letter to train
    assert log.records()[0]["answered"] == [0, 1, 2]
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    assert promised_bytes(collect(folders[0], folders[1:], Store(tmp_path / "collected"))) == promised_bytes(local)


def test_a_node_that_fails_every_time_is_left_out(small, carried):
    log, _ = carried(small(rounds=1), fails=[(1001, number) for number in (4, 5, 6)])
    row = log.records()[0]
    assert row["answered"] == [0, 2]
    assert row["faults"] == [{"client": 1, "kind": "train", "what": "refused: its node failed (ClientApp raised)"}]


def test_a_client_without_a_node_is_sent_nothing(small, carried):
    log, _ = carried(small(rounds=1), n_nodes=2)
    row = log.records()[0]
    assert row["answered"] == [0, 1]
    assert sorted(row["bytes_down_by_client"]) == ["0", "1"]
    assert {"client": 2, "kind": "score", "what": "no node holds its files"} in row["faults"]


def test_a_node_speaks_for_its_own_client_alone(small, carried, monkeypatch):
    from fedcopl_lab.extras.federation import Member

    honest = Member.answer

    def as_client_0(self, letter):
        answer = honest(self, letter)
        return replace(answer, client=0) if (letter.kind, self.client) == ("train", 1) else answer

    monkeypatch.setattr(Member, "answer", as_client_0)
    row = carried(small(rounds=1))[0].records()[0]
    assert row["answered"] == [0, 2]
    assert row["faults"] == [{"client": 1, "kind": "train", "what": "refused: its node answered for client 0"}]


def test_an_answer_that_cannot_be_read_ends_nothing(small, carried, monkeypatch):
    from fedcopl_lab.extras.federation.flower import _carrier

    honest = _carrier.answer_records

    def headless(answer):
        records = honest(answer)
        if (answer.kind, answer.client) == ("train", 1):
            del records["head"]
        return records

    monkeypatch.setattr(_carrier, "answer_records", headless)
    row = carried(small(rounds=1))[0].records()[0]
    assert row["answered"] == [0, 2]
    assert "refused: its answer cannot be read (KeyError" in row["faults"][0]["what"]


@pytest.mark.parametrize(
    ("changes", "n_nodes"), [({"n_clients": 2}, None), ({"labeller": "FPL", "method": "PromptFL"}, 2)]
)
def test_two_clients_are_too_few_to_hide_among(small, carried, changes, n_nodes):
    from fedcopl_lab.extras.federation.flower._secure import SecureCarrier

    with pytest.raises(FedCoPLError, match="2 clients take part; secure aggregation needs 3 or more"):
        carried(small(rounds=1, **changes), SecureCarrier, n_nodes=n_nodes, secure=True)


def test_the_secure_mean_is_the_mean_up_to_rounding(small, carried):
    from fedcopl_lab.extras.federation.flower._secure import CLIPPING, LEVELS, SecureCarrier

    log, folders = carried(small(rounds=1), SecureCarrier, secure=True)
    row = log.records()[0]
    assert row["secure"]
    assert row["answered"] == [0, 1, 2]
    sent = torch.stack([Journal(folders[1 + k] / "journal").read("train", 0)["visual"] for k in range(3)])
    mean = aggregate(sent, torch.tensor(row["weights"]))
    got = log.load_state()["server.visual"]
    # each of three clients rounds its weighted prompt to a level and its weight to one
    step = 2 * CLIPPING / LEVELS * max(row["weights"]) / sum(row["weights"])
    assert (got - mean).abs().max() <= 3 * step + sent.abs().max() * 3 / LEVELS + 1e-6
    assert not torch.equal(got, mean)
    with pytest.raises(FedCoPLError, match="not the run key's numbers"):
        collect(folders[0], folders[1:])


def test_what_a_client_sends_under_secure_aggregation_is_masked(small, carried, direct_grid, monkeypatch):
    from flwr.common import bytes_to_ndarray

    from fedcopl_lab.extras.federation.flower._secure import SecureCarrier

    seen = []
    answered = direct_grid.send_and_receive

    def listening(self, messages, *, timeout=None):
        replies = answered(self, messages, timeout=timeout)
        seen.extend(replies)
        return replies

    monkeypatch.setattr(direct_grid, "send_and_receive", listening)
    _, folders = carried(small(rounds=1), SecureCarrier, secure=True)
    configs = [reply.content["secaggplus_configs"] for reply in seen]
    masked = [config["masked_params"] for config in configs if "masked_params" in config]
    assert len(masked) == 3
    visual = Journal(folders[1] / "journal").read("train", 0)["visual"].double().flatten()
    for one in masked:
        numbers = torch.from_numpy(bytes_to_ndarray(one[1]).astype("float64")).flatten()
        assert abs(float(torch.corrcoef(torch.stack([numbers, visual]))[0, 1])) < 0.4  # 192 numbers: 5 deviations
    assert all(not record for r in seen for record in r.content.array_records.values())


def test_a_client_does_not_send_what_would_be_cut_off():
    from fedcopl_lab.extras.federation import Answer
    from fedcopl_lab.extras.federation.flower._secure import secure_answer

    with pytest.raises(FedCoPLError, match=r"a prompt holds 9\.0; secure aggregation sends numbers up to 8\.0"):
        secure_answer(Answer(0, "train", 0, {"visual": torch.tensor([9.0])}, {"weight": 1}), None)


def test_a_client_without_a_folder_says_where_it_is_named(direct_grid):
    from flwr.app import ConfigRecord, Message, RecordDict

    grid = direct_grid(client_app(), 1)
    with pytest.raises(FedCoPLError, match="--node-config"):
        grid.push_messages([Message(RecordDict({"hello": ConfigRecord({"key": "x"})}), 1000, "query")])


def test_a_client_of_another_run_is_not_taken(tmp_path, small, direct_grid):
    config = small(rounds=1)
    split(config, tmp_path)
    carrier = FlowerCarrier(direct_grid(client_app(tmp_path), 3), "another run", patience=0.2, poll=0.01)
    carrier._find({0, 1, 2})
    assert carrier._nodes == {}
    assert client_folder(tmp_path, 0).is_dir()
