"""The run store: what a kill at any moment leaves, what a resume makes of it, and what it refuses."""

import errno
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from fedcopl_lab import FedCoPLError, configure, runs
from fedcopl_lab import store as store_module
from fedcopl_lab._errors import StoreError
from fedcopl_lab._files import to_json
from fedcopl_lab.store import Store

CONFIG = configure("smoke", rounds=3)


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


def row_of(number):
    clients = {"accuracy": [0.1 * number, None], "n_test": [3, 0]}
    row = {"round": number, "accuracy": 0.1 * number, "right": "01", "participants": [0, 1], "clients": clients}
    return row | ({"labels": {"quota": [[1, 2]]}} if number == 1 else {})


def tensors_of(number):
    values = torch.arange(4.0) + number
    return {"clients.text": values, "server.visual": 2 * values, "round": torch.tensor(number)}


@contextmanager
def begun(store, key="k", config=CONFIG):
    """A run that is held, with its configuration written, as the engine begins it."""
    with store.locked(key) as run:
        if not run.complete:
            store_module.write_atomic(run.path / "config.json", to_json(config.as_dict()))
        yield run


def go_on(store, key="k"):
    """What the engine does: resume after the last stored round, store each round, finish."""
    with begun(store, key) as run:
        if run.complete:
            return run
        done = run.rounds_done()
        state = run.load_state()
        assert int(state["round"]) == done if done else state == {}
        for number in range(done + 1, CONFIG.rounds + 1):
            run.commit(row_of(number), tensors_of(number), 0.5)
        run.finish()
    return run


def content(run):
    return {
        str(path.relative_to(run.path)): path.read_bytes()
        for path in run.path.rglob("*")
        if path.is_file() and path.name != "seconds.json"
    }


def kill_at(monkeypatch, moment):
    """Die before the given write or deletion, or half-way through a deletion; later calls never happen."""
    seen = {"n": 0}
    write, unlink = store_module.write_atomic, Path.unlink

    def tick():
        seen["n"] += 1
        if seen["n"] == moment:
            raise Killed

    def counted(call):
        def called(path, *args, **kwargs):
            if call is write or path.name.startswith("state-"):
                tick()
            call(path, *args, **kwargs)

        return called

    monkeypatch.setattr(store_module, "write_atomic", counted(write))
    monkeypatch.setattr(Path, "unlink", counted(unlink))
    return seen


def test_a_kill_at_any_moment_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    reference = content(go_on(Store(tmp_path / "whole")))
    rows = [f"rounds/000{i}.json" for i in (1, 2, 3)]
    assert sorted(reference) == ["config.json", "result.json", *rows, "state-0003.safetensors", "state-0003.sha256"]
    with monkeypatch.context() as patch:
        counter = kill_at(patch, 0)
        go_on(Store(tmp_path / "counted"))
    moments = counter["n"]
    assert moments >= 1 + 3 * 3 + 2 + 1  # config; state, seconds and row of each round; 2 old states; result
    for moment in range(1, moments + 1):
        store = Store(tmp_path / f"killed-{moment}")
        with monkeypatch.context() as patch:
            kill_at(patch, moment)
            with pytest.raises(Killed):
                go_on(store)
        assert not store.run("k").complete
        assert content(go_on(store)) == reference, f"killed before operation {moment}"


def test_all_rows_without_a_result_is_not_complete(store):
    run = go_on(store)
    (run.path / "result.json").unlink()
    assert not run.complete
    before = content(run)
    again = go_on(store)
    assert again.complete
    assert {name: data for name, data in content(again).items() if name != "result.json"} == before


def test_a_failed_write_keeps_what_is_stored(store, monkeypatch):
    run = store.run("k")
    run.commit(row_of(1), tensors_of(1), 0.5)
    before = content(run)
    with monkeypatch.context() as patch:

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr("os.replace", full)
        with pytest.raises(StoreError, match=r"state-0002\.safetensors: No space left"):
            run.commit(row_of(2), tensors_of(2), 0.5)
    assert content(run) == before
    shutil.copy(run.path / "state-0001.safetensors", run.path / "state-0002.safetensors")
    assert run.rounds_done() == int(run.load_state()["round"]) == 1  # a state without its row does not count


