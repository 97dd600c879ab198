"""Virtual clients: drawn again for every letter, with their state on the disk."""

import pytest
import torch

from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab.extras.federation import VirtualClients, measure_virtual, virtual_terms
from fedcopl_lab.extras.federation._virtual import drawn_images

MANY = {
    "n_clients": 24, "participation": 0.25, "rounds": 2, "local_epochs": 1, "refresh_every": 0,
    "clients_per_forward": 1,
}  # fmt: skip


def test_a_clients_images_depend_on_seed_and_client_alone(tmp_path):
    terms = virtual_terms(configure("smoke", **MANY), tmp_path)
    first, again, other = (drawn_images(terms, client, 4).pixels for client in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_many_clients_run_and_are_measured(tmp_path):
    found = measure_virtual(configure("smoke", **MANY), tmp_path, progress=False)
    assert found["clients"] == 24
    assert found["letters"]["score"]["number"] == found["letters"]["select"]["number"] == 24
    assert 0 < found["letters"]["train"]["number"] == sum(found["participants"]) <= 12
    visual = 4 * 3 * 5 * 64
    assert found["bytes_up"] == [24 * 80 + found["participants"][0] * visual, found["participants"][1] * visual]
    assert found["peak_bytes"] > 0
    # a journal keeps the last two entries of each kind
    assert found["journal_files"] == 24 * 3 + found["letters"]["train"]["number"]


def test_a_virtual_client_finds_its_text_prompt_again(tmp_path):
    from fedcopl_lab.extras.federation import serve
    from fedcopl_lab.methods.prompt_client import initial_prompts

    terms = virtual_terms(configure("smoke", **MANY | {"participation": 1.0, "n_clients": 3}), tmp_path)
    clients = VirtualClients(terms, tmp_path / "clients")
    serve(tmp_path / "server", clients, progress=False)
    member = clients.member(1)
    kept = member.journal.latest("train", before=2)["text"]
    assert not torch.equal(kept, initial_prompts(member.half.setting)["text"])
    assert torch.equal(member.half.prompts(2, {})["text"], kept)


def test_other_data_cannot_be_drawn(tmp_path):
    with pytest.raises(FedCoPLError, match="virtual clients draw printed digits, not cifar10"):
        virtual_terms(configure("paper", dataset="cifar10", clients_per_forward=1), tmp_path)
