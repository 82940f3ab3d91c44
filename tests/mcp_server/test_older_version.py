"""Clients whose open dialogs can be withdrawn only in the older protocol version.

Where a dialog cannot be withdrawn, it tells the person that the question is already
answered.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.mcp_server.server import would_keep_dialogs
from support.cli import CommandLine
from support.hooks import wait_for
from support.warm_commands import started_by_others

pytestmark = pytest.mark.timeout(600)
TASKS: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
AT_A_TERMINAL = {"CLAUDE_CODE_SESSION_ATTENDED": "1"}
ASKED = {"question": "Ship it?", "answer_type": "boolean"}


def meta(name: str, **extensions: Any) -> dict[str, Any]:
    """Return the metadata that a client sends with each request of the newer version."""
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": extensions}
    said: dict[str, Any] = {
        "protocolVersion": "2026-07-28",
        "clientInfo": {"name": name, "version": "1"},
        "clientCapabilities": capabilities,
    }
    return {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in said.items()}}


KEEPS: list[tuple[str, dict[str, Any], bool]] = [
    ("copilot-cli", {}, True),
    ("claude-code", TASKS, False),
    ("claude-code", {}, True),
]
LEAVES: list[tuple[str, dict[str, Any], bool]] = [
    ("claude-code", TASKS, True),
    ("codex-mcp-client", {}, True),
    ("somebody", {}, True),
]


def test_the_older_version_is_for_clients_with_dialogs_and_without_tasks() -> None:
    said = [
        would_keep_dialogs(meta(name, **has), AT_A_TERMINAL, tasks=tasks)
        for name, has, tasks in (*KEEPS, *LEAVES)
    ]
    assert said == [True] * len(KEEPS) + [False] * len(LEAVES)


def test_without_a_terminal_the_newer_version_is_used() -> None:
    assert not would_keep_dialogs(
        meta("claude-code"), {"CLAUDE_CODE_SESSION_ATTENDED": "0"}, tasks=True
    )


@pytest.mark.parametrize(
    "params",
    [
        None,
        7,
        [],
        {"_meta": 7},
        {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": ["copilot-cli"]}}},
    ],
)
def test_malformed_client_metadata_is_left_to_the_library(params: Any) -> None:
    assert not would_keep_dialogs(params, {}, tasks=True)


class LineClient:
    """A client that exchanges single lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, **message: Any) -> None:
        """Send a message."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def wait_for_message(self, **fields: Any) -> Any:
        """Wait for a message with these fields, and return it."""
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            if all(message.get(key) == value for key, value in fields.items()):
                return message
        raise AssertionError("the server has gone")


@contextmanager
def line_client(midturn: CommandLine) -> Generator[LineClient]:
    """Start the server the way an agent does, in a forked process."""
    pipe = subprocess.PIPE
    environment = {**midturn.environment, "CLAUDE_CODE_SESSION_ATTENDED": "1"}
    process = subprocess.Popen(
        [*started_by_others(), "mcp"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        cwd=midturn.root,
        env=environment,
    )
    try:
        yield LineClient(process)
    finally:
        process.kill()
        process.communicate(timeout=120)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """Return a user's environment with a home directory and a workspace."""
    return CommandLine(tmp_path)


def test_a_dialog_is_withdrawn_when_somebody_answers_elsewhere(midturn: CommandLine) -> None:
    with line_client(midturn) as talk:
        talk.send(id=0, method="server/discover", params=meta("copilot-cli"))
        refused = talk.wait_for_message(id=0)
        client = {"name": "copilot-cli", "version": "1"}
        talk.send(
            id=1,
            method="initialize",
            params={
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": client,
            },
        )
        talk.wait_for_message(id=1)
        talk.send(method="notifications/initialized")
        talk.send(id=2, method="tools/call", params={"name": "ask_user", "arguments": ASKED})
        shown = talk.wait_for_message(method="elicitation/create")
        (question,) = wait_for(midturn)
        told = midturn.ok("answer", question["id"], "n")
        withdrawn = talk.wait_for_message(method="notifications/cancelled")
        result = talk.wait_for_message(id=2)

    assert refused["error"]["code"] == -32601
    assert withdrawn["params"]["requestId"] == shown["id"]
    assert "The user answered: no" in json.dumps(result)
    assert told.stderr.endswith("midturn: answered. Copilot CLI continues.\n")


def test_an_open_dialog_says_that_the_question_was_answered_elsewhere(midturn: CommandLine) -> None:
    with line_client(midturn) as talk:
        said = meta("claude-code", **TASKS)
        talk.send(id=0, method="server/discover", params=said)
        talk.wait_for_message(id=0)
        talk.send(
            id=1, method="tools/call", params={"name": "ask_user", "arguments": ASKED, **said}
        )
        task = talk.wait_for_message(id=1)["result"]["taskId"]
        talk.send(id=2, method="tasks/get", params={"taskId": task, **said})
        shown = talk.wait_for_message(id=2)["result"]["status"]
        (question,) = wait_for(midturn)
        told = midturn.ok("answer", question["id"], "n")

    assert shown == "input_required"
    assert question["asker"]["keeps_dialog"] is True
    assert told.stderr.endswith(
        "midturn: answered. Claude Code continues when its own dialog, if open, is closed.\n"
    )