def test_what_a_run_shows(store):
    run = go_on(store)
    assert run.key == "k"
    assert run.config == CONFIG
    assert run.result == {"round": 3, "accuracy": pytest.approx(0.3)}
    assert run.rows["round"].tolist() == [1, 2, 3]
    assert set(run.rows) == {"round", "accuracy"}, "no clients, no string of digits"
    assert run.clients[["client", "round"]].to_numpy().tolist() == [[k, r] for r in (1, 2, 3) for k in (0, 1)]
    assert run.label_phases == {1: {"quota": [[1, 2]]}}
    assert run.seconds == 1.5
    prompts = run.load_prompts()
    assert set(prompts) == {"text", "server_visual"}
    assert torch.equal(prompts["text"], tensors_of(3)["clients.text"])
    assert repr(run) == f"Run(k: {CONFIG.label}, complete)"
    shown = run._repr_html_()
    assert shown.count("<details>") == 2
    assert all(text in shown for text in ("complete", "3 rounds", "<td>q_conf</td>", CONFIG.label))


def test_rounds_are_counted_beyond_four_digits(store):
    with begun(store, config=configure("smoke", rounds=10_000)) as run:
        run.commit(row_of(1), tensors_of(1), 0.5)
        for number in range(2, 9_999):
            (run.path / "rounds" / f"{number:04d}.json").write_text(f'{{"round": {number}}}')
        for number in (9_999, 10_000):
            run.commit(row_of(number), tensors_of(number), 0.5)
        assert [row["round"] for row in run.records()] == list(range(1, 10_001))
        assert int(run.load_state()["round"]) == 10_000


def test_a_run_under_way_shows_its_progress(store):
    with begun(store) as run:
        assert "0 of 3 rounds stored" in run._repr_html_()
        run.commit(row_of(1), tensors_of(1), 0.5)
    assert "1 of 3 rounds stored" in repr(run)
    assert "1 of 3 rounds stored" in run._repr_html_()


def test_a_run_that_has_not_begun(store):
    run = store.run("none")
    assert (run.complete, run.rounds_done(), run.load_state(), run.seconds) == (False, 0, {}, 0.0)
    assert run.rows.empty
    assert run.clients.empty
    with pytest.raises(FedCoPLError, match="run none is not complete; run it again"):
        run.predict(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))


def test_a_flipped_bit_is_named_and_costs_one_round(store):
    with begun(store) as run:
        for number in (1, 2, 3):
            run.commit(row_of(number), tensors_of(number), 0.5)
    path = run.path / "state-0003.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"state-0003\.safetensors was damaged[^\n]*checksum differs"):
        run.load_state()
    (run.path / "state-0003.sha256").write_bytes(b"\xf0\x95")
    with pytest.raises(StoreError, match="checksum differs"):
        run.load_state()
    assert run.step_back()
    assert run.rounds_done() == int(run.load_state()["round"]) == 2
    assert run.step_back() is False  # the state before is gone
    (run.path / "state-0002.sha256").unlink()
    assert int(run.load_state()["round"]) == 2  # as older versions stored it


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_broken_state_is_named(store, damage):
    run = go_on(store)
    path = run.path / "state-0003.safetensors"
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(StoreError, match=r"state-0003\.safetensors[^\n]*remove its run folder"):
        run.load_state()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "is not valid JSON"),
        ("rounds/0002.json", "{", "is not valid JSON"),
        ("result.json", "{", "is not valid JSON"),
        ("result.json", "[]", "holds a list; expected values by name"),
        ("rounds/0002.json", "{}", "has no round; expected values by name"),
        ("config.json", '{"profile": "smoke", "colour": "blue"}', "does not fit this version"),
        *((f"rounds/{lost:04d}.json", None, f"/k lacks the row of round {lost};") for lost in (1, 2, 3)),
    ],
)
def test_a_broken_file_is_named(store, name, content, message):
    run = go_on(store)
    (run.path / name).unlink() if content is None else (run.path / name).write_text(content)
    fresh, where = Store(store.root).run("k"), "" if content is None else f"{name} "
    for rows in (fresh.records, lambda: fresh.records(1)) if content is None else (lambda: fresh.rows,):
        with pytest.raises(StoreError, match=rf"{where}{message}[^\n]*remove its run folder"):
            _ = fresh.config, rows(), fresh.result


