"""``fedcopl-lab federate`` and ``reproduce --shard``."""

import pytest

from fedcopl_lab import configure, engine
from fedcopl_lab.cli import main
from fedcopl_lab.engine import shard_of
from fedcopl_lab.paper import find_items
from fedcopl_lab.store import Store

SMALL = [
    *("--set", "dataset=digits:240"), *("--set", "scheme=iid"), *("--set", "n_clients=3"), *("--set", "rounds=1"),
    *("--set", "local_epochs=1"), *("--set", "n_text=2"), *("--set", "visual_depth=1"), *("--set", "n_visual=2"),
]  # fmt: skip


def test_split_simulate_traffic_collect(tmp_path, capsys):
    folder = str(tmp_path / "federation")
    alone = ["federate", "simulate", "--engine", "loop", "--folder", folder, *SMALL]
    assert main([*alone, "--jobs", "3"]) == 2
    assert "--jobs would do nothing beside --engine loop" in capsys.readouterr().err
    assert main(alone) == 0
    told = capsys.readouterr().out
    assert told.startswith("FedCoPL+CoPL digits:240 iid seed=0: accuracy 0.")
    key = told.split("key ")[1].strip()
    assert Store().run(key).complete
    assert main(["federate", "traffic", f"{folder}/server"]) == 0
    assert capsys.readouterr().out.split() == ["round", "bytes_up", "bytes_down", "1", "1776", "1776"]
    clients = [f"{folder}/client-{k:04d}" for k in range(3)]
    assert main(["federate", "collect", f"{folder}/server", *clients]) == 0
    assert key in capsys.readouterr().out


def test_split_writes_the_folders_and_names_them(tmp_path, capsys):
    assert main(["federate", "split", str(tmp_path / "here"), "--compact", *SMALL]) == 0
    folders = capsys.readouterr().out.split()
    assert [name.rsplit("/", 1)[1] for name in folders] == ["server", "client-0000", "client-0001", "client-0002"]
    assert all((tmp_path / "here" / name.rsplit("/", 1)[1] / "federation.json").is_file() for name in folders)


def test_traffic_of_a_federation_that_has_not_run(tmp_path, capsys):
    assert main(["federate", "traffic", str(tmp_path)]) == 2
    assert "holds no round" in capsys.readouterr().err


def test_what_cannot_be_federated_is_refused(tmp_path, capsys):
    assert main(["federate", "split", str(tmp_path), "--set", "filter_scope=global"]) == 2
    assert "filter_scope='global' needs several clients in one place" in capsys.readouterr().err


def test_a_shard_lists_its_part_of_the_runs(capsys):
    runs = list(dict.fromkeys(config for _, config in find_items(["main Table 6"])[0].runs("smoke", (0,))))
    ask = ["reproduce", "--items", "main Table 6", "--seeds", "0", "--dry-run", "--shard"]
    seen = []
    for part in (1, 2):
        assert main([*ask, f"{part}/2"]) == 0
        lines = capsys.readouterr().out.splitlines()
        listed = [line.split("GB")[1].strip() for line in lines if " GB " in line]
        assert listed == [f"{config.label} aggregate={config.aggregate}" for config in shard_of(runs, part, 2)]
        seen += listed
    assert sorted(seen) == sorted(f"{config.label} aggregate={config.aggregate}" for config in runs)


@pytest.mark.parametrize("shard", ["3", "a/2", "1/", "3/2", "0/2"])
def test_a_shard_that_is_none(shard, capsys):
    assert main(["reproduce", "--items", "main Table 6", "--dry-run", "--shard", shard]) == 2
    assert "shard" in capsys.readouterr().err


def test_a_shard_of_stored_runs_says_what_comes_next(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(engine, "sweep", lambda configs, *rest: list(configs))
    ask = ["reproduce", "--items", "main Table 6", "--seeds", "0", "--quiet", "--out", str(tmp_path)]
    assert main([*ask, "--shard", "1/2"]) == 0
    told = capsys.readouterr().out
    assert "shard 1/2: " in told
    assert "the same command without --shard draws them" in told
    assert not list(tmp_path.glob("*.html"))


def test_configurations_take_one_client_at_a_time_unless_told(tmp_path):
    from fedcopl_lab.extras.federation import Terms

    assert configure("smoke").clients_per_forward == 5
    assert main(["federate", "split", str(tmp_path), *SMALL]) == 0
    assert Terms.read(tmp_path / "server").config.clients_per_forward == 1
