"""A fake provider on the loopback interface for other programs' agents. It supports all wire
formats, returns scripted replies and records the requests.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from midturn.question.json_value import members, objects
from support.invented_decisions import check_statements
from support.loopback_server import JsonHandler, LoopbackServer
from support.providers.answers import Says, ToolUse
from support.providers.wires import stream, wire_of

Calls: TypeAlias = list[tuple[str, dict[str, Any]]]
Reply: TypeAlias = str | Calls | Callable[[str], Calls]
_FEWEST = (
    3  # minimum number of tools in a main request; side requests, such as for a title, have fewer
)


class FakeProvider(LoopbackServer):
    """Answers requests that offer tools with `replies`, in order. After the last one, and for all
    other requests, it answers "Done.".

    A reply is text or a list of calls `(name, arguments)`. A name of the form `group/tool` calls
    a tool of a tool group. If the calls depend on what the model has read, the reply is a
    function of the request text.
    """

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self._calls = 0
        self._session = secrets.token_hex(
            4
        )  # an agent that resumes its session knows the earlier IDs
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        owner = self

        class Handler(JsonHandler):
            def handle_get(self) -> None:
                owner.paths.append(self.path)
                self.send_json(
                    200,
                    {"object": "list", "data": [{"id": "fake", "object": "model"}], "models": []},
                )

            def handle_post(self) -> None:
                owner.paths.append(self.path)
                request = cast("dict[str, Any]", json.loads(self.body() or b"{}"))
                wire = wire_of(self.path)
                if wire is None:
                    self.send_json(200, _plain(self.path))
                    return
                says = owner._next(request)
                if wire == "google" or request.get("stream"):
                    self.send_stream(stream(wire, says))
                else:
                    self.send_json(200, _whole(says))

        super().__init__(Handler)
        check_statements(lambda: self.results)

    def then(self, *replies: Reply) -> None:
        """Replace the remaining replies."""
        with self._lock:
            self._replies[:] = replies

    @property
    def results(self) -> list[str]:
        """The tool results in the request that has the most of them."""
        with self._lock:
            found = [list(_results(request)) for request in self.requests]
        return max(found, key=len) if found else []

    @property
    def said(self) -> str:
        """The text of all requests."""
        with self._lock:
            return json.dumps(self.requests, ensure_ascii=False)

    def _next(self, request: dict[str, Any]) -> Says:
        with self._lock:
            self.requests.append(request)
            reply = (
                self._replies.pop(0) if self._replies and _offered(request) >= _FEWEST else "Done."
            )
        if isinstance(reply, str):
            return Says(text=reply)
        calls = reply(json.dumps(request)) if callable(reply) else reply
        with self._lock:
            uses: list[ToolUse] = []
            for name, arguments in calls:
                self._calls += 1
                group, _, tool = name.rpartition("/")
                uses.append(
                    ToolUse(tool, arguments, f"call_{self._session}_{self._calls:04}", group)
                )
            return Says(calls=tuple(uses))


def _offered(request: dict[str, Any]) -> int:
    """Return the number of tools in a request. Google's wire format groups them."""
    tools = cast("list[dict[str, Any]]", request.get("tools") or [])
    return sum(len(tool.get("functionDeclarations") or [tool]) for tool in tools)


def _results(request: dict[str, Any]) -> Iterator[str]:
    for message in objects(request.get("messages")):  # OpenAI's chat
        if message.get("role") == "tool":
            yield _text(message["content"])
    for item in objects(request.get("input")):  # OpenAI's responses
        if item.get("type") == "function_call_output":
            yield _text(item["output"])
    for content in objects(request.get("contents")):  # Google
        for part in objects(content.get("parts")):
            if "functionResponse" in part:
                yield json.dumps(members(part["functionResponse"])["response"], ensure_ascii=False)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(
        str(block.get("text", "")) for block in cast("list[dict[str, Any]]", content or [])
    )


def _plain(path: str) -> object:
    if "generateContent" in path:
        part = {"text": "{}"}
        return {
            "candidates": [
                {"content": {"parts": [part], "role": "model"}, "finishReason": "STOP", "index": 0}
            ]
        }
    return {"totalTokens": 10}


def _whole(says: Says) -> object:
    message: dict[str, Any] = {"role": "assistant", "content": says.text or None}
    if says.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in says.calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if says.calls else "stop",
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [choice],
        "usage": {},
    }
