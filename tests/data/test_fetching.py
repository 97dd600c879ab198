"""What is fetched without being named: weights when they are loaded, and what a sweep needs; from a local server."""

import hashlib

import pytest

from fedcopl_lab import FedCoPLError, configure
from fedcopl_lab.cli import _machine
from fedcopl_lab.cli._machine import chosen_device, fetch_missing, on_this_machine
from fedcopl_lab.data import download_of, get, state_of, verify
from fedcopl_lab.models.openai_weights import fetch_weights

CONTENT = b"stands for 338 MB of weights"
CONFIGS = [configure("paper", dataset="digits")]


@pytest.fixture
def published(server, own_manifests, monkeypatch):
    """Weights on the local server, under their pinned checksum."""
    server.files["ViT-B-32.pt"] = CONTENT
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    address = (r"^urls = [^\n]*", f'urls = ["{server.url}ViT-B-32.pt"]')
    own_manifests.edit("ViT-B-32", address, (r'"40d365[0-9a-f]+"', f'"{sha256}"'))
    monkeypatch.delenv("FEDCOPL_LAB_OFFLINE")
    return server


def test_weights_are_fetched_once_and_it_is_said(published, capsys):
    path = fetch_weights("ViT-B-32")
    assert path.read_bytes() == CONTENT
    assert fetch_weights("ViT-B-32") == path
    assert len(published.requests) == 1
    assert (download_of("ViT-B-32").kind, verify("ViT-B-32").checked) == ("weights", 1)
    assert "fetching the weights of ViT-B-32 into" in capsys.readouterr().err


def test_another_file_than_the_pinned_one_is_refused(published):
    published.files["ViT-B-32.pt"] = CONTENT + b"!"
    with pytest.raises(FedCoPLError, match=r"not on this machine.*fetching failed.*sha256"):
        fetch_weights("ViT-B-32")


def test_nothing_is_fetched_where_that_is_forbidden(published, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_OFFLINE", "1")
    with pytest.raises(FedCoPLError, match="data get ViT-B-32"):
        fetch_weights("ViT-B-32")
    fetch_missing(CONFIGS)
    assert not published.requests


def test_a_sweep_fetches_what_it_needs_after_a_question(published, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(_machine, "ASK_ABOVE", 0)
        with pytest.raises(FedCoPLError, match="nothing was fetched; say --yes"):
            fetch_missing(CONFIGS)
        assert not published.requests
        fetch_missing(CONFIGS, agreed=True)
    assert "to fetch, about 0.5 GB: ViT-B-32" in capsys.readouterr().out
    fetch_missing(CONFIGS)
    assert len(published.requests) == 1


@pytest.mark.parametrize("folder", ["chosen", ".cache/clip"])
def test_weights_that_lie_elsewhere_are_here(published, tmp_path, monkeypatch, folder):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEDCOPL_LAB_WEIGHTS", str(tmp_path / "chosen"))
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "ViT-B-32.pt").write_bytes(CONTENT)
    fetch_missing(CONFIGS)
    assert not published.requests
    assert (state_of("ViT-B-32"), state_of("RN50"), verify("ViT-B-32").problems) == ("here", "absent", ())
    assert get("ViT-B-32", progress=False) == tmp_path / folder
    assert not published.requests
    weights = tmp_path / folder / "ViT-B-32.pt"
    weights.write_bytes(CONTENT[::-1])
    with pytest.raises(FedCoPLError, match="sha256"):
        get("ViT-B-32", progress=False)
    get("ViT-B-32", replace=True, progress=False)
    assert (weights.read_bytes(), weights.with_name("ViT-B-32.pt.bad").read_bytes()) == (CONTENT, CONTENT[::-1])


def test_what_must_be_placed_by_hand_is_named(own_manifests, capsys):
    fetch_missing([configure("paper", dataset="ucf101", weights="random")])
    assert "by hand" in capsys.readouterr().out


def test_the_device_is_chosen_for_the_paper_profile_alone(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert [chosen_device(None, profile) for profile in ("smoke", "mini", "paper")] == ["cpu", "cpu", "cuda"]
    assert chosen_device("cpu", "paper") == "cpu"
    assert on_this_machine("cudax")(configure("smoke")).device == "cudax", "no card is asked; the run refuses the name"
