"""Faults of what is stored: injured, foreign or newer files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from faults import fault, recovering, refused, run
from seams import everywhere, internal, patched
from workloads import SAGE

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Store


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
    with recovering(folder) as store:
        done = run(store)
        path = next(done.path.glob("state-*.safetensors"))
        right = path.read_bytes()
        (done.path / "rounds" / "0003.json").rename(folder / "row")
        path = path.rename(path.with_name("state-0002.safetensors"))
        (done.path / "result.json").unlink()
        for length in range(0, len(right), -(-len(right) // 40)):
            path.write_bytes(right[:length])
            refused(lambda: run(store), "state-0002.safetensors", "remove its run folder")
        shutil.rmtree(done.path)
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
    from fedcopl_lab.config import NUMERICS

    done = run(folder / "store")
    internal("_identity", "_key_of").cache_clear()  # a later version is another process
    with patched(*everywhere("config", "NUMERICS", NUMERICS + 1)):
        assert key_of(SAGE) != done.key, "other numerics are another key"
    internal("_identity", "_key_of").cache_clear()
    settings = json.loads((done.path / "config.json").read_text())
    newer = done.path.with_name("f" * 16)
    newer.mkdir()
    (newer / "config.json").write_text(json.dumps(settings | {"colour": "blue"}))
    assert run(folder / "store").complete, "runs of this version are still there"
    return refused(lambda: lab.runs(Store(folder / "store")), "does not fit this version").split(" (")[0][-30:]
