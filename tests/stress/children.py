"""Processes forked from one that has imported everything: cheap to start, and as real to kill as any."""

import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Mark = Callable[[bytes], None]


@dataclass(frozen=True)
class Child:
    """A running process.

    Attributes:
        pid: its number.
        marks: descriptor from which the bytes that it marks can be read.
        log: file with what it prints.
    """

    pid: int
    marks: int
    log: Path

    def next_mark(self, limit: float = 120.0) -> bytes:
        """One byte; nothing once the process has ended."""
        ready, _, _ = select.select([self.marks], [], [], limit)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise TimeoutError(f"no sign of life for {limit:g} s: {self.log.read_text()[-2000:]}")
        return os.read(self.marks, 1)

    def end(self, limit: float = 120.0) -> tuple[int, bytes]:
        """Wait for the end: status as of subprocess, and the marks that were still unread."""
        rest, deadline = b"", time.monotonic() + limit
        while mark := self.next_mark(max(deadline - time.monotonic(), 0.0)):
            rest += mark
        os.close(self.marks)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), rest


def start(work: Callable[[Mark], int | None], log: Path) -> Child:
    """Fork; the child runs ``work``, which may mark bytes for the parent, and exits with what it returns."""
    log.parent.mkdir(parents=True, exist_ok=True)
    near, far = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(far)
        return Child(pid, near, log)
    code = 1
    try:
        os.close(near)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = work(lambda mark: void(os.write(far, mark))) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def void(_: object) -> None:
    """Drop a value."""


def call(work: Callable[[], Any], log: Path, limit: float = 300.0) -> Any:
    """What ``work`` returns in a process of its own, so that nothing it patches or fills outlives it.

    Raises:
        AssertionError: it ended with an error; the message is its last output.
    """
    answer = log.with_suffix(".answer")
    answer.unlink(missing_ok=True)

    def work_and_tell(mark: Mark) -> int:
        answer.write_bytes(pickle.dumps(work()))
        return 0

    status, _ = start(work_and_tell, log).end(limit)
    if status:
        raise AssertionError(f"ended with {status}: {log.read_text()[-3000:]}")
    return pickle.loads(answer.read_bytes())
