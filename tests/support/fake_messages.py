"""A fake provider on the loopback interface that speaks the Messages API. It returns scripted
replies and records the requests.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from typing import Any, cast

from support.fake_provider import Reply
from support.invented_decisions import check_statements
from support.loopback_server import JsonHandler, LoopbackServer

_NUMBERS = itertools.count(1)
"""Numbers the calls of all providers, so that a session that continues with another provider gets
no ID twice.
"""


class FakeMessages(LoopbackServer):
    """Answers requests that offer tools with `replies`, in order. After the last one, and for all
    other requests, it answers "Done.".

    A reply is text, a list of calls `(name, input)`, or a function that receives the request as
    text and returns such a list. `results` are the contents of all returned tool results, in
    order.
    """

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        owner = self

        class Handler(JsonHandler):
            def handle_post(self) -> None:
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
                    self.send_stream(
                        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
                        for event in _events(content)
                    )
                else:
                    self.send_json(200, _message(content))

        super().__init__(Handler)
        check_statements(lambda: self.results)

    def then(self, *replies: Reply) -> None:
        """Append replies to the script."""
        with self._lock:
            self._replies += replies

    @property
    def results(self) -> list[str]:
        """The tool results in the newest of the longest requests."""
        with self._lock:
            listed = [
                cast("list[dict[str, Any]]", request["messages"]) for request in self.requests
            ]
        longest = (
            max(reversed(listed), key=len) if listed else []
        )  # the newest of the longest: agents merge consecutive messages
        blocks = [block for message in longest for block in _blocks(message["content"])]
        return [
            _text(block.get("content")) for block in blocks if block.get("type") == "tool_result"
        ]

    @property
    def said(self) -> str:
        """The text of all requests."""
        with self._lock:
            return json.dumps(self.requests)

    def _next(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            self.requests.append(request)
            reply = (
                self._replies.pop(0)
                if request.get("tools") and self._replies and _is_main(request)
                else "Done."
            )
        if isinstance(reply, str):
            return [{"type": "text", "text": reply}]
        calls = reply(json.dumps(request)) if callable(reply) else reply
        with self._lock:
            blocks: list[dict[str, Any]] = []
            for name, given in calls:
                blocks.append(
                    {
                        "type": "tool_use",
                        "id": f"toolu_{next(_NUMBERS):04}",
                        "name": name,
                        "input": given,
                    }
                )
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
    shape = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "stop_sequence": None,
    }
    return {**shape, "content": content, "stop_reason": stop, "usage": usage}


def _events(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    whole = _message(content)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    ]
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
    ended = {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    return [*events, ended, {"type": "message_stop"}]
