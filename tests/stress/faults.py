"""Faults put in on purpose: each is answered by a sentence or by the same bytes, never by half a result."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from children import call, start
from findings import Finding
from workloads import NOT_PROMISED, PROMPTING, SAGE, patched, visible, warm

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._files import to_json
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Run, Store

NOBODY = 65534
Fault = Callable[[Path], str]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    """Enter a function in the list; it gets an empty folder, runs in a process of its own and tells the outcome."""

    def enter(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return enter


def inject_all(scratch: Path, names: tuple[str, ...] | None = None) -> list[Finding]:
    """Every fault, or those named, each in a process of its own."""
    import faults_of_runs  # noqa: F401  enters its own

    warm()
    found = []
    for name, function in FAULTS.items():
        if names is not None and name not in names:
            continue
        folder = scratch / name.replace(" ", "_").replace(",", "")
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        try:
            outcome, passed = call(lambda f=function, d=folder: f(d), scratch / "log" / f"{folder.name}.log"), True
        except (AssertionError, TimeoutError) as error:
            outcome, passed = " ".join(str(error).split())[-400:], False
        found.append(Finding("faults", name, "answered as documented", int(passed), "1", passed, outcome))
    return found


def content(folder: Path) -> dict[str, bytes]:
    """What is promised of a store."""
    return {name: data for name, data in visible(folder).items() if not name.endswith(NOT_PROMISED)}


def run(folder: Path, config: lab.RunConfig = SAGE) -> Run:
    """Compute, or go on."""
    return lab.run(config, Store(folder), progress=False)


def refused(work: Callable[[], object], *words: str) -> str:
    """The sentence with which a call is refused; it has to be one line with these words."""
    try:
        work()
    except FedCoPLError as error:
        text = str(error)
        missing = [word for word in words if word not in text]
        assert "\n" not in text, text
        assert not missing, f"{missing} not in: {text}"
        return text
    raise AssertionError("nothing was refused")


def whole(folder: Path, config: lab.RunConfig = SAGE) -> dict[str, bytes]:
    """The promised bytes of an undisturbed run."""
    run(folder, config)
    return content(folder)


@fault("disk full at every write in turn")
def _full_at_every_write(folder: Path) -> str:
    expected = whole(folder / "whole")
    sync, seen, fatal = os.fsync, [0], [0]

    def full(descriptor: int) -> None:
        seen[0] += 1
        if seen[0] == fatal[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    with patched((os, "fsync", full)):
        run(folder / "counted")
        writes = seen[0]
        for moment in range(1, writes + 1, 2):  # every second flush is that of the folder
            store = folder / str(moment)
            seen[0], fatal[0] = 0, moment
            refused(lambda s=store: run(s), "No space left on device", "free some space")
            seen[0], fatal[0] = 0, 0
            run(store)
            assert content(store) == expected, f"write {moment}"
            shutil.rmtree(store)
    return f"{(writes + 1) // 2} writes: each refused in one line, each resumed to the same bytes"


@fault("files cut off at 2 kB")
def _small_files(folder: Path) -> str:
    expected = whole(folder / "whole")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        text = refused(lambda: run(folder / "cut"), "cannot write", "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert all(expected.get(name) == data for name, data in content(folder / "cut").items())
    run(folder / "cut")
    assert content(folder / "cut") == expected
    return text.split("; ")[0].rsplit("/", 1)[-1]


@fault("a real small file system, full")
def _small_file_system(folder: Path) -> str:
    expected = whole(folder / "whole")
    small = folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(small)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        return "not tried: this user may not mount"
    try:
        (small / "ballast").write_bytes(bytes(40_000))
        refused(lambda: run(small / "runs"), "No space left on device")
        (small / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
        run(small / "runs")
        assert content(small / "runs") == expected
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        assert run(small / "runs").complete, "a complete run can be read"
        refused(lambda: run(small / "runs", PROMPTING), "cannot write", "Read-only")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    return "refused when full, resumed after it grew, same bytes; read-only afterwards: read, not written"


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user to whom permissions apply."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@fault("a read-only store")
def _read_only(folder: Path) -> str:
    whole(folder / "store")
    for path in (folder / "store", *(folder / "store").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with unprivileged():
        assert run(folder / "store").complete, "a complete run can be read"
        return refused(lambda: run(folder / "store", PROMPTING), "cannot write", "FEDCOPL_LAB_HOME").split(":")[-1]


@fault("permission lost after the first round")
def _permission_lost(folder: Path) -> str:
    expected = whole(folder / "whole")
    commit = Run.commit

    def locked_out(self: Run, row: dict[str, object], tensors: object, seconds: float) -> None:
        commit(self, row, tensors, seconds)  # type: ignore[arg-type]
        (self.path / "rounds").chmod(0o555)

    with unprivileged():
        with patched((Run, "commit", locked_out)):
            text = refused(lambda: run(folder / "store"), "0002.json", "Permission denied")
        (folder / "store" / key_of(SAGE) / "rounds").chmod(0o755)
        run(folder / "store")
    assert content(folder / "store") == expected
    return f"{text.split('; ')[0].rsplit('/', 1)[-1]}; resumed to the same bytes"


@fault("the clock moved back")
def _clock(folder: Path) -> str:
    expected = whole(folder / "whole")
    commit, now = Run.commit, [time.time()]

    def back(*_: object) -> float:
        now[0] -= 86_400
        return now[0]

    def stop(self: Run, row: dict[str, object], tensors: object, seconds: float) -> None:
        commit(self, row, tensors, seconds)  # type: ignore[arg-type]
        raise RuntimeError("stopped")

    with patched((time, "time", back), (time, "time_ns", lambda: int(back() * 1e9))):
        with patched((Run, "commit", stop)):
            for _ in range(2):
                try:
                    run(folder / "store")
                except RuntimeError:
                    os.utime(next(folder.glob("store/*/config.json")), (4e9, 4e9))  # written in the future
        run(folder / "store")
    assert content(folder / "store") == expected
    return "a day further back at every look, files from the future: same bytes"


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
    from dataclasses import replace

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
    from fedcopl_lab.engine import _local

    expected = whole(folder / "whole")
    compute = _local._compute

    def work(store: Path, number: int) -> int:
        def counted(config: lab.RunConfig, stored: Run, progress: bool) -> None:
            (store / f"computed by {number}").write_text(stored.key)
            compute(config, stored, progress)

        _local._compute = counted
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
