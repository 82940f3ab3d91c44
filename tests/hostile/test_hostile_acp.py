"""Hostile peers of the Agent Client Protocol: an agent under `midturn acp run`, and an editor of
`midturn acp`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine, Process
from support.hooks import answers, stored, until

pytestmark = pytest.mark.timeout(600)
CODES = "\x1b]52;c;aGk=\x07\x1b[2J\u202e"
AGENT = r"""
import json, sys
attack = json.loads(sys.argv[1])
def send(raw):
    sys.stdout.write(raw if isinstance(raw, str) else json.dumps({"jsonrpc": "2.0", **raw}))
    sys.stdout.write("\n"); sys.stdout.flush()
prompt = None
for line in sys.stdin:
    said = json.loads(line)
    if said.get("method") == "initialize":
        send({"id": said["id"], "result": {"protocolVersion": 1, "agentInfo": {"name": attack.get("name", "probe"), "version": "1"}}})
    elif said.get("method") == "session/new":
        send({"id": said["id"], "result": {"sessionId": attack.get("session", "s1")}})
    elif said.get("method") == "session/prompt":
        prompt = said["id"]
        for one in attack["sends"]:
            send(one["raw"] * one.get("times", 1) if "raw" in one else one)
        if not attack.get("waits"):
            send({"id": "last", "method": "session/nothing_of_this_name", "params": {}})
    elif said.get("id") == "last":
        send({"id": prompt, "result": {"stopReason": "end_turn"}})
    elif "id" in said and "method" not in said:
        with open(sys.argv[2], "a") as file:
            file.write(json.dumps(said) + "\n")
        if attack.get("waits"):
            send({"id": prompt, "result": {"stopReason": "end_turn"}})
