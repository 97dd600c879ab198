"""Rows as they come: each is stored before the callback sees it, and what the callback does harms no run."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.store import Store, single_numbers

CONFIG = lab.configure("smoke", rounds=3, local_epochs=1, refresh_every=0, n_text=2, n_visual=1)
ZERO_SHOT = lab.configure("smoke", method="zero-shot")


def test_every_row_once_stored_ones_first(store):
    seen = []
    run = lab.run(CONFIG, store, progress=False, on_round=seen.append)
    assert seen == [single_numbers(row) for row in run.records()]
    again = []
    lab.run(CONFIG, store, progress=False, on_round=again.append)
    assert again == seen


def test_a_callback_that_raises_leaves_a_run_that_goes_on(store, tmp_path):
    def stop(row):
        seen.append(row["round"])
        if row["round"] == 2 and not told:
            told.append(row)
            raise RuntimeError("the tracker is down")

    seen, told = [], []
    with pytest.raises(RuntimeError, match="tracker is down"):
        lab.run(CONFIG, store, progress=False, on_round=stop)
    [kept] = store.runs()
    assert kept.rounds_done() == 2, "the row was stored before the callback saw it"
    assert not kept.complete
    run = lab.run(CONFIG, store, progress=False, on_round=stop)
    assert seen == [1, 2, 1, 2, 3]
    assert promised_bytes(run) == promised_bytes(lab.run(CONFIG, Store(tmp_path / "other"), progress=False))


def test_a_callback_that_changes_its_row_changes_nothing_stored(store):
    run = lab.run(CONFIG, store, progress=False, on_round=dict.clear)
    assert run.rows["accuracy"].notna().all()


def test_zero_shot_has_one_row(store):
    seen = []
    lab.run(ZERO_SHOT, store, progress=False, on_round=seen.append)
    assert [row["round"] for row in seen] == [0]


@pytest.mark.filterwarnings("ignore:.*Going on after round 2")
@pytest.mark.parametrize(("config", "rounds"), [(CONFIG, [1, 2, 3]), (ZERO_SHOT, [0])])
def test_a_run_that_goes_on_tells_each_round_once(store, monkeypatch, config, rounds):
    with monkeypatch.context() as patch:
        patch.setattr("fedcopl_lab.store.Run.finish", lambda run: None)
        run = lab.run(config, store, progress=False)
    for path in run.path.glob("state-0003.safetensors"):  # zero-shot has none
        path.write_bytes(b"")
    seen = []
    lab.run(config, store, progress=False, on_round=seen.append)
    assert [row["round"] for row in seen] == rounds


def test_a_refused_round_is_not_told(store):
    seen = []
    with pytest.raises(FedCoPLError):
        lab.run(lab.configure("smoke", lr=1e30, n_text=2), store, progress=False, on_round=seen.append)
    assert not seen


def test_the_examples_of_the_page_follow_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "trackers.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(code, "trackers.md", "exec"), {})
    rows = (tmp_path / "run.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["round", "1", "2"]
    assert (tmp_path / "board").is_dir() == bool(find_spec("tensorboard"))
