"""A misbehaving MCP server over HTTP. Most of its tools violate the protocol, mainly with too
much data.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from support.loopback_server import JsonHandler, LoopbackServer

ENOUGH = 256 * 1024 * 1024
"""Maximum number of bytes to send, so that a failing test does not fill the memory."""
PIECE = b"x" * 65536
BEGINNING = b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "'
NAMES = (
    "honest",
    "chunked",
    "bare",
    "bomb",
    "event",
    "lines",
    "bombed",
    "broken",
    "silent",
    "large",
    "forgets",
    "half",
)
DOCUMENT, EVENTS = "application/json", "text/event-stream"
ENDLESS = {
    "chunked": (DOCUMENT, BEGINNING, PIECE),
    "bare": (DOCUMENT, BEGINNING, PIECE),
    "event": (EVENTS, b"event: message\ndata: ", PIECE),
    "lines": (EVENTS, b"event: message\r\n", b"data: x\r\n" * 8192),
}
BOMB = gzip.compress(b" " * 20_000_000)


class MisbehavingHttpServer:
    """State and counters of the server: `sent` bytes, called tools (`taken`), and number of
    `sessions`.
    """

    def __init__(self, era: str) -> None:
        self.is_modern = era == "modern"
        self.sent = 0
        self.taken: list[str] = []
        self.sessions = 0
        self.forgets: set[str] = set()
        self.status = 404
        self.streams_endlessly = False
        self.looks = 0

    @contextmanager
    def listening(self) -> Generator[str]:
        """Run the server during the block; yield its address."""
        owner = self

        class Handler(_Handler):
            liar = owner

        with LoopbackServer(Handler) as listening:
            yield listening.url


class _Handler(JsonHandler):
    liar: MisbehavingHttpServer

    def handle_get(self) -> None:
        """Answer a GET request: offer no event stream, or one with an event that never ends."""
        self.liar.looks += 1
        if self.liar.streams_endlessly:
            self._send_endlessly(EVENTS, b"event: message\ndata: ", PIECE)
        else:
            self.send_json(405, {})

    def do_DELETE(self) -> None:  # noqa: N802  name required by the library
        """Answer that the session does not exist."""
        self.send_json(404, {})

    def handle_post(self) -> None:
        """Answer protocol requests correctly, and calls with a violation."""
        message = json.loads(self.body())
        if "id" not in message:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        info: dict[str, Any] = {
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "liar", "version": "1"},
        }
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match message["method"]:
            case "server/discover" if self.liar.is_modern:
                self._result(message, {"supportedVersions": ["2026-07-28"], **info, **cached})
            case "initialize":
                self.liar.sessions += 1
                self._result(
                    message,
                    {"protocolVersion": "2025-11-25", **info},
                    session=str(self.liar.sessions),
                )
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
                self._result(message, {"tools": tools, **cached})
            case "tools/call":
                self._call(message, message["params"]["name"])
            case _:
                self.send_json(
                    200,
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "error": {"code": -32601, "message": "Method not found"},
                    },
                )

    def _call(self, message: dict[str, Any], name: str) -> None:
        session = self.headers.get("mcp-session-id")
        if self.liar.forgets and session in self.liar.forgets:
            self.send_json(
                self.liar.status,
                {
                    "jsonrpc": "2.0",
                    "id": None,
                    "error": {"code": -32000, "message": "No valid session ID"},
                },
            )
            return
        self.liar.taken.append(name)
        if name in ENDLESS:
            self._send_endlessly(*ENDLESS[name], chunked=name == "chunked")
        else:
            self._answer(message, name)
        self.close_connection = name != "honest"

    def _answer(self, message: dict[str, Any], name: str) -> None:
        match name:
            case "bomb" | "bombed":
                self._head(DOCUMENT if name == "bomb" else EVENTS, "gzip")
                self._write(BOMB)
            case "broken":
                self.send_response(200)
                self.send_header("content-type", DOCUMENT)
                self.send_header("content-length", "1000")
                self.end_headers()
                self._write(BEGINNING)
            case "silent":
                self.close_connection = True
            case "half":
                self._head(EVENTS)
                self._write(b"event: message\n")
            case "large":
                result = {"jsonrpc": "2.0", "id": message["id"], "result": _text("x" * 3_000_000)}
                self._head(EVENTS)
                self._write(b"event: message\r\ndata: " + json.dumps(result).encode() + b"\r\n\r\n")
            case _:
                self._result(message, _text("Yes."))

    def _result(self, message: dict[str, Any], result: dict[str, Any], session: str = "") -> None:
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", DOCUMENT)
        self.send_header("content-length", str(len(data)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(data)

    def _head(self, kind: str, coding: str = "") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        if coding:
            self.send_header("content-encoding", coding)
        self.send_header("connection", "close")
        self.end_headers()

    def _send_endlessly(
        self, kind: str, beginning: bytes, piece: bytes, *, chunked: bool = False
    ) -> None:
        """Send data without end, until the client disconnects."""
        if chunked:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        else:
            self._head(kind)
        self._write(_chunk(beginning) if chunked else beginning)
        while self.liar.sent < ENOUGH and self._write(_chunk(piece) if chunked else piece):
            pass

    def _write(self, data: bytes) -> bool:
        try:
            self.wfile.write(data)
        except OSError:
            return False
        self.liar.sent += len(data)
        return True


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _text(words: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}
