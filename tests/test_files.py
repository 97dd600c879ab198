"""Files that are there whole or not at all."""

import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab._errors import StoreError
from fedcopl_lab._files import read_json, store_root, to_json, write_atomic


def test_writes_text_and_bytes(tmp_path):
    write_atomic(tmp_path / "new" / "folder" / "a.txt", "ä\n")
    write_atomic(tmp_path / "b", b"\x00\x01")
    assert (tmp_path / "new" / "folder" / "a.txt").read_bytes() == "ä\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\x00\x01"
    write_atomic(tmp_path / "b", b"\x02")
    assert (tmp_path / "b").read_bytes() == b"\x02"


@pytest.mark.parametrize("broken", ["replace", "fsync"])
@pytest.mark.parametrize("there", [True, False])
def test_a_failed_or_interrupted_write_leaves_the_old_file_or_none(tmp_path, monkeypatch, broken, there):
    path = tmp_path / "row.json"
    if there:
        write_atomic(path, "old")
    full = r"row\.json: No space left on device; .*choose another folder"
    for error, shown, message in (
        (OSError(errno.ENOSPC, "No space left on device"), StoreError, full),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ):
        monkeypatch.setattr(os, broken, Mock(side_effect=error))
        with pytest.raises(shown, match=message):
            write_atomic(path, "new")
        assert [entry.name for entry in tmp_path.iterdir()] == (["row.json"] if there else [])
    assert not there or path.read_text() == "old"


def test_a_file_in_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(FedCoPLError, match=r"cannot write .*runs/x/row\.json"):
        write_atomic(tmp_path / "runs" / "x" / "row.json", "new")
    assert (tmp_path / "runs").read_text() == "not a folder"


def test_json_is_canonical():
    assert to_json({"b": 1, "a": [0.1, None]}) == to_json({"a": [0.1, None], "b": 1})
    assert json.loads(to_json({"a": 0.1})) == {"a": 0.1}
    with pytest.raises(ValueError, match=r"Out of range|not JSON"):
        to_json({"a": float("nan")})


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe"])
def test_a_broken_json_file_is_named(tmp_path, content):
    path = tmp_path / "row.json"
    with pytest.raises(StoreError, match=r"cannot read .*row\.json: No such file"):
        read_json(path)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"row\.json is not valid JSON [^\n]*remove its run folder"):
        read_json(path)


def test_where_runs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path / "here"))
    assert store_root() == (tmp_path / "here").resolve()
    monkeypatch.setenv("FEDCOPL_LAB_HOME", "~/somewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store_root() == Path(tmp_path / "somewhere").resolve()
    monkeypatch.delenv("FEDCOPL_LAB_HOME")
    before = store_root()
    monkeypatch.chdir(tmp_path)
    assert store_root() == before  # whatever the working directory is


@pytest.mark.skipif(os.name != "posix", reason="locks that the kernel frees")
def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_else(tmp_path):
    import fcntl

    (tmp_path / ".row.json.dead.part").write_text("half")
    (tmp_path / ".other.json.dead.part").write_text("half")
    with open(tmp_path / ".row.json.alive.part", "w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        write_atomic(tmp_path / "row.json", "whole")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".other.json.dead.part", ".row.json.alive.part", "row.json"]
    assert (tmp_path / "row.json").read_text() == "whole"
