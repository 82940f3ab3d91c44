"""A receiver of push notifications: an HTTP server in a thread of the test."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct


class Notification(Struct, frozen=True):
    """A request that a receiver got. Names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def task(self) -> dict[str, Any]:
        """The task of the notification."""
        return self.body["task"]

    @property
    def state(self) -> str:
        """The state of the task."""
        return self.task["status"]["state"].removeprefix("TASK_STATE_").lower()


class Receiver:
    """The requests that arrived, and what to respond."""

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self.statuses: list[int] = []
        """Statuses of the next responses. 200 after that."""
        self.location = ""
        """The header `Location` of every response."""
        self.before_response: Callable[[], object] = lambda: None
        """Called after a request arrived, before it gets a response."""
        self.url = ""

    @property
    def states(self) -> list[str]:
        """The states of the notifications, in the order of arrival."""
        return [notification.state for notification in self.notifications]

    def accept(self, notification: Notification) -> int:
        """Record a request. Return the status of its response."""
        self.notifications.append(notification)
        self.before_response()
        return self.statuses.pop(0) if self.statuses else 200


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Generator[Receiver]:
    """Run a receiver on this machine.

    Args:
        tls: TLS context of the server; None for HTTP.
    """
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(self.rfile.read(length))
            status = receiver.accept(Notification(self.path, headers, body))
            self.send_response(status)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore connections that break: a test kills their sender."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    receiver.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
