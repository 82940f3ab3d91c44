"""A JSON server on the loopback interface for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class JsonHandler(BaseHTTPRequestHandler):
    """Base class of request handlers. It answers with JSON or a stream of events."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.handle_get()

    def do_POST(self) -> None:
        self.handle_post()

    def handle_get(self) -> None:
        """Answer a GET request; by default with 404."""
        self.send_json(404, {})

    def handle_post(self) -> None:
        """Answer a POST request."""
        raise NotImplementedError

    def body(self) -> bytes:
        """Return the body of the request, also if it is chunked."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def send_json(self, status: int, value: object) -> None:
        """Answer with JSON."""
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_stream(self, chunks: Iterable[bytes]) -> None:
        """Answer with server-sent events."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(chunk)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


class LoopbackServer:
    """Runs while the `with` block is entered."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"
