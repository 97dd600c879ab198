"""Runs in one file: they come back as they were, without prompts, and nothing else comes out of such a file."""

import io
import shutil
import tarfile
from unittest.mock import patch

import pandas as pd
import pytest

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._errors import StoreError
from fedcopl_lab.extras import run_archive
from fedcopl_lab.extras.run_archive import read_archive, write_archive
from fedcopl_lab.paper import collect, find_items
from fedcopl_lab.store import Store

ITEM = find_items(["fedcopl_supp_fig3"])[0]


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    """A store with the item's run, a trained one and one under way; and the file written from it."""
    folder = tmp_path_factory.mktemp("archive")
    store = Store(folder / "runs")
    for _, config in ITEM.runs("smoke", (0,)):
        lab.run(config, store, progress=False)
    trained = lab.run(lab.configure("smoke", dataset="digits:600", rounds=1), store, progress=False)
    shutil.copytree(trained.path, store.root / "underway")
    (store.root / "underway" / "result.json").unlink()
    write_archive(folder / "runs.tar.xz", store.runs())
    return store, trained, folder / "runs.tar.xz"


def test_tables_are_the_same_from_an_archive(archived, tmp_path):
    store, trained, file = archived
    there = Store(tmp_path)
    keys = read_archive(file, there)
    assert sorted(keys) == sorted(run.key for run in store.runs() if run.complete)
    pd.testing.assert_frame_equal(collect(ITEM, "smoke", (0,), there), collect(ITEM, "smoke", (0,), store))
    again = there.run(trained.key)
    assert again.records() == trained.records()
    assert (again.seconds, again.environment, again.split) == (trained.seconds, trained.environment, trained.split)
    assert lab.run(trained.config, there, progress=False).key == trained.key
    with pytest.raises(StoreError, match="remove its run folder"):
        again.load_state()
    assert read_archive(file, there) == []


def test_a_run_cut_short_while_it_is_added_comes_whole_the_next_time(archived, tmp_path):
    store, trained, file = archived
    full = patch.object(run_archive, "write_atomic", side_effect=OSError("disk full"))
    with full, pytest.raises(StoreError, match="disk full"):
        read_archive(file, Store(tmp_path))
    assert not any(run.complete for run in Store(tmp_path).runs())
    assert sorted(read_archive(file, Store(tmp_path))) == sorted(run.key for run in store.runs() if run.complete)
    assert Store(tmp_path).run(trained.key).records() == trained.records()


def test_the_same_runs_give_the_same_bytes(archived, tmp_path):
    store, _, file = archived
    write_archive(tmp_path / "again.tar.xz", store.runs()[::-1])
    assert (tmp_path / "again.tar.xz").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ["../outside.json", "/etc/config.json", "key/state-0001.safetensors", "key/run.py"])
def test_other_files_are_refused_and_nothing_is_taken(archived, tmp_path, name):
    with tarfile.open(tmp_path / "bad.tar.xz", "w:xz") as bad:
        with tarfile.open(archived[2]) as good:
            for member in good:
                bad.addfile(member, good.extractfile(member))
        bad.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(StoreError, match="no file of a run"):
        read_archive(tmp_path / "bad.tar.xz", Store(tmp_path / "runs"))
    assert not Store(tmp_path / "runs").runs()


def test_damage_and_emptiness_are_said(archived, tmp_path):
    (tmp_path / "cut.tar.xz").write_bytes(archived[2].read_bytes()[:-100])
    for missing in ("cut.tar.xz", "nowhere.tar.xz"):
        with pytest.raises(StoreError, match="runs pack"):
            read_archive(tmp_path / missing, Store(tmp_path / "runs"))
    with pytest.raises(FedCoPLError, match="none of 1 runs is complete"):
        write_archive(tmp_path / "none.tar.xz", [archived[0].run("underway")])


@pytest.mark.parametrize("lacks", ["config.json", "result.json"])
def test_a_run_that_lacks_a_file_is_not_taken(archived, tmp_path, lacks):
    _, trained, file = archived
    with tarfile.open(tmp_path / "less.tar.xz", "w:xz") as less, tarfile.open(file) as whole:
        for member in whole:
            if member.name != f"{trained.key}/{lacks}":
                less.addfile(member, whole.extractfile(member))
    assert trained.key not in read_archive(tmp_path / "less.tar.xz", there := Store(tmp_path / "runs"))
    assert trained.key not in {run.key for run in there.runs()}


def test_runs_of_two_stores_share_a_file(archived, tmp_path):
    trained = archived[1]
    other = lab.run(lab.configure("smoke", method="zero-shot", seed=7), Store(tmp_path / "other"), progress=False)
    assert write_archive(tmp_path / "both.tar.xz", [trained, other]) == [trained.key, other.key]
    assert sorted(read_archive(tmp_path / "both.tar.xz", Store(tmp_path / "there"))) == sorted([trained.key, other.key])
