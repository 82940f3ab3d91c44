"""A provider on loopback that speaks the Messages API: it says what it was told to say, and keeps what it was sent."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from typing import Any, cast

from support.fake_provider import Reply
from support.listening import JsonHandler, Listening
from support.no_lie import heard

_NUMBERS = itertools.count(1)
"""Of calls: a session that goes on with another provider has no id twice."""


class FakeMessages(Listening):
    """Answers requests that offer tools with `replies`, one after the other; then, and to everything else, with "Done.".

    A reply is text, a list of calls `(name, input)`, or a function that returns such a list for the request, as text.
    `results` are the contents of all tool results that came back, in order.
    """

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        owner = self

        class Handler(JsonHandler):
            def sent(self) -> None:
                body = self.body()
                if "count_tokens" in self.path:
                    self.send_json(200, {"input_tokens": 10})
                    return
                if "/messages" not in self.path:
                    self.send_json(200, {})
                    return
                request = cast("dict[str, Any]", json.loads(body))
                content = owner._next(request)
                if request.get("stream"):
                    self.send_stream(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in _events(content))
                else:
                    self.send_json(200, _message(content))

        super().__init__(Handler)
        heard(lambda: self.results)

    def then(self, *replies: Reply) -> None:
        """Say these, once what was to be said is said."""
        with self._lock:
            self._replies += replies

    @property
    def results(self) -> list[str]:
        """What the model has read as results of its calls, in the newest request."""
        with self._lock:
            listed = [cast("list[dict[str, Any]]", request["messages"]) for request in self.requests]
        longest = max(reversed(listed), key=len) if listed else []  # the newest of them: agents join what follows each other
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
        calls = reply(json.dumps(request)) if callable(reply) else reply
        with self._lock:
            blocks: list[dict[str, Any]] = []
            for name, given in calls:
                blocks.append({"type": "tool_use", "id": f"toolu_{next(_NUMBERS):04}", "name": name, "input": given})
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
