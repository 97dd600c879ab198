"""A federation of separate clients stores the bytes of one process, and sends what the formula says."""

import pytest

import fedcopl_lab as lab
from fedcopl_lab.engine.federated import Loopback, client_folder, collect, open_member, serve, split
from fedcopl_lab.store import Store

PROMPTS = {"rounds": 2, "local_epochs": 1, "refresh_every": 1, "n_clients": 3, "clients_per_forward": 1}
MODELS = {"rounds": 2, "width": 0.25, "n_probe": 20, "steps_per_epoch": 2, "threshold": 0.5, "participation": 0.1}


def promised_bytes(run):
    """What the run key promises: everything but where and how fast it was computed."""
    files = sorted(p for p in run.path.rglob("*") if p.is_file() and p.name not in ("environment.json", "seconds.json"))
    return {str(p.relative_to(run.path)): p.read_bytes() for p in files}


def federated(config, folder, **options):
    """The server's record of a federation in this process, and all folders."""
    folders = split(config, folder)
    members = [open_member(client_folder(folder, k)) for k in range(config.n_clients)]
    return serve(folders[0], Loopback(members, **options), progress=False), folders


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("FedCoPL", {}),
        ("FedCoPL", {"momentum_state": "per_client", "participation": 0.7, "refresh_every": 2, "rounds": 3}),
        ("FedCoPL", {"count_noise": "laplace", "epsilon": 1.0, "relabel_with": "local"}),
        ("FedCoPL", {"allocation": "none", "weight_by": "selected"}),
        ("PromptFL", {}),
        ("PromptProx", {"labeller": "CPL"}),
        ("FedOTP", {"labeller": "CoPL"}),
        ("pFedPrompt", {}),
        ("SAGE", {}),
        ("SAGE", {"bn": "recalibrate"}),
        ("SAGE", {"bn": "local"}),
        ("FedMatch", {}),
        ("FedDB", {}),
        ("FedLabel", {}),
        ("FedAvg-SL", {}),
    ],
)
def test_separate_clients_store_the_bytes_of_one_process(tmp_path, method, changes):
    common = MODELS if method in ("SAGE", "FedMatch", "FedDB", "FedLabel", "FedAvg-SL") else PROMPTS
    config = lab.configure("smoke", method=method, **{**common, **changes})
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    log, folders = federated(config, tmp_path / "federation")
    collected = collect(folders[0], folders[1:], Store(tmp_path / "collected"))
    assert promised_bytes(collected) == promised_bytes(local)
    if "accuracy" in log.result and log.result["accuracy"] is not None:
        assert log.result["accuracy"] == pytest.approx(local.result["accuracy"])
