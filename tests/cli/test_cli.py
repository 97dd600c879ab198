"""The command line: what it writes, and that bad input is one clear line, exit 2, nothing lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab.cli import COMMANDS, _export, main
from fedcopl_lab.cli.options import figures_folder, parse_settings
from fedcopl_lab.paper import SEEDS, find_items, verdicts
from fedcopl_lab.store import Store

SHORT = ["--set", "rounds=1", "--set", "local_epochs=1"]


@pytest.fixture
def fails(capsys):
    def check(*arguments, saying):
        assert main(list(arguments)) == 2
        shown = capsys.readouterr()
        *bars, complaint = shown.err.replace("\r", "\n").splitlines()
        assert complaint.startswith("fedcopl-lab: ")
        assert saying in complaint
        assert all("round/s" in bar or not bar.strip() for bar in bars), "one line beside the bar, no traceback"
        return shown

    return check


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["run", "--set", "q_conf=1.5"], "q_conf=1.5 is not valid; expected a quantile level in [0, 1]"),
        (["run", "--set", "q_ent=-0.1"], "q_ent=-0.1 is not valid"),
        (["run", "--set", "dataset=digit"], "did you mean 'digits'"),
        (["run", "--set", "dataset=cifar10"], "fedcopl-lab data get cifar10"),
        (["run", "--set", "clip=ViT-B-32"], "OpenAI's CLIP weights"),
        (["run", "--method", "FedCopl"], "did you mean 'FedCoPL'"),
        (["run", "--mode", "author"], "choose one of paper, authors"),
        (["run", "--profile", "smok"], "did you mean 'smoke'"),
        (["run", "--set", "method=SAGE", "--set", "beta=0.1"], "beta"),
        (["plan", "--set", "profile=mimi"], "did you mean 'mini'"),
        (["plan", "--items", "fedcopl_main_fig1"], "profile smoke has no runs of these items"),
        (["plan", "--items", "fedcopl_main_fig1", "--memory", "24"], "profile smoke has no runs of these items"),
        (["bench", "sage", "--method", "FedDure"], "--method names the methods of --clients; give both"),
        (["plan", "--memory", "0"], "--memory 0 is no memory of a card"),
        (["plan", "--memory", "24", "--rate", "5"], "--rate would do nothing beside --memory"),
        (["plan", "--method", "SAGE", "--items", "sage"], "--items would do nothing beside --method"),
        (["run", "--set", "method=SAGE", "--set", "use_cdsc=False"], "expected True or False; true or false on"),
        (["run", "--set", "visual_depth=2.5"], "expected a whole number, 0 or more, or None"),
        (["run", "--set", "betta=0.1"], "did you mean 'beta'"),
        (["run", "--set", "beta"], "expected NAME=VALUE"),
        (["run", "--set", "beta=-1.5"], "beta=-1.5 is not valid; expected a positive Dirichlet concentration"),
        (["run", "--set", "n_clients=5000"], "clients"),
        (["run", "--set", "n_text=40"], "context"),
        (["run", "--set", "visual_depth=9"], "visual_depth=9; expected 1 to 4"),
        (["run", "--device", "tpu"], "choose cpu, cuda or mps"),
        (["run", "--set", "device=tpu"], "device='tpu' is unknown"),
        (["reproduce", "--items", "fedcopl_main_table9"], "unknown item"),
        (["reproduce", "--profile", "huge"], "unknown profile 'huge'"),
        (["reproduce", "--committed", "--dry-run"], "--dry-run would do nothing beside --committed"),
        (["reproduce", "--committed", "--seeds", "1", "--shard", "1/2", "--engine", "ray"], "--engine, --seeds, --sh"),
        (["reproduce", "--committed", "--jobs", "2", "--device", "cpu", "--budget", "0s"], "--jobs, --device, --bud"),
        (["reproduce", "--budget", "1m", "--engine", "ray"], "--engine would do nothing beside --budget"),
        (["reproduce", "--budget", "1m", "--shard", "1/2"], "--shard would do nothing beside --budget"),
        (["claims", "--study", "x", "--gates", "--paper", "sage"], "--paper, --gates would do nothing beside --study"),
        (["claims", "--study", "x", "--stored", "--profile", "mini"], "--profile, --stored would do nothing"),
        (["runs", "list", "--where", "colour=red"], "unknown settings"),
        (["runs", "show", "ffff"], "0 stored runs start with 'ffff'"),
        (["export", "--profile", "smoke"], "is not stored; run `fedcopl-lab reproduce`"),
        (["train-embedded", "huge", "--out", "x"], "huge"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(fails, arguments, saying, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = lab.run(lab.configure("smoke", method="zero-shot"), progress=False)
    before = {p: p.read_bytes() for p in kept.path.rglob("*") if p.is_file()}
    fails(*arguments, saying=saying)
    assert {p: p.read_bytes() for p in kept.path.rglob("*") if p.is_file()} == before
    assert [run.key for run in Store().runs()] == [kept.key], "no half-made run is left behind"


@pytest.fixture
def small_export(monkeypatch):
    """An export of one table and one claim: all of them take long."""
    monkeypatch.setattr(_export, "ITEMS", find_items(["main Table 1"]))
    monkeypatch.setattr(_export, "verdicts", lambda *given, machine: verdicts(*given, numbers=[12], machine=machine))


def zero_shot_runs(beta: float) -> None:
    for seed in SEEDS:
        lab.run(lab.configure("smoke", method="zero-shot", beta=beta, seed=seed), progress=False)


def test_an_export_into_an_empty_folder_holds_what_is_stored_and_names_the_rest(tmp_path, capsys, small_export):
    assert main(["export", "--add", "--out", str(tmp_path)]) == 2
    assert "no cell of profile smoke is stored at all its seeds" in capsys.readouterr().err
    zero_shot_runs(beta=0.1)
    assert main(["export", "--add", "--out", str(tmp_path)]) == 0
    numbers = pd.read_csv(tmp_path / "smoke.csv")
    table = numbers[numbers["item"] == "fedcopl_main_table1"]
    assert set(zip(table["series"], table["column"], strict=True)) == {("Zero-shot CLIP", "β = 0.1")}
    assert set(table["seed"]) == set(SEEDS)
    assert len(pd.read_csv(tmp_path / "smoke.runs.csv")) == len(SEEDS)
    cells = len(find_items(["main Table 1"])[0].cells("smoke"))
    said = capsys.readouterr().out
    assert f"not run: fedcopl_main_table1, {cells - 1} of {cells} cells" in said
    assert f"0 runs were committed, {len(SEEDS)} are new" in said


def test_an_export_adds_to_what_another_machine_has_stored(tmp_path, capsys, small_export, monkeypatch):
    folder = tmp_path / "committed"
    zero_shot_runs(beta=0.1)
    assert main(["export", "--add", "--out", str(folder)]) == 0
    before = (folder / "smoke.csv").read_text().splitlines()
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path / "other machine"))
    zero_shot_runs(beta=0.05)
    assert main(["export", "--add", "--out", str(folder)]) == 0
    assert f"{len(SEEDS)} runs were committed, {len(SEEDS)} are new" in capsys.readouterr().out
    assert set(before) < set((folder / "smoke.csv").read_text().splitlines())
    assert len(pd.read_csv(folder / "smoke.runs.csv")) == 2 * len(SEEDS)
    again = {path: path.read_bytes() for path in folder.iterdir()}
    assert main(["export", "--add", "--out", str(folder)]) == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == again


def test_a_store_that_cannot_be_written_is_said(fails, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path / "file" / "runs"))
    fails("run", *SHORT, saying="cannot write")


def test_figures_folder_that_cannot_be_written_is_said(fails, tmp_path):
    (tmp_path / "file").write_text("in the way")
    fails("reproduce", "--items", "fedcopl_supp_fig3", "--out", str(tmp_path / "file"), saying="cannot write")
    assert not Store().runs(), "said before anything was computed"


def test_nan_logits_are_refused_and_say_why(fails, monkeypatch):
    import fedcopl_lab.methods._prompt_setting as setting

    setting._frozen_for.cache_clear()
    monkeypatch.setattr(setting._Frozen, "zero_shot_logits", torch.full((1797, 10), float("nan")))
    fails("run", *SHORT, saying="NaN or infinite")


def test_run_shows_its_rounds_and_is_listed(capsys):
    assert main(["run", "--seed", "3", *SHORT, "--set", "beta=0.05"]) == 0
    shown = capsys.readouterr().out
    assert "FedCoPL+CoPL digits β=0.05 seed=3, complete" in shown
    assert "label_accuracy" in shown
    assert main(["runs", "list", "--where", "beta=0.05"]) == 0
    key = Store().runs()[0].key
    assert key in capsys.readouterr().out
    assert main(["runs", "list", "--where", "beta=0.1"]) == 0
    assert key not in capsys.readouterr().out
    assert main(["runs", "show", key[:6]]) == 0
    assert "weight_decay  0.05" in capsys.readouterr().out


def test_gc_deletes_unfinished_runs_only(capsys):
    run = lab.run(lab.configure("smoke", method="zero-shot"), progress=False)
    unfinished = Store().root / "0123456789abcdef"
    unfinished.mkdir()
    (unfinished / "config.json").write_text((run.path / "config.json").read_text())
    assert main(["runs", "gc"]) == 0
    assert "removed 1 unfinished run(s): 0123456789abcdef" in capsys.readouterr().out
    assert [stored.key for stored in Store().runs()] == [run.key]


def test_reproduce_writes_figures_and_report_and_says_where(capsys, tmp_path):
    out = tmp_path / "figures"
    arguments = ["reproduce", "--items", "fedcopl_supp_fig3", "--out", str(out), "--jobs", "1", "--quiet"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "3 runs, 3 of them to compute" in shown
    assert "cells: " in shown
    assert " claims are judged on runs computed here" in shown
    assert f"report: {out / 'report.html'}" in shown
    for ending in ("pdf", "png", "csv", "json"):
        assert (out / f"fedcopl_supp_fig3.{ending}").stat().st_size > 0
    origin = json.loads((out / "fedcopl_supp_fig3.json").read_text())
    assert sorted(origin["run_keys"]) == sorted(run.key for run in Store().runs())
    assert "<html" in (out / "report.html").read_text()
    first = {p.name: p.read_bytes() for p in out.iterdir()}
    assert main(arguments) == 0
    assert "0 of them to compute" in capsys.readouterr().out
    assert {p.name: p.read_bytes() for p in out.iterdir()} == first, "the same runs give the same files"


def test_a_budget_that_is_over_draws_what_is_committed_and_says_what_stays_unknown(capsys, tmp_path):
    arguments = ["reproduce", "--items", "main Table 6", "--budget", "0s", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "nothing to compare: none of the committed runs" in told
    assert "0 of 83 claims are judged on runs computed here" in told
    assert re.search(r"claims are not: 1-15, 17-18, .*; their \d+ missing runs take", told)
    assert not Store().runs()
    assert "committed: " in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("option", "value", "saying"),
    [
        ("--budget", "soon", "write it as 90s, 30m or 2h"),
        ("--seeds", "every", "write all, or numbers such as 0 1 2"),
        ("--jobs", "-3", "'-3' is no count; write a whole number, 1 or more"),
        ("--jobs", "0", "'0' is no count"),
    ],
)
def test_what_is_no_time_no_seed_and_no_count_is_refused(option, value, saying, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", option, value])
    assert saying in capsys.readouterr().err


def test_committed_numbers_are_drawn_without_a_run(capsys, tmp_path, fails):
    out = tmp_path / "mini"
    chosen = ["reproduce", "--committed", "--profile", "mini", "--out", str(out), "--items"]
    assert main([*chosen, "main Table 6", "main Table 4"]) == 0
    assert f"report: {out / 'report.html'}" in capsys.readouterr().out
    assert {path.name.split(".")[0] for path in out.iterdir()} == {"fedcopl_main_table6", "report"}, (
        "Table 4 has no runs in mini"
    )
    assert not Store().runs()
    fails(*chosen, "main Table 4", saying="not enough of these items is committed in profile mini")
    paper = ["reproduce", "--committed", "--profile", "paper", "--out", str(out)]
    fails(*paper, saying="profiles with numbers: mini, smoke")


def test_doctor_says_what_is_there_twice_in_one_process(capsys):
    assert [main(["doctor"]), main(["doctor"])] == [0, 0]
    shown = capsys.readouterr().out
    for line in ("Python", "packages", "GPU", "data: digits", "weights: tiny", "run store", "disk"):
        assert line in shown
    assert "Everything the smoke profile needs is there." in shown


def test_doctor_fails_when_the_weights_are_damaged(capsys, monkeypatch, tmp_path):
    import fedcopl_lab.models
    from fedcopl_lab.models import resnet8

    def damaged(name):
        raise lab.FedCoPLError("tiny.safetensors has sha256 0, expected 1; reinstall")

    monkeypatch.setattr(fedcopl_lab.models, "load_clip", damaged, raising=False)
    monkeypatch.setattr(resnet8, "EMBEDDED_FOLDER", tmp_path)
    resnet8._trained_body.cache_clear()
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert all(f"[NO] weights: {name}" in shown for name in ("tiny", "mini-traits", "SAGE's start"))


def test_help_teaches_and_loads_no_command():
    code = "import sys\nfrom fedcopl_lab.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fedcopl-lab reproduce --items" in done.stdout
    assert all(f"\n    {name}" in done.stdout for name in COMMANDS)
    loaded = done.stdout.splitlines()[-1].split()
    slow = ("torch", "matplotlib", "pandas", "fedcopl_lab.report", "fedcopl_lab.paper", "fedcopl_lab.extras")
    assert [name for name in loaded if name.startswith(slow)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_options_when_asked(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"usage: fedcopl-lab {name}" in capsys.readouterr().out


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m fedcopl_lab data list | true"
    assert subprocess.run(command, shell=True, capture_output=True).stderr == b""


@pytest.mark.long
def test_ctrl_c_ends_with_one_line_and_130_and_the_next_call_goes_on(tmp_path):
    environment = {**os.environ, "FEDCOPL_LAB_HOME": str(tmp_path / "runs"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "fedcopl_lab", "reproduce", "--items", "fedcopl_main_table6"]
    arguments = [*command, "--seeds", "0", "--out", str(tmp_path / "figures"), "--quiet"]
    # a test run that was itself started in the background ignores Ctrl-C, and a child would inherit that
    process = subprocess.Popen(
        arguments, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    store = Store(tmp_path / "runs")
    deadline = time.monotonic() + 120
    while not any(run.rounds_done() for run in store.runs()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; what was stored is kept, and a run goes on from there" in complaint
    assert "Traceback" not in complaint
    assert any(run.rounds_done() for run in store.runs())


def test_settings_are_values_and_a_labeller_is_a_word_and_each_profile_has_its_figures():
    assert figures_folder("mini") == figures_folder() / "mini"
    assert figures_folder("smoke") == figures_folder()
    assert figures_folder("mini", here=True) == figures_folder() / "here" / "mini"
    found = parse_settings(["labeller=true", "beta=0.05", "q_conf=null", "dataset=digits", "prox_gradient=true"])
    expected = {"labeller": "true", "beta": 0.05, "q_conf": None, "dataset": "digits", "prox_gradient": True}
    assert found == expected
