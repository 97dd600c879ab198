"""Ctrl-C ends a command soon, also while one long operation of torch lets no line of Python run."""

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = "\nfedcopl-lab: interrupted; what was stored is kept, and a run goes on from there"
EXIT_CODE = 130
GRACE_SECONDS = 0.5  # for the work to end by itself


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """While inside, Ctrl-C raises KeyboardInterrupt as ever, and ends the process when that does not end the work.

    Files are written whole or not at all, so ending at any moment costs what is not stored yet and nothing else.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        yield
        return
    near, far = socket.socketpair()
    far.setblocking(False)
    before, hook = signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False), sys.unraisablehook
    sys.unraisablehook = _quiet(hook)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(near, ended), daemon=True, name="interrupts")
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        sys.unraisablehook = hook
        far.close()
        watcher.join()
        near.close()


def _watch(near: socket.socket, ended: threading.Event) -> None:
    while received := near.recv(64):
        if signal.SIGINT in received and not ended.wait(GRACE_SECONDS):
            os.write(2, f"{INTERRUPTED}\n".encode())
            for process in multiprocessing.active_children():
                process.terminate()
            end_now()


def end_now() -> NoReturn:
    """End the process at once; only named semaphores are given back."""
    from multiprocessing import util

    util._run_finalizers(0)  # type: ignore[attr-defined]  # else the tracker of semaphores warns on the terminal
    os._exit(EXIT_CODE)


def _quiet(hook: Callable[[Any], object]) -> Callable[[Any], None]:
    """The hook for errors that no code can catch, but silent on interrupts in destructors: the watcher acts on them."""

    def unraisable(found: Any) -> None:
        if not issubclass(found.exc_type, KeyboardInterrupt):
            hook(found)

    return unraisable
