"""A provider on loopback that speaks the Messages API: it says what it was told to say, and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast


class FakeMessages:
    """Answers requests that offer tools with `replies`, one after the other; then, and to everything else, with "Done.".

    A reply is text, or a list of calls `(name, input)`. `results` are the contents of all tool results that came back, in order.
    """

    def __init__(self, replies: Sequence[str | list[tuple[str, dict[str, Any]]]]) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self._calls = 0
        self.requests: list[dict[str, Any]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._plain(404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if "count_tokens" in self.path:
                    self._plain(200, {"input_tokens": 10})
                    return
                if "/messages" not in self.path:
                    self._plain(200, {})
                    return
                request = cast("dict[str, Any]", json.loads(body))
                content = owner._next(request)
                if request.get("stream"):
                    self._stream(content)
                else:
                    self._plain(200, _message(content))

            def _plain(self, status: int, value: object) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, content: list[dict[str, Any]]) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for event in _events(content):
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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

    @property
    def results(self) -> list[str]:
        """What the model has read as results of its calls, in the newest request."""
        with self._lock:
            listed = [cast("list[dict[str, Any]]", request["messages"]) for request in self.requests]
        longest = max(listed, key=len) if listed else []
        blocks = [block for message in longest for block in _blocks(message["content"])]
        return [_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]

    @property
    def said(self) -> str:
        """Everything that stood in any request."""
        with self._lock:
            return json.dumps(self.requests)

    def _next(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            self.requests.append(request)
            reply = self._replies.pop(0) if request.get("tools") and self._replies and _is_main(request) else "Done."
            if isinstance(reply, str):
                return [{"type": "text", "text": reply}]
            blocks: list[dict[str, Any]] = []
            for name, given in reply:
                self._calls += 1
                blocks.append({"type": "tool_use", "id": f"toolu_{self._calls:04}", "name": name, "input": given})
            return blocks


def _is_main(request: dict[str, Any]) -> bool:
    return len(request["tools"]) > 2


def _blocks(content: object) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = cast("list[dict[str, Any]]", content or [])
    return "".join(str(block.get("text", "")) for block in blocks)


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    stop = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
    usage = {"input_tokens": 10, "output_tokens": 5}
    shape = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "stop_sequence": None}
    return {**shape, "content": content, "stop_reason": stop, "usage": usage}


def _events(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    whole = _message(content)
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            start: dict[str, Any] = {"type": "text", "text": ""}
            delta: dict[str, Any] = {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": 5}}
    return [*events, ended, {"type": "message_stop"}]
