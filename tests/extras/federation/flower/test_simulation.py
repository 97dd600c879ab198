"""Flower's simulation stores the bytes of the local engine; what crosses the wire is what the letters hold."""

import json

import pytest
import torch
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab.extras.federation import Answer, Letter
from fedcopl_lab.store import Run, Store

pytest.importorskip("flwr", reason="the extra cluster is not installed")
pytestmark = [pytest.mark.cluster, pytest.mark.long]

METHODS = ("FedCoPL", "PromptFL", "SAGE")

PROMPTS = {"rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_clients": 3, "clients_per_forward": 1}
MODELS = {
    "rounds": 2, "width": 0.25, "n_probe": 20, "steps_per_epoch": 2, "threshold": 0.5, "n_clients": 5,
    "clients_per_forward": 1,
}  # fmt: skip


SIMULATE = """
import json, sys
from fedcopl_lab.config import config_from
from fedcopl_lab.extras.federation.flower import simulate
from fedcopl_lab.store import Store

for settings in sys.argv[2:]:
    config = config_from(json.loads(settings))
    at_a_time = 2 if config.method == "FedCoPL" else 1  # each process loads torch, which takes longer than its letters
    simulate(config, Store(f"{sys.argv[1]}/simulated"), f"{sys.argv[1]}/{config.method}", at_a_time)
"""


def config_of(method):
    return lab.configure("smoke", method=method, **(MODELS if method == "SAGE" else PROMPTS))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory, apart):
    """The folder of three simulated federations, of one process."""
    folder = tmp_path_factory.mktemp("simulated")
    apart(SIMULATE, folder, *(json.dumps(config_of(method).as_dict()) for method in METHODS), seconds=300)
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_simulation_stores_the_bytes_of_one_process(tmp_path, simulated, method):
    config = config_of(method)
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    assert promised_bytes(Store(simulated / "simulated").run(local.key)) == promised_bytes(local)
    log = Run(simulated / method / "server" / "log")
    assert log.rows["bytes_up"].tolist() == local.rows["bytes_up"].tolist()
    assert log.rows["bytes_down"].tolist() == local.rows["bytes_down"].tolist()
    # the envelope: names, shapes and a header for each tensor
    assert (log.rows["wire_up"] > log.rows["bytes_up"]).all()
    n_tensors = 40 if method == "SAGE" else 3
    assert (log.rows["wire_up"] < log.rows["bytes_up"] + 1000 * n_tensors * config.n_clients).all()


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"a": torch.randn(2, 3), "b": torch.tensor(7), "c": torch.tensor([True, False])},
        {"one": torch.zeros(0, 4), "two": torch.randn(1, 2).double()},
    ],
)
def test_letters_and_answers_survive_the_records(tensors):
    from fedcopl_lab.extras.federation.flower._carrier import answer_of, answer_records, letter_of, to_records

    letter = Letter("train", 3, tensors)
    assert letter_of(to_records(letter, "key"), "key").digest == letter.digest
    answer = Answer(2, "train", 3, tensors, {"selected": 5}, "")
    again = answer_of(answer_records(answer))
    assert (again.client, again.kind, again.round, again.numbers) == (2, "train", 3, {"selected": 5})
    assert {name: value.dtype for name, value in again.tensors.items()} == {n: v.dtype for n, v in tensors.items()}
    assert all(torch.equal(again.tensors[name], value) for name, value in tensors.items())


def test_a_letter_of_another_run_is_refused():
    from fedcopl_lab.extras.federation.flower._carrier import letter_of, to_records

    with pytest.raises(lab.FedCoPLError, match="of run one, this client's files are of run other"):
        letter_of(to_records(Letter("train", 0), "one"), "other")
