"""Faults of the machine under the store: full disks, lost permissions, a clock that goes back."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults import content, fault, refused, run, whole
from workloads import PROMPTING, SAGE, patched

from fedcopl_lab._identity import key_of
from fedcopl_lab.store import Run

NOBODY = 65534


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
