"""Faults under the store: full disks, lost permissions, a clock that goes back, dying processes; injured files."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from faults import fault, recovering, refused, run
from processes import all_end_well, start
from seams import committing, everywhere, internal, patched
from workloads import PROMPTING, SAGE, promised

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Run, Store

UNPRIVILEGED_USER = 65534


@fault("disk full at every write in turn")
def _full_at_every_write(folder: Path) -> str:
    expected = promised(run(folder / "whole").path.parent)
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
            assert promised(store) == expected, f"write {moment}"
            shutil.rmtree(store)
    return f"{(writes + 1) // 2} writes: each refused in one line, each resumed to the same bytes"


@fault("files cut off at 2 kB")
def _small_files(folder: Path) -> str:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with recovering(folder) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
        try:
            text = refused(lambda: run(store), "cannot write", "File too large")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert promised(store).items() <= promised(folder / "whole").items()
    return text.split("; ")[0].rsplit("/", 1)[-1]


@fault("a real small file system, full")
def _small_file_system(folder: Path) -> str:
    expected = promised(run(folder / "whole").path.parent)
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
        assert promised(small / "runs") == expected
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        assert run(small / "runs").complete, "a complete run can be read"
        refused(lambda: run(small / "runs", PROMPTING), "cannot write", "Read-only")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    return "refused when full, resumed after it grew, same bytes; read-only afterwards: read, not written"


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user to whom permissions apply."""
    is_root = os.geteuid() == 0
    os.seteuid(UNPRIVILEGED_USER if is_root else os.geteuid())
    try:
        yield
    finally:
        os.seteuid(0 if is_root else os.geteuid())


@fault("a read-only store")
def _read_only(folder: Path) -> str:
    run(folder / "store")
    for path in (folder / "store", *(folder / "store").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with unprivileged():
        assert run(folder / "store").complete, "a complete run can be read"
        return refused(lambda: run(folder / "store", PROMPTING), "cannot write", "FEDCOPL_LAB_HOME").split(":")[-1]


@fault("permission lost after the first round")
def _permission_lost(folder: Path) -> str:
    with recovering(folder) as store, unprivileged():
        with committing(lambda stored: (stored.path / "rounds").chmod(0o555)):
            text = refused(lambda: run(store), "0002.json", "Permission denied")
        next(store.glob("*/rounds")).chmod(0o755)
        run(store)
    return f"{text.split('; ')[0].rsplit('/', 1)[-1]}; resumed to the same bytes"


@fault("the clock moved back")
def _clock(folder: Path) -> str:
    now = [time.time()]

    def back(*_: object) -> float:
        now[0] -= 86_400
        return now[0]

    def stop(stored: Run) -> None:
        raise RuntimeError("stopped")

    with recovering(folder) as store, patched((time, "time", back), (time, "time_ns", lambda: int(back() * 1e9))):
        with committing(stop):
            for _ in range(2):
                try:
                    run(store)
                except RuntimeError:
                    os.utime(next(store.glob("*/config.json")), (4e9, 4e9))  # written in the future
        run(store)
    return "a day further back at every look, files from the future: same bytes"


@fault("two and eight processes on one store")
def _many_processes(folder: Path) -> str:
    expected = promised(run(folder / "whole").path.parent)
    compute = internal("engine", "_compute")

    def work(store: Path, number: int) -> int:
        def counted(config: lab.RunConfig, stored: Run, progress: bool) -> None:
            (folder / f"{store.name} computed by {number}").touch()
            compute(config, stored, progress)

        with patched(*everywhere("engine", "_compute", counted)):
            return int(not run(store).complete)

    for n in (2, 8):
        store = folder / f"{n}"
        all_end_well([start(lambda mark, i=i, s=store: work(s, i), folder / f"{n}-{i}.log") for i in range(n)])
        assert len(list(folder.glob(f"{n} computed by *"))) == 1, "computed by more than one"
        assert promised(store) == expected
    return "computed once each, all others waited, same bytes"


@fault("a holder that dies while seven others wait")
def _dead_holder(folder: Path) -> str:
    def tell_and_wait(mark: Callable[[bytes], None]) -> None:
        with committing(lambda stored: (mark(b"1"), time.sleep(60))):
            run(folder / "store")

    with recovering(folder) as store:
        holder = start(tell_and_wait, folder / "holder.log")
        assert holder.next_mark() == b"1"
        others = [start(lambda mark: int(not run(store).complete), folder / f"{i}.log") for i in range(7)]
        time.sleep(0.3)
        os.kill(holder.pid, signal.SIGKILL)
        assert holder.end()[0] == -signal.SIGKILL
        all_end_well(others)
        assert [one.complete for one in Store(store).runs()] == [True]
    return "the lock was free at once, one of the others went on, same bytes"


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
