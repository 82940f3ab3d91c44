"""A server on loopback for tests: what it is sent as JSON, it answers as JSON or as a stream of events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class JsonHandler(BaseHTTPRequestHandler):
    """What a handler of such requests has to do again and again."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer what is looked up."""
        self.looked_up()

    def do_POST(self) -> None:
        """Answer what is sent."""
        self.sent()

    def looked_up(self) -> None:
        """Answer a GET: there is nothing here."""
        self.send_json(404, {})

    def sent(self) -> None:
        """Answer a POST."""
        raise NotImplementedError

    def body(self) -> bytes:
        """Read what was sent, whole or in chunks."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def send_json(self, status: int, value: object) -> None:
        """Answer at once."""
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
        """Say nothing."""


class Listening:
    """Listens while the block runs."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"
