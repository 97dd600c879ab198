"""Who computes a run, where workers share a folder and nothing else: a file that must be renewed, or it lapses."""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedcopl_lab._errors import StoreError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import RunConfig
from fedcopl_lab.engine import run
from fedcopl_lab.store import Run, Store

PATIENCE = 60.0
"""Seconds after its last renewal that a lease lapses."""

_LOOK_EVERY = 0.5  # seconds


def run_claimed(config: RunConfig, root: Path, patience: float = PATIENCE) -> Run:
    """Run a configuration unless another worker of the same store does; then wait for it.

    After ``patience`` seconds of silence another worker's run is taken over and goes on after its last stored round.
    ``root`` is the store's folder, perhaps on a disk that several machines share.
    """
    store = Store(root)
    stored = store.run(key_of(config))
    while not stored.complete:
        with lease(store.root, stored.key, patience) as mine:
            if mine:
                return run(config, store, progress=False)
        time.sleep(_LOOK_EVERY)
    return stored


@contextmanager
def lease(root: Path, key: str, patience: float = PATIENCE) -> Iterator[bool]:
    """Try to become the one worker that computes a run; yields whether it is, and renews while the block runs.

    The kernel's lock on a run ends with its holder but is often not seen by other machines. A lease is a file: one
    worker makes it, and once it has not been renewed for ``patience`` seconds another may take it over. Ages are
    read from the folder's own clock, so that machines need not agree on the time; a dead holder on this machine
    is noticed at once. Should two workers take over in the same instant, both compute the same bytes.

    >>> with lease(Path("runs"), "a run's key") as mine:
    ...     mine
    True
    """
    path = root / ".leases" / f"{key}.json"
    mine = _taken(path, patience)
    if not mine:
        yield False
        return
    stop = threading.Event()
    thread = threading.Thread(target=_renew, args=(path, mine, stop, patience / 4), daemon=True)
    thread.start()
    try:
        yield True
    finally:
        stop.set()
        thread.join()
        with suppress(OSError):  # the block's own error matters more; the lease lapses
            if _holder(path).get("token") == mine:
                path.unlink(missing_ok=True)


def holder_of(root: Path, key: str) -> dict[str, Any]:
    """Host and process that hold a run's lease; empty when it is free."""
    return _holder(root / ".leases" / f"{key}.json")


def _taken(path: Path, patience: float) -> str:
    """A token when the lease could be had, else nothing."""
    token = uuid.uuid4().hex
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lapsed = _lapsed(path, patience)
        if lapsed is not None:
            aside = path.with_suffix(f".{token}.lapsed")
            with suppress(FileNotFoundError):
                path.rename(aside)  # of several workers one succeeds
                if _holder(aside).get("token", "") != lapsed:  # another was quicker, and this is its fresh lease
                    with suppress(FileExistsError):
                        os.link(aside, path)
                aside.unlink()
        whole = path.with_suffix(f".{token}.new")
        whole.write_text(json.dumps({"token": token, "host": socket.gethostname(), "pid": os.getpid()}))
        try:
            os.link(whole, path)  # fails where the file exists; readers always see all of it
        finally:
            whole.unlink()
    except FileExistsError:
        return ""
    except OSError as error:
        raise StoreError(f"cannot write to {path.parent}: {error.strerror}; make it writable") from error
    return token


def _lapsed(path: Path, patience: float) -> str | None:
    """The token of a lease that lapsed, empty where the file is damaged; None while it holds or there is none."""
    holder = _holder(path)
    token = str(holder.get("token", ""))
    if holder.get("host") == socket.gethostname() and not _alive(int(holder["pid"])):
        return token
    probe = path.with_suffix(f".{uuid.uuid4().hex}.now")
    probe.touch()
    try:
        return token if probe.stat().st_mtime - path.stat().st_mtime > patience else None
    except FileNotFoundError:
        return None
    finally:
        probe.unlink()


def _holder(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def _renew(path: Path, token: str, stop: threading.Event, every: float) -> None:
    last = time.monotonic()
    while not stop.wait(min(every, 1.0)):
        if time.monotonic() - last >= every:
            last = time.monotonic()
            with suppress(OSError):  # a disk that is away for a moment
                if _holder(path).get("token") != token:
                    return  # taken over while this machine was away
                os.utime(path)
