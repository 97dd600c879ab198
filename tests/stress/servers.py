"""A server that takes its time, so that a download can be killed in its midst."""

import os
import re
import signal
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_BLOCK, _PAUSE = 4096, 0.002


class SlowServer:
    """Serves one folder from a process of its own."""

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
                for at in range(first, len(content), _BLOCK):
                    self.wfile.write(content[at : at + _BLOCK])
                    time.sleep(_PAUSE)

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
