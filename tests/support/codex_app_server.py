"""A fake Codex app server. The prompt selects what it asks, and it reports the answers as text."""

from __future__ import annotations

import json
import sys
from typing import Any

COMMAND = {
    "itemId": "i1",
    "threadId": "t1",
    "turnId": "u1",
    "startedAtMs": 1,
    "command": "touch made",
    "cwd": "/w",
    "reason": None,
}
CHANGE = {"itemId": "i2", "threadId": "t1", "turnId": "u1", "startedAtMs": 1, "reason": None}
PERMISSIONS = {**CHANGE, "itemId": "i3", "cwd": "/w", "permissions": {"network": {"enabled": True}}}
QUESTION = {
    "id": "env",
    "header": "Env",
    "question": "Which env?",
    "options": [{"label": "prod", "description": ""}],
    "isOther": True,
}
ELICITED = {"threadId": "t1", "turnId": None, "serverName": "cloud", "message": "Where to?"}
SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "enum": ["eu", "us"]}},
    "required": ["region"],
}
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "command": ("item/commandExecution/requestApproval", COMMAND),
    "change": ("item/fileChange/requestApproval", CHANGE),
    "permissions": ("item/permissions/requestApproval", PERMISSIONS),
    "question": (
        "item/tool/requestUserInput",
        {"questions": [QUESTION], "itemId": "i4", "isBlocking": True},
    ),
    "secret": (
        "item/tool/requestUserInput",
        {"questions": [{**QUESTION, "isSecret": True}], "itemId": "i4", "isBlocking": True},
    ),
    "form": (
        "mcpServer/elicitation/request",
        {**ELICITED, "mode": "form", "requestedSchema": SCHEMA},
    ),
    "address": (
        "mcpServer/elicitation/request",
        {**ELICITED, "mode": "url", "url": "https://example.org/in", "elicitationId": "e1"},
    ),
    "nested": (
        "mcpServer/elicitation/request",
        {**ELICITED, "mode": "form", "requestedSchema": {"properties": {"a": {"type": "object"}}}},
    ),
    "future": ("item/from/theFuture", {"x": 1}),
}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def ask(number: int, kind: str, **besides: Any) -> None:
    method, params = ASKS[kind]
    send(method=method, id=number, params={**params, **besides})


def say(words: str, status: str = "completed") -> None:
    """Send a message to the user, and end the turn."""
    send(
        method="item/agentMessage/delta",
        params={"delta": words, "itemId": "m", "threadId": "t1", "turnId": "u1"},
    )
    error = {"message": "the model is away"} if status == "failed" else None
    send(
        method="turn/completed",
        params={
            "threadId": "t1",
            "turn": {"id": "u1", "status": status, "items": [], "error": error},
        },
    )


class Server:
    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.expected = 0
        self.is_interrupted = False

    def take(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={"userAgent": "fake"})
            case "thread/start" | "thread/resume":
                send(
                    id=message["id"],
                    result={"thread": {"id": message["params"].get("threadId", "t1")}},
                )
            case "turn/start":
                send(id=message["id"], result={"turn": {"id": "u1"}})
                self.prompted(message["params"]["input"][0]["text"])
            case "turn/interrupt":
                send(id=message["id"], result={})
                self.interrupted()
            case None:
                self.answered(message)
            case _:
                pass

    def prompted(self, prompt: str) -> None:
        match prompt:
            case "die":
                sys.exit(3)
            case "garbage":
                sys.stdout.write("this is no JSON\n[1, 2]\n7\n")
                say("still here")
            case "fail":
                say("", "failed")
            case "both":
                self.expected = 2
                ask(10, "command")
                ask(11, "command", command="touch other", itemId="i9")
            case "elsewhere":
                self.expected = 1
                ask(10, "command")
                send(method="serverRequest/resolved", params={"threadId": "t1", "requestId": 10})
                say("it was decided elsewhere")
            case _ if prompt.startswith("{"):
                self.expected = 1
                self.asks(json.loads(prompt))
            case _ if prompt in ASKS:
                self.expected = 1
                if prompt == "change":
                    changes = [{"path": "a.txt", "kind": {"type": "add"}, "diff": "+a"}]
                    send(
                        method="item/started",
                        params={"item": {"type": "fileChange", "id": "i2", "changes": changes}},
                    )
                ask(10, prompt)
            case _:
                say(f"heard: {prompt}")

    def asks(self, document: dict[str, Any]) -> None:
        """Ask for a form or a permission, as the document says."""
        if "form" in document:
            ask(10, "form", message=document["message"], requestedSchema=document["form"])
        else:
            ask(10, "command", command=document["permission"])

    def interrupted(self) -> None:
        """End the turn after the open requests are answered."""
        self.is_interrupted = True
        if not self.expected:
            say("interrupted", "interrupted")

    def answered(self, message: dict[str, Any]) -> None:
        """Record an answer. After the last one, report all of them."""
        self.answers[message["id"]] = message.get("result", message.get("error"))
        if len(self.answers) == self.expected:
            said, self.answers = [self.answers[number] for number in sorted(self.answers)], {}
            cancelled = any(answer.get("decision") == "cancel" for answer in said)
            self.expected = 0
            end = "interrupted" if self.is_interrupted else ""
            say(json.dumps(said) + end, "interrupted" if cancelled or end else "completed")


if __name__ == "__main__":
    server = Server()
    for line in sys.stdin:
        server.take(json.loads(line))
