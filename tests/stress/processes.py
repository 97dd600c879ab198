"""Processes forked from one that has imported everything: cheap to start, and as real to kill as any."""

import os
import pickle
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Mark = Callable[[bytes], None]


@dataclass(frozen=True)
class Child:
    """A running process: its number, the descriptor of the bytes that it marks, the file with what it prints."""

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


def start(work: Callable[[Mark], object], log: Path) -> Child:
    """Fork; the child runs ``work``, which may mark bytes for the parent, and exits with 0 unless that fails."""
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
        answer = work(lambda mark: void(os.write(far, mark)))
        code = answer if isinstance(answer, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def void(_: object) -> None:
    """Drop a value."""


def all_end_well(children: Iterable[Child], limit: float = 120.0) -> None:
    """Wait for some processes, none of which may fail."""
    for child in children:
        status, _ = child.end(limit)
        assert not status, child.log.read_text()


def call(work: Callable[[], Any], log: Path, limit: float = 300.0) -> Any:
    """What ``work`` returns in a process of its own, so that nothing it patches or fills outlives it.

    Raises:
        AssertionError: it ended with an error; the message is its last output.
    """
    answer = log.with_suffix(".answer")
    answer.unlink(missing_ok=True)
    status, _ = start(lambda mark: void(answer.write_bytes(pickle.dumps(work()))), log).end(limit)
    if status:
        raise AssertionError(f"ended with {status}: {log.read_text()[-3000:]}")
    return pickle.loads(answer.read_bytes())


class SlowServer:
    """Serves one folder from a process of its own, slowly, so that a download can be killed in its midst."""

    def __init__(self, folder: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = (folder / Path(self.path).name).read_bytes()
                asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                first = int(asked.group(1)) if asked else 0
                self.send_response(206 if asked else 200)
                if asked:
                    self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
                self.send_header("ETag", '"1"')
                self.send_header("Content-Length", str(len(content) - first))
                self.end_headers()
                for at in range(first, len(content), 4096):
                    self.wfile.write(content[at : at + 4096])
                    time.sleep(0.002)

            def log_message(self, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a client that was killed

        server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/"
        self.pid = os.fork()
        if not self.pid:
            server.serve_forever()
        server.socket.close()

    def close(self) -> None:
        """End the process."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
