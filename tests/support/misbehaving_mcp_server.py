"""A misbehaving MCP server over stdio: each of its tools violates the protocol in one way. Run it
with `python`.

It is written without the SDK, which prevents such violations. Arguments: `modern` selects the
newer protocol; `twins` lists two tools under one name; `pages` lists tools without end; `future`
announces an unknown protocol version. Tools whose question must be shown first wait for the file
`asked` in the working directory. The received answers are written to the file `heard`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

IS_MODERN = "modern" in sys.argv
TWINS = ("honest", "honest", "what.is", "what_is")
NAMES = (
    *(
        "honest",
        "late",
        "early",
        "dies",
        "deaf",
        "huge",
        "unfit",
        "impossible",
        "strange",
        "numbers",
        "same",
        "endless",
        "nothing",
    ),
    *(
        "forward",
        "backward",
        "babbling",
        "unending",
        "pesters",
        "again",
        "crowds",
        "recursive",
        "repeats",
        "asks",
        "task",
        "slow",
        "circle",
    ),
)
NOW = "2026-01-01T00:00:00Z"
MANY = 10_000
FEW = 200  # maximum number of answers that are written to the file
RECURSIVE: dict[str, Any] = {
    "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}},
    "type": "object",
    "properties": {"sure": {"$ref": "#/$defs/tree"}},
}
OVERLONG = int(os.environ.get("OVERLONG", "1"))
SLOW = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$|^(a|a)*!$"}}}
CIRCLE = {
    "type": "object",
    "$ref": "#",
    "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
IMPOSSIBLE: list[Any] = [
    {"type": "string", "enum": []},
    {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3},
    {"type": "integer", "minimum": 5, "maximum": 1},
    {"type": "string", "minLength": 9, "maxLength": 2},
    {"type": "sentence"},
]
heard: list[Any] = []
waiting: list[Any] = []
pestering: list[dict[str, Any]] = []


def say(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def form(question: str, **property: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"sure": {"type": "boolean", "title": question, **property}},
        "required": ["sure"],
    }
    return {"mode": "form", "message": question, "requestedSchema": schema}


def text(words: str, **besides: Any) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}], **besides}


def elicit(params: dict[str, Any]) -> None:
    say(id=f"elicited-{time.monotonic_ns()}", method="elicitation/create", params=params)


def wants(state: str, *questions: str) -> dict[str, Any]:
    requests = {
        f"q{number}": {"method": "elicitation/create", "params": form(question)}
        for number, question in enumerate(questions)
    }
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def tree() -> dict[str, Any]:
    return {**form("Which?"), "requestedSchema": RECURSIVE}


def until_somebody_was_asked() -> None:
    while not Path("asked").exists():
        time.sleep(0.01)


def call(id: Any, name: str, given: dict[str, Any] | None) -> None:
    state = str(id)
    match name:
        case "late":
            say(id=id, result=text("It is done."))
            elicit(form("Is it not too late?"))
        case "early":
            elicit(form("Does anybody wait for this?"))
            until_somebody_was_asked()
            say(id=id, result=text("It is done."))
        case "dies":
            elicit(form("Are you there?"))
            until_somebody_was_asked()
            die()
        case (
            "impossible"
            | "pesters"
            | "again"
            | "crowds"
            | "recursive"
            | "repeats"
            | "asks"
            | "task"
        ):
            ask(id, name, given)
        case "deaf":
            pass
        case "forward" | "backward" | "babbling" | "unending":
            flood(id, name)
        case "same" | "endless" | "nothing":
            say(
                id=id,
                result={
                    "same": wants("the same", "Again?"),
                    "endless": wants(state, f"Question {id}?"),
                }.get(name, wants(state)),
            )
        case _:
            say(id=id, result=results().get(name) or text("Yes."))


def ask(id: Any, name: str, given: dict[str, Any] | None) -> None:
    if name == "task":
        task(id, "tools/call")
    elif IS_MODERN:
        ask_in_a_result(id, name, given)
    else:
        push(id, name)


def ask_in_a_result(id: Any, name: str, given: dict[str, Any] | None) -> None:
    if given:
        hear({"result": given["q0"]})
        say(id=id, result=text("Yes."))
    else:
        many = name == "crowds"
        say(
            id=id,
            result=wants(name, *(f"Question {number}?" for number in range(MANY if many else 1))),
        )


def push(id: Any, name: str) -> None:
    match name:
        case "asks":
            elicit(form("Are you sure?"))
        case "impossible":
            for property in IMPOSSIBLE:
                elicit(
                    {
                        **form("Which?"),
                        "requestedSchema": {"type": "object", "properties": {"sure": property}},
                    }
                )
            waiting.append((id, len(IMPOSSIBLE)))
        case "pesters" | "again":
            pestering.append(tree() if name == "pesters" else form("Again?"))
            elicit(pestering[0])
        case "crowds":
            for number in range(MANY):
                elicit(form(f"Question {number}?"))
        case "recursive":
            elicit(tree())
            waiting.append((id, 1))
        case _:
            for _ in range(2):
                say(id="the same", method="elicitation/create", params=form("Are you sure?"))
            waiting.append((id, 2))


def task(id: Any, method: str) -> None:
    """Behave like a server that accepts a call only as a task and asks during the task."""
    state = {
        "taskId": "t1",
        "status": "working",
        "ttl": None,
        "pollInterval": 1,
        "createdAt": NOW,
        "lastUpdatedAt": NOW,
    }
    match method:
        case "tools/call":
            say(id=id, result={"task": state})
        case "tasks/result":
            elicit(form("Are you sure?"))
            waiting.append((id, len(heard) + 1))
        case "tasks/cancel":
            Path("cancelled").touch()
            say(id=id, result={**state, "status": "cancelled"})
        case _:
            Path("looked").touch()
            say(id=id, result=state)


def flood(id: Any, name: str) -> None:
    match name:
        case "forward":
            say(id=id, result=text("x" * OVERLONG))
        case "backward":
            write(json.dumps({"result": text("x" * OVERLONG), "jsonrpc": "2.0", "id": id}) + "\n")
        case "babbling":
            say(method="notifications/message", params={"level": "info", "data": "x" * OVERLONG})
        case _:
            while True:
                write("x" * 1_000_000)


def results() -> dict[str, dict[str, Any]]:
    """Return invalid results."""
    return {
        "huge": text("x" * int(os.environ.get("HUGE", "1"))),
        "unfit": text("three", structuredContent={"n": "three"}),
        "slow": text("Yes.", structuredContent={"s": "a" * 60 + "!"}),
        "circle": text("Yes.", structuredContent={"s": {}}),
        "strange": {"resultType": "banana", "ripe": True},
        "numbers": {"resultType": "complete", "content": 7},
    }


def die() -> None:
    sys.stderr.write("I am dying.\n")
    sys.stderr.flush()
    os._exit(3)


def hear(answer: dict[str, Any]) -> None:
    heard.append(answer.get("result") or answer.get("error"))
    if pestering:
        elicit(pestering[0])
    if len(heard) > FEW:
        return
    Path("heard.new").write_text(json.dumps(heard))
    Path("heard.new").replace("heard")
    if waiting and len(heard) == waiting[0][1]:
        say(id=waiting.pop()[0], result=text("It is done."))


def tools() -> list[dict[str, Any]]:
    names = TWINS if "twins" in sys.argv else NAMES
    listed: list[dict[str, Any]] = [
        {"name": name, "inputSchema": {"type": "object"}} for name in names
    ]
    if names is NAMES:
        for name, schema in (("unfit", NUMBER), ("slow", SLOW), ("circle", CIRCLE)):
            listed[NAMES.index(name)]["outputSchema"] = schema
        listed[NAMES.index("task")]["execution"] = {"taskSupport": "required"}
    return listed


def answer(message: dict[str, Any]) -> None:
    id = message.get("id")
    info: dict[str, Any] = {
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "liar", "version": "1"},
    }
    cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    match message.get("method"):
        case None:
            hear(message)
        case "server/discover" if IS_MODERN:
            say(id=id, result={"supportedVersions": ["2026-07-28"], **info, **cached})
        case "initialize":
            say(
                id=id,
                result={
                    "protocolVersion": "2099-01-01" if "future" in sys.argv else "2025-11-25",
                    **info,
                },
            )
        case "tools/list":
            more = {"nextCursor": str(id)} if "pages" in sys.argv else {}
            say(id=id, result={"tools": tools(), **more, **cached})
        case "tools/call":
            pestering.clear()
            call(id, message["params"]["name"], message["params"].get("inputResponses"))
        case "tasks/get" | "tasks/result" | "tasks/cancel" as method:
            task(id, method)
        case _ if id is not None:
            say(id=id, error={"code": -32601, "message": "Method not found"})
        case _:
            pass


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))
