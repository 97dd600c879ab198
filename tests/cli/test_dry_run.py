"""What ``reproduce`` says before it starts: every run, its cost, and what is not here."""

import pytest

from fedcopl_lab import configure
from fedcopl_lab.cli import _machine, _reproduce, main
from fedcopl_lab.cli._machine import missing_inputs
from fedcopl_lab.paper import find_items, runs_of, verdicts


@pytest.fixture
def nothing_here(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDCOPL_LAB_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path / "runs"))
    return tmp_path


@pytest.mark.parametrize(("asked", "first"), [([], 1), (["--seeds", "all"], None)])
def test_every_run_is_listed_and_none_is_computed(asked, first, nothing_here, capsys):
    assert main(["reproduce", "--items", "main Table 6", "--dry-run", *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    wanted = [config.label for _, config in find_items(["main Table 6"])[0].runs("smoke", first=first)]
    listed = [line.split("GB")[1].strip() for line in lines if " GB " in line]
    assert all(line == label or line.startswith(f"{label} ") for line, label in zip(listed, wanted, strict=True))
    assert len({*listed}) == len(listed)  # runs of one label are told apart by their rarer settings
    assert {f"FedCoPL+CoPL digits β=0.1 seed=0 aggregate={one}" for one in ("none", "both")} <= {*listed}
    assert lines[-1] == "all data and weights are here"
    assert not list((nothing_here / "runs").glob("*/result.json"))


def test_a_younger_setting_tells_a_run_apart_although_the_others_leave_it_out():
    plain, later = configure("smoke", method="SAGE"), configure("smoke", method="SAGE", lr_at_end=0.1)
    assert _machine._changed([plain, later]) == ["", " lr_at_end=0.1"]


def test_what_is_missing_is_named_and_the_exit_says_so(nothing_here, capsys, monkeypatch):
    monkeypatch.setattr(_machine, "_planned", lambda config: (7200.0, 3e9))
    asked = ["reproduce", "--profile", "paper", "--items", "main Table 6", "--seeds", "0", "--dry-run"]
    assert main(asked) == 2
    text = capsys.readouterr().out
    assert "2.0 h   3.0 GB  FedCoPL+CoPL dtd β=0.1 seed=0 aggregate=none (estimated from rates measured now)" in text
    assert "data set dtd: not here; `fedcopl-lab data get dtd`" in text
    assert "weights ViT-B-32: " in text


def test_a_sweep_that_would_stop_in_the_middle_does_not_start(nothing_here, capsys):
    asked = ["reproduce", "--profile", "paper", "--items", "main Table 6", "--out", str(nothing_here / "out")]
    assert main(asked) == 2
    error = capsys.readouterr().err
    assert "these are needed and not on this machine:" in error
    assert all(f"data set {name}: not here" in error for name in ("dtd", "resisc45", "cub", "ucf101"))
    assert not (nothing_here / "runs").exists() or not list((nothing_here / "runs").glob("*/config.json"))


def test_mini_says_how_to_get_its_data_and_which_items_it_has_not(nothing_here, capsys):
    asked = ["reproduce", "--profile", "mini", "--items", "main Table 4", "main Table 6", "--out"]
    assert main([*asked, str(nothing_here / "out")]) == 2
    said = capsys.readouterr()
    assert "fedcopl_main_table4: there is only one small CLIP for photographs" in said.out
    assert "data set cifar10: not here; `fedcopl-lab data get cifar10`" in said.err
    assert "weights" not in said.err
    assert main(["reproduce", "--profile", "mini", "--items", "main Table 4", "--dry-run"]) == 2
    assert "profile mini has no runs of these items" in capsys.readouterr().err


def test_random_weights_and_packaged_data_need_nothing(nothing_here):
    assert missing_inputs([configure("smoke"), configure("smoke", clip="ViT-B-32", weights="random")]) == []


def test_no_more_processes_are_announced_than_there_are_runs(capsys):
    configs = [one for _, _, one in runs_of(find_items(["main Table 6"]), "smoke", (0,))]
    for missing in (configs[:1], configs[:2]):
        _reproduce._announce([], configs, missing, 16, "smoke")
        assert f"on {len(missing)} process(es)" in capsys.readouterr().out


def test_the_papers_claims_are_untested_where_no_data_set_is_here(nothing_here, capsys):
    table = verdicts("paper")
    assert set(table["verdict"]) == {"not tested"}
    assert main(["claims", "--profile", "paper", "--stored"]) == 0


def test_all_seeds_stay_all_beside_numbers(nothing_here, capsys):
    for asked in (["all"], ["all", "3"]):
        assert main(["reproduce", "--items", "main Table 6", "--dry-run", "--seeds", *asked]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[: len(told) // 2] == told[len(told) // 2 :]