"""
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def permission(number: int, command: str, /, call: str = "c1", **fields: Any) -> dict[str, Any]:
    tool_call = {
        "toolCallId": call,
        "title": "Make it",
        "kind": "execute",
        "rawInput": {"command": command},
        **fields,
    }
    return {
        "id": number,
        "method": "session/request_permission",
        "params": {"sessionId": "s1", "toolCall": tool_call, "options": OPTIONS},
    }


def method(name: str, **params: Any) -> dict[str, Any]:
    return {"id": 7, "method": name, "params": {"sessionId": "s1", **params}}


def chunk(text: str) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"sessionId": "s1", "update": update}}


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    user = CommandLine(tmp_path)
    (user.home / "secret").write_text("canary")
    return user


def start(midturn: CommandLine, *sends: Mapping[str, Any], **fields: str) -> Process:
    given = json.dumps({"sends": sends, **fields})
    return midturn.start(
        "acp",
        "run",
        "--prompt",
        "Go",
        "--",
        sys.executable,
        "-c",
        AGENT,
        given,
        str(midturn.home / "heard"),
    )


def received_messages(midturn: CommandLine) -> list[dict[str, Any]]:
    """Return the messages that the agent received."""
    file = midturn.home / "heard"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


OUTSIDE = "/etc/passwd"
AGENTS: dict[str, list[Mapping[str, Any]]] = {
    "reads a file": [method("fs/read_text_file", path=OUTSIDE)],
    "writes a file": [method("fs/write_text_file", path="../home/evil", content="x")],
    "makes a terminal": [method("terminal/create", command="touch", args=["ran"])],
    "calls what is private": [
        method("_prompt", prompt="x"),
        method("__init__"),
        method("on_connect", conn=None),
    ],
    "answers what was never asked": [
        {"id": 99, "result": {"stopReason": "end_turn"}},
        {"id": None, "result": {}},
    ],
    "writes to the terminal in what it says": [chunk(CODES)],
    "updates what it never began": [
        method(
            "session/update",
            update={
                "sessionUpdate": "tool_call_update",
                "toolCallId": "of another",
                "status": "completed",
            },
        )
    ],
    "sends what is no message": [{"raw": "}{"}, {"raw": "null"}, {"raw": "[]"}, {"raw": '"x"'}],
    "nests without end": [{"raw": '{"a":', "times": 100_000}],
    "says very much": [{"raw": "x", "times": 10_000_000}],
}


@pytest.mark.parametrize("name", AGENTS)
def test_agent_gets_only_answers_of_people(midturn: CommandLine, name: str) -> None:
    run = start(midturn, *AGENTS[name])
    said, errors = run.communicate(timeout=120)

    assert "Traceback" not in errors, errors
    assert "\x1b" not in errors
    assert "root:" not in said + "".join(map(json.dumps, received_messages(midturn)))
    assert all("error" in reply for reply in received_messages(midturn)), received_messages(midturn)
    assert not (midturn.root / "ran").exists()
    assert not (midturn.home / "evil").exists()
    assert stored(midturn) == []


@pytest.mark.parametrize(
    ("second", "allowed"),
    [
        (permission(2, "touch evil"), {1: "yes"}),
        (permission(1, "touch evil"), {1: "yes"}),
        (permission(2, "touch evil", title="Make it"), {1: "yes"}),
        (permission(2, "touch good", kind="delete"), {1: "yes"}),
        (permission(2, "touch good ", call="c2"), {1: "yes"}),
    ],
    ids=[
        "another command",
        "under the same request",
        "under the same title",
        "as another tool",
        "with a blank more",
    ],
)
def test_yes_does_not_apply_to_another_call_with_the_same_id(
    midturn: CommandLine, second: Mapping[str, Any], allowed: dict[int, str]
) -> None:
    run = start(midturn, permission(1, "touch good"), second, waits="an answer")
    waiting = until(
        lambda: midturn.ok("inbox", "--json").json, lambda questions: len(questions) == 2
    )
    good = next(
        one
        for one in waiting
        if one["arguments"] == {"command": "touch good"} and one["tool"] == "execute"
    )

    midturn.ok("answer", good["id"], "y")
    run.communicate(timeout=120)

    assert {
        reply["id"]: reply["result"]["outcome"].get("optionId")
        for reply in received_messages(midturn)
        if "optionId" in str(reply)
    } == allowed
    assert [[event["state"] for event in answers(events)] for events in stored(midturn)].count(
        ["approved"]
    ) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"name": CODES},
        {"session": CODES},
        {"session": "../../../evil"},
        {"session": ""},
        {"name": "the user"},
    ],
    ids=[
        "its name acts",
        "its session acts",
        "its session is a path",
        "no session",
        "a person's name",
    ],
)
def test_texts_of_an_agent_have_no_effect(midturn: CommandLine, fields: dict[str, str]) -> None:
    run = start(midturn, permission(1, f"ls {CODES}", title=CODES), waits="an answer", **fields)
    (question,) = until(lambda: midturn.ok("inbox", "--json").json, bool)

    shown = [
        midturn.ok(*command).stdout
        for command in (
            ("inbox",),
            ("inbox", "--all"),
            ("conversation", "ls"),
            ("conversation", "show"),
        )
    ]
    midturn.ok("answer", question["id"], "n")
    _, errors = run.communicate(timeout=120)

    assert not [text for text in (*shown, errors) if "\x1b" in text or "\u202e" in text]
    assert not (midturn.home / "evil").exists()


# A hostile editor -------------------------------------------------------------------------------
# -------------------------


def request(name: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": params})


HELLO = json.dumps(
    {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {"protocolVersion": 1}}
)
EDITORS = {
    "a session at a path": request(
        "session/load", sessionId="../../evil", cwd="{cwd}", mcpServers=[]
    ),
    "a session that acts": request("session/resume", sessionId=CODES, cwd="{cwd}", mcpServers=[]),
    "a prompt to no session": request(
        "session/prompt", sessionId="1", prompt=[{"type": "text", "text": "x"}]
    ),
    "a directory that is a file": request("session/new", cwd="/etc/passwd", mcpServers=[]),
    "a directory with a NUL": request("session/new", cwd="/tmp\0", mcpServers=[]),
    "a directory that is relative": request("session/new", cwd="../..", mcpServers=[]),
    "a cursor that is a statement": request(
        "session/list", cwd="/etc/passwd", cursor="' or 1=1 --"
    ),
    "a server of the workspace": request("session/new", cwd="{cwd}", mcpServers="./ran"),
    "a method that is private": request("_session", id="x"),
    "an answer to nothing": json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"outcome": {"outcome": "selected", "optionId": "allow"}},
        }
    ),
    "no message": "}{",
    "nesting without end": '{"a":' * 100_000,
    "no object": "[[]]",
}


@pytest.mark.parametrize("name", EDITORS)
def test_hostile_editor_gets_an_error_or_is_disconnected(midturn: CommandLine, name: str) -> None:
    sent = EDITORS[name].replace("{cwd}", str(midturn.root))
    run = midturn.run("acp", stdin=f"{HELLO}\n{sent}\n{HELLO}\n")

    replies = [json.loads(line) for line in run.stdout.splitlines()]
    assert [reply["id"] for reply in replies if "result" in reply] in (
        ["hello", "hello"],
        ["hello"],
    ), run
    assert "Traceback" not in run.stderr, run.stderr
    assert "\x1b" not in run.stderr
    assert midturn.conversations() == []
    assert not (midturn.home / "evil").exists()
