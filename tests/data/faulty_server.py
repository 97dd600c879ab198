"""A local HTTP server that cuts, lies, stalls and refuses on request."""

import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultyServer:
    """Serves ``files`` over real HTTP; every request first takes its fault from ``faults``."""

    def __init__(self):
        self.files = {}
        self.faults = []
        self.requests = []
        self.body_bytes = 0
        self.go_on = threading.Event()
        self.stalled = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *arguments):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # a client that was killed

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.go_on.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def answer(self, request):
        name = request.path.lstrip("/").split("?")[0]
        self.requests.append((name, request.headers.get("Range")))
        fault = self.faults.pop(0) if self.faults else {}
        content = fault.get("content", self.files.get(name))
        if "status" in fault or content is None:
            request.send_response(fault.get("status", 404))
            for key, value in fault.get("headers", {}).items():
                request.send_header(key, value)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        self._send(request, content, fault)

    def _send(self, request, content, fault):
        start, asked = 0, request.headers.get("Range")
        if asked and not fault.get("ignore_range"):
            start = int(re.fullmatch(r"bytes=(\d+)-", asked).group(1)) + fault.get("shift", 0)
            if start >= len(content):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(content)}")
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            request.send_response(200)
        body = content[start:]
        if not fault.get("no_length"):
            request.send_header("Content-Length", str(len(body) + fault.get("lie", 0)))
        request.end_headers()
        request.close_connection = True
        self._body(request, body, fault)

    def _body(self, request, body, fault):
        end = fault.get("cut", fault.get("stall", len(body)))
        if fault.get("lie", 0) < 0:
            end = len(body) + fault["lie"]
        view = memoryview(body)[:end]
        for at in range(0, len(view), 1 << 20):
            block = view[at : at + (1 << 20)]
            self.body_bytes += len(block)  # before the write: the client may be done before this thread goes on
            try:
                request.wfile.write(block)
            except OSError:
                self.body_bytes -= len(block)
                raise
        request.wfile.flush()
        if fault.get("reset"):
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if "stall" in fault:
            self.stalled.set()
            self.go_on.wait(30)