def test_a_store_that_cannot_be_written_is_refused(tmp_path, store, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    assert Store(tmp_path / "file").runs() == []

    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for place, message in ((Store(tmp_path / "file"), "file: .*FEDCOPL_LAB_HOME"), (store, "Read-only .*writable")):
        if place is store:
            monkeypatch.setattr(Path, "mkdir", read_only)
        with pytest.raises(StoreError, match=f"cannot write to the run store .*{message}"), place.locked("k"):
            raise AssertionError("the lock was given")


def test_a_second_holder_waits_and_a_dead_one_is_forgotten(store):
    with store.locked("k"):
        assert not lock_is_free(store, "k")
        assert lock_is_free(store, "another")
    with pytest.raises(FileExistsError, match="mine"), store.locked("k"):
        raise FileExistsError("mine")  # an error of the work passes through
    assert lock_is_free(store, "k")
    code = "import os, sys, fedcopl_lab as lab; own = lab.Store(sys.argv[1]).locked('k'); own.__enter__(); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, str(store.root)], check=False).returncode == 9
    assert lock_is_free(store, "k")


def lock_is_free(store, key):
    with suppress(TimeoutError), FileLock(store.root / ".locks" / f"{key}.lock", timeout=0):
        return True
    return False


def test_runs_as_a_table(store):
    for seed in (0, 1):
        with begun(store, f"run{seed}", configure("smoke", seed=seed, beta=0.3)) as run:
            run.commit(row_of(1), tensors_of(1), 0.25)
            if seed:
                run.finish()
    table = runs(store)
    assert table["key"].tolist() == ["run0", "run1"]
    assert table["complete"].tolist() == [False, True]
    assert table["seconds"].tolist() == [0.25, 0.25]
    assert runs(store, seed=1)["accuracy"].tolist() == [0.1]
    assert runs(store, seed=1, beta=0.3)["key"].tolist() == ["run1"]
    assert runs(store, beta=0.1).empty
    assert runs()["key"].tolist() == table["key"].tolist()  # the default store is the same folder


def test_filters_are_settings(store):
    with begun(store, "s", configure("smoke", method="SAGE", label_fraction=0.2)):
        pass
    for name in ("label_fraction", "label_share"):  # today's name, and the one in stored configurations
        assert runs(store, **{name: 0.2})["key"].tolist() == ["s"]
        assert runs(store, **{name: 0.1}).empty
    with pytest.raises(FedCoPLError, match=r"unknown settings \['bta'\]; expected settings such as"):
        runs(store, bta=0.1)
    with pytest.raises(FedCoPLError, match=r"unknown settings \['store'\]"):
        runs(**{"store": "x"})  # as `runs list --where store=x` asks


@pytest.mark.parametrize("key", ["", "..", "a/b", "/etc", ".locks", "a" * 200, "a\0"])
def test_a_key_that_is_no_name_of_a_folder_is_refused(store, key):
    with pytest.raises(FedCoPLError, match="is no run key; expected one as of `fedcopl-lab runs list`"):
        store.run(key)


def test_find_by_the_beginning_of_a_key(store):
    for key in ("abc1", "abd2"):
        with begun(store, key):
            pass
    assert store.find("abc").key == "abc1"
    for prefix, count in (("ab", 2), ("x", 0)):
        with pytest.raises(FedCoPLError, match=f"{count} stored runs start with '{prefix}'; expected one"):
            store.find(prefix)


def test_remove_incomplete(store, monkeypatch):
    go_on(store, "whole")
    for key in ("part", "busy"):
        with begun(store, key) as run:
            run.commit(row_of(1), tensors_of(1), 0.5)
    with store.locked("busy"):
        assert store.remove_incomplete() == ["part"]
    assert [run.key for run in store.runs()] == ["busy", "whole"]
    assert store.remove_incomplete() == ["busy"]
    assert store.remove_incomplete() == []
    whole = store.run("whole")
    assert whole.complete
    (whole.path / "result.json").unlink()
    listed = store.runs()
    whole.finish()  # between the list and the lock
    monkeypatch.setattr(store, "runs", lambda: listed)
    assert store.remove_incomplete() == []
    assert whole.complete
