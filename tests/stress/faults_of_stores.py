"""Faults of what is stored: injured, foreign or newer files, and many processes on one store."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from children import start
from faults import content, fault, refused, run, whole
from workloads import SAGE, patched

import fedcopl_lab as lab
from fedcopl_lab._files import to_json
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Run, Store


@fault("a corrupted row")
def _corrupted_row(folder: Path) -> str:
    done = run(folder / "store")
    path = done.path / "rounds" / "0002.json"
    right = path.read_bytes()
    for wrong in (b"", right[: len(right) // 2], b"[]", b"3", b"null", b"{}", b"\xff\xfe", b'{"round": '):
        path.write_bytes(wrong)
        refused(lambda: done.rows, "0002.json", "remove its run folder")
        (done.path / "result.json").unlink(missing_ok=True)
        refused(lambda: run(folder / "store"), "0002.json")
        assert not (done.path / "result.json").exists(), "nothing is finished over a broken row"
    path.write_bytes(right)
    assert run(folder / "store").complete
    return "8 kinds: the file is named, nothing is finished over it"


@fault("truncated state, at 40 lengths")
def _truncated_state(folder: Path) -> str:
    expected = whole(folder / "whole")
    done = run(folder / "store")
    path = next(done.path.glob("state-*.safetensors"))
    right = path.read_bytes()
    (done.path / "rounds" / "0003.json").rename(folder / "row")
    path = path.rename(path.with_name("state-0002.safetensors"))
    (done.path / "result.json").unlink()
    for length in range(0, len(right), -(-len(right) // 40)):
        path.write_bytes(right[:length])
        refused(lambda: run(folder / "store"), "state-0002.safetensors", "remove its run folder")
    shutil.rmtree(done.path)
    run(folder / "store")
    assert content(folder / "store") == expected
    return "each named; removed and computed again: same bytes"


@fault("a state of another round")
def _foreign_state(folder: Path) -> str:
    done = run(folder / "store")
    (done.path / "result.json").unlink()
    (done.path / "rounds" / "0003.json").unlink()
    (done.path / "state-0003.safetensors").rename(done.path / "state-0002.safetensors")
    return refused(lambda: run(folder / "store"), "state-0002.safetensors").split("; ")[0].rsplit("/", 1)[-1]


@fault("a wrong run key")
def _wrong_key(folder: Path) -> str:
    other = replace(SAGE, seed=7)
    done = run(folder / "store")
    done.path.rename(done.path.with_name(key_of(other)))
    text = refused(lambda: run(folder / "store", other), "renamed or edited", "remove its run folder")
    return text.split("; ")[-1]


@fault("a store written by a newer version")
def _newer(folder: Path) -> str:
    from fedcopl_lab.config import _key

    done = run(folder / "store")
    with patched((_key, "NUMERICS", _key.NUMERICS + 1)):
        assert key_of(SAGE) != done.key, "other numerics are another key"
    settings = json.loads((done.path / "config.json").read_text())
    newer = done.path.with_name("f" * 16)
    newer.mkdir()
    (newer / "config.json").write_text(to_json(settings | {"colour": "blue"}))
    assert run(folder / "store").complete, "runs of this version are still there"
    return refused(lambda: lab.runs(Store(folder / "store")), "does not fit this version").split(" (")[0][-30:]


@fault("two and eight processes on one store")
def _many_processes(folder: Path) -> str:
    from fedcopl_lab.engine import _run

    expected = whole(folder / "whole")
    compute = _run._compute

    def work(store: Path, number: int) -> int:
        def counted(config: lab.RunConfig, stored: Run, progress: bool) -> None:
            (store / f"computed by {number}").write_text(stored.key)
            compute(config, stored, progress)

        _run._compute = counted
        return int(not run(store).complete)

    for n in (2, 8):
        store = folder / f"{n}"
        store.mkdir()
        children = [start(lambda mark, i=i, s=store: work(s, i), folder / f"{n}-{i}.log") for i in range(n)]
        for child in children:
            status, _ = child.end()
            assert not status, child.log.read_text()
        assert len(list(store.glob("computed by *"))) == 1, "computed by more than one"
        assert {k: v for k, v in content(store).items() if not k.startswith("computed")} == expected
    return "computed once each, all others waited, same bytes"


@fault("a holder that dies while seven others wait")
def _dead_holder(folder: Path) -> str:
    expected = whole(folder / "whole")
    store = folder / "store"
    holder = start(lambda mark: _tell_first_round(store, mark), folder / "holder.log")
    assert holder.next_mark() == b"1"
    others = [start(lambda mark: int(not run(store).complete), folder / f"{i}.log") for i in range(7)]
    time.sleep(0.3)
    os.kill(holder.pid, signal.SIGKILL)
    assert holder.end()[0] == -signal.SIGKILL
    for child in others:
        status, _ = child.end()
        assert not status, child.log.read_text()
    assert content(store) == expected
    return "the lock was free at once, one of the others went on, same bytes"


def _tell_first_round(store: Path, mark: Callable[[bytes], None]) -> int:
    commit = Run.commit

    def told(self: Run, row: dict[str, object], tensors: object, seconds: float) -> None:
        commit(self, row, tensors, seconds)  # type: ignore[arg-type]
        mark(b"1")
        time.sleep(60)

    Run.commit = told  # type: ignore[method-assign]
    run(store)
    return 0
